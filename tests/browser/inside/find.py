"""In the image of tests/browser/Dockerfile: searches a site for words, and prints the titles that it finds, as JSON.

python3 find.py PAGE WORDS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from look import address, open_browser  # type: ignore[import-not-found]  # beside it in the container
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

WAIT_S = 60.0


def main(page: Path, words: str) -> None:
    browser = open_browser()
    try:
        browser.set_window_size(1280, 900)
        browser.get(address(page))
        browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys(words)
        titles = WebDriverWait(browser, WAIT_S).until(
            lambda seen: seen.find_elements(By.CSS_SELECTOR, ".md-search-result__article h1")
        )
        print(json.dumps([each.text for each in titles]))
    finally:
        browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
