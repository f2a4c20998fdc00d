"""In the image of tests/browser/Dockerfile: opens a page in Chromium, and prints what is there to be seen, as JSON.

    python3 look.py PAGE AXE WIDTH...

PAGE is a file, AXE is axe-core's script. The page is looked at in each WIDTH, in pixels of CSS, in light and in dark.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

HERE = Path(__file__).resolve().parent
HEIGHT = 900
SCHEMES = ("light", "dark")
# No sandbox: a container has no user namespaces of its own. No GPU, and /dev/shm is small there.
# With a mouse: without one, a page may leave out what is reached by keyboard.
MOUSE = "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    f"--blink-settings={MOUSE}",
)
SEEN = """
const all = (what, of) => [...document.querySelectorAll(what)].map(of);
const target = each => each.getAttribute('href');
const named = to => document.getElementById(decodeURIComponent(to.slice(1)));
const leads = to => to === '#' || (to.startsWith('#') && !!named(to));
const shown = each => each.getClientRects().length > 0;
const whole = each => each.ownerSVGElement ? whole(each.ownerSVGElement) : each;
const box = each => each.getBoundingClientRect();
const within = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
  && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
// Lines may touch: a letter's box is higher than the letter.
const covers = (one, other) =>
  Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2
  && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 0.4 * Math.min(one.height, other.height);
const texts = all('svg text', each => ({text: each.textContent.trim(), box: box(each), picture: whole(each)}))
  .filter(each => each.text);
return {
  title: document.title,
  text: document.body.innerText,
  headings: all('h1, h2, h3', each => each.innerText),
  facts: Object.fromEntries(all('dl.facts div', each => [...each.children].map(part => part.innerText))),
  tables: Object.fromEntries(all('table', each => [each.caption ? each.caption.innerText : '', each.rows.length])),
  images: all('img', each => ({alt: each.alt, width: each.naturalWidth, shown: shown(each)})),
  curves: all('svg polyline', each => each.getTotalLength()),
  cut: texts.filter(each => !within(each.box, box(each.picture))).map(each => each.text),
  covered: texts.flatMap((one, place) => texts.slice(place + 1)
    .filter(other => other.picture === one.picture && covers(one.box, other.box))
    .map(other => [one.text, other.text])),
  links: all('a[href]', each => ({to: target(each), leads: leads(target(each))})),
  asked: performance.getEntriesByType('resource').map(each => each.name).filter(each => !each.startsWith('data:')),
  width: document.documentElement.scrollWidth,
  background: getComputedStyle(document.body).backgroundColor,
  navigates: all('nav', shown),
};
"""
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document).then(found => done(found), error => done({broken: String(error)}));
"""


def address(page: Path) -> str:
    """Of a page that stands alone its file's; of a page of a site one where that is served, as a search asks for it."""
    site = HERE / "site"
    if site not in page.parents:
        return page.resolve().as_uri()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/{page.relative_to(site)}"


def open_browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for each in OPTIONS:
        options.add_argument(each)
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def emulate(browser: webdriver.Chrome, width: int, **media: str) -> None:
    """Look at the page as a screen of `width` does, or as paper (`media="print"`), in a colour scheme (`scheme`)."""
    size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": media.get("scheme", "light")}]
    medium = {"media": media.get("media", "screen"), "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", medium)


def audit(browser: webdriver.Chrome, axe: str) -> dict[str, Any]:
    """What axe-core finds wrong, by rule, and how many rules it has found kept."""
    browser.execute_script(axe)
    found = browser.execute_async_script(AXE)
    if "broken" in found:
        raise RuntimeError(found["broken"])
    browser.get_log("browser")  # its own words are no fault of the page, nor of the next one
    wrong = {each["id"]: [node["html"] for node in each["nodes"]] for each in found["violations"]}
    return {
        "version": found["testEngine"]["version"],
        "wrong": wrong,
        "kept": [each["id"] for each in found["passes"]],
    }


def look(browser: webdriver.Chrome, page: str, axe: str, width: int, scheme: str) -> dict[str, Any]:
    """What is there on a screen of `width`; `picture` is the whole page as PNG in base64, `top` the first screen."""
    emulate(browser, width, scheme=scheme)
    browser.get(page)
    seen: dict[str, Any] = browser.execute_script(SEEN)
    top = browser.execute_cdp_cmd("Page.captureScreenshot", {})
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
    said = [each["message"] for each in browser.get_log("browser")]
    told = {"given": width, "scheme": scheme, "top": top["data"], "picture": picture["data"], "console": said}
    return {**seen, **told, "axe": audit(browser, axe)}


def paper(browser: webdriver.Chrome, page: str, width: int) -> dict[str, Any]:
    """What is there on paper; `pages` is a PDF in base64."""
    emulate(browser, width, media="print", scheme="dark")
    browser.get(page)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    return {**browser.execute_script(SEEN), "pages": printed["data"]}


def main(page: Path, axe: Path, widths: list[int]) -> None:
    browser = open_browser()
    try:
        where, script = address(page), axe.read_text()
        views = [look(browser, where, script, width, scheme) for width in widths for scheme in SCHEMES]
        told = {"browser": browser.capabilities["browserVersion"], "views": views}
        print(json.dumps({**told, "paper": paper(browser, where, widths[0])}))
    finally:
        browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(each) for each in sys.argv[3:]])
