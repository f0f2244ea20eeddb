"""Take the screenshots of the web page for the documentation.

    python tools/make_screenshots.py [FOLDER]

A sample store is served and opened in a real browser.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page
from sample_store import make_sample_store

from holdfast.surfaces.bench.clients import serve

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.browser import browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE = {"width": 1100, "height": 740}
PHONE = {"width": 390, "height": 760}


def search(page: Page) -> None:
    page.get_by_role("searchbox").fill("how do we take a deploy back?")
    page.locator(".hits > li").first.get_by_text("Why", exact=True).click()


def time(page: Page) -> None:
    page.get_by_label("Change", exact=True).fill("2")
    page.locator(".change ins").first.wait_for()


def nothing(_: Page) -> None:
    """Leave the view as it opens."""


PICTURES = {
    "page-search.png": ("#/search", WIDE, "light", search),
    "page-time.png": ("#/time", WIDE, "light", time),
    "page-graph.png": ("#/graph?namespace=shop&include_invalidated=true", WIDE, "dark", nothing),
    "page-conflicts.png": ("#/conflicts", WIDE, "light", nothing),
    "page-phone.png": ("#/search?q=cache", PHONE, "dark", nothing),
}


def picture(opened: Browser, url: str, name: str, folder: Path) -> None:
    address, size, scheme, prepare = PICTURES[name]
    with opened.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce", locale="en-GB") as visitor:
        page = visitor.new_page()
        page.goto(f"{url}/{address}")
        page.locator("main h1").wait_for()
        prepare(page)
        page.wait_for_load_state("networkidle")
        page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        page.screenshot(path=folder / name, animations="disabled")


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, serve(make_sample_store(Path(place))) as server, browser() as opened:
        for name in PICTURES:
            picture(opened, server.url, name, folder)
            print(f"{folder / name}: {(folder / name).stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
