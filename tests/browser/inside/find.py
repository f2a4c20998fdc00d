"""In the image of tests/browser/Dockerfile: searches a site for words, until a title that it finds has a text.

python3 find.py PAGE WORDS TEXT

The results change with each key that is typed, so all of them are read in one script.
"""

from __future__ import annotations

import sys
from pathlib import Path

from look import address, open_browser  # type: ignore[import-not-found]  # beside it in the container
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

WAIT_S = 60.0
TITLES = "return [...document.querySelectorAll('.md-search-result__article h1')].map(each => each.innerText)"


def main(page: Path, words: str, text: str) -> None:
    browser = open_browser()
    try:
        browser.set_window_size(1280, 900)
        browser.get(address(page))
        browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys(words)
        WebDriverWait(browser, WAIT_S).until(
            lambda seen: any(text in title for title in seen.execute_script(TITLES)),
            f"no title that was found has the text {text!r}",
        )
    finally:
        browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
