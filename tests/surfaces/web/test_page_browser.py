"""The web page in a real browser, on a store with something in every view."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from serving import serve_app, with_settings

import holdfast
from benchmarks.browser import browser as launched
from holdfast.surfaces.http.app import build_app
from timeouts import TIMEOUT

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
from sample_store import AGENT, make_sample_store

expect.set_options(timeout=TIMEOUT * 1000)
SECRET = "the-key-of-the-owner"
MANY = 2_000
MAX_ANSWER_BYTES = 200_000
"""Bytes: no list brings more than a page of itself."""
VIEWS = {
    "search": "Most important",
    "search?q=when+do+we+deploy": "Deploy day",
    "memories": "Cache: 2 GB",
    "memories?state=archived": "Old wiki",
    "time": "last changed first",
    "graph?namespace=shop": "derived from",
    "reflections": "Caches grow with the catalogue",
    "stale": "superseded",
    "conflicts": "goulash",
    "sync": "desk",
    "conversations": "ada on slack",
    "facts?principal=ada": "Europe/Berlin",
    "lessons": "Run the migration on a copy first.",
    "tasks": "Watch the payment errors",
    "tasks?which=running": "Warm the cache",
    "tasks?which=failed": "The mail server is away.",
    "skills": "How the shop is deployed",
    "usage": "model-one",
    "audit": "Run audit",
    "health": "full text",
    "events": "outcome",
    "new": "Content",
}


@pytest.fixture(scope="module", autouse=True)
def by_words() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_EMBEDDER", "none")
        yield


@pytest.fixture(scope="module")
def store(by_words: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(make_sample_store(tmp_path_factory.mktemp("page")), agent_id=AGENT) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(store: holdfast.Holdfast) -> Iterator[str]:
    with serve_app(build_app(store)) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@contextmanager
def open_page(browser: Browser, url: str, *, width: int = 1200, dark: bool = False) -> Iterator[Page]:
    """A new visitor. Any browser error fails the test, except reports of refused requests."""
    with browser.new_context(
        viewport={"width": width, "height": 850}, color_scheme="dark" if dark else "light", accept_downloads=True
    ) as visitor:
        yield from watch_page(visitor, url)


def watch_page(visitor: BrowserContext, url: str) -> Iterator[Page]:
    page = visitor.new_page()
    page.set_default_timeout(TIMEOUT * 1000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "status of 4" not in said.text else None)
    page.goto(url)
    yield page
    assert wrong == []


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    with open_page(browser, url) as opened:
        yield opened


def go(page: Page, view: str) -> None:
    page.evaluate("hash => { location.hash = hash }", f"#/{view}")
    page.locator(f"main .view-{re.split('[/?]', view)[0]}, main .key").wait_for()
    expect(page.locator("main .busy")).to_have_count(0)


def id_of(store: holdfast.Holdfast, title: str) -> str:
    found = store.call("list", {"limit": 1000}).memories
    return next(memory.id for memory in found if memory.title == title)


def head_of(store: holdfast.Holdfast) -> int:
    return int(store.call("stats", {}).changes)


def test_each_view_shows_the_store_and_links_in_stored_text_are_inert(page: Page, store: holdfast.Holdfast) -> None:
    before = head_of(store)

    rollback = store.call("get", {"id": id_of(store, "Rollback")})
    for view, shown in VIEWS.items():
        go(page, view)
        expect(page.locator("main")).to_contain_text(shown)
        expect(page.locator("main [role=alert]")).to_have_count(0)
        expect(page.locator("main h1")).to_have_count(1)
    go(page, f"edit/{rollback.id}")
    expect(page.get_by_label("Content")).to_have_value(rollback.content)

    assert head_of(store) == before


@pytest.mark.full
def test_a_hit_is_explained_and_so_is_a_missing_memory(page: Page) -> None:
    search = page.get_by_role("searchbox", name="Question")
    search.fill("when are we deploying")
    first = page.locator(".hits > li").first
    expect(first.locator("mark")).to_have_text(["Deploy", "deploy"])
    first.get_by_text("Why", exact=True).click()
    expect(first.get_by_text("Matched words:")).to_have_text("Matched words: Deploy")
    expect(first).to_contain_text("Stored by")

    page.get_by_text("Why is a memory missing?").click()
    page.get_by_label("Memory", exact=True).fill("goulash")
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_role("button", name="Lunch").click()
    expect(page.locator(".whynot")).to_contain_text("no_words")


@pytest.mark.full
def test_advanced_options_change_the_order_the_namespace_and_the_time(page: Page, store: holdfast.Holdfast) -> None:
    history = store.call("history", {"id": id_of(store, "Deploy day")}).changes
    go(page, "search?q=deploy+day&w_words=0&namespace=canteen")
    expect(page.locator(".found")).to_contain_text("No hits.")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".hits > li").first).to_contain_text("Deploy day")
    assert "w_words" not in page.url
    go(page, "search?q=deploy&w_words=0")
    expect(page.locator(".hits > li .moved").first).to_contain_text("↑")
    go(page, f"search?q=deploy+day&known_at={history[0].at}")
    expect(page.locator(".hits > li").first).to_contain_text("Tuesdays")


@pytest.mark.full
def test_stored_markup_and_links_are_inert(page: Page, store: holdfast.Holdfast) -> None:
    hostile = store.call("list", {"tier": "short"}).memories[0].id
    skill = store.call("skill_list", {}).skills[0].id
    for view in (
        f"memory/{hostile}",
        f"edit/{hostile}",
        "search?q=javascript+link",
        "events",
        "time",
        f"skills/{skill}",
    ):
        go(page, view)
        expect(page.locator("main h1")).to_be_visible()
        main = page.locator("main")
        assert main.locator("img, script, iframe, b[onclick], [onerror]").count() == 0
        for link in main.locator("a").all():
            href = link.get_attribute("href") or ""
            assert href.startswith(("#/", "https://", "http://")), href
            if not href.startswith("#"):
                assert "noopener" in (link.get_attribute("rel") or "")
        assert page.title() != "taken"
    expect(page.locator("main")).to_contain_text("HTML stays text")
    expect(page.locator("main .written a")).to_have_text("dashboard")


@pytest.mark.full
def test_everything_is_reachable_by_keyboard(page: Page) -> None:
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("rollback")
    expect(page.locator(".hits > li").first).to_contain_text("Rollback")
    for _ in range(4):
        if page.evaluate("document.activeElement.closest('.hits') !== null"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("Rollback")
    expect(page.locator("main h1")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Edit")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Delete this memory?")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    go(page, "memories")
    page.keyboard.press("n")
    expect(page.get_by_label("Title")).to_be_focused()


@pytest.mark.full
def test_a_narrow_dark_screen_scrolls_only_vertically(browser: Browser, url: str, store: holdfast.Holdfast) -> None:
    with open_page(browser, url, width=360, dark=True) as page:
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 25, 27)"
        for view in [*VIEWS, f"memory/{id_of(store, 'Deploy day')}", "search?q=deploy&w_words=2"]:
            go(page, view)
            page.locator("main h1").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
        menu = page.get_by_role("button", name="Menu")
        expect(page.get_by_role("link", name="Graph")).to_be_hidden()
        menu.click()
        page.get_by_role("link", name="Graph").click()
        expect(page.locator("main h1")).to_have_text("Graph")
        expect(menu).to_have_attribute("aria-expanded", "false")


@pytest.mark.full
def test_a_memory_stored_without_a_tier_is_long_term(page: Page, store: holdfast.Holdfast) -> None:
    go(page, "new")
    page.get_by_label("Title").fill("Night shift")
    page.get_by_label("Content").fill("Dora works on Mondays.")
    page.get_by_label("Namespace").fill("shop/night")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main h1")).to_have_text("Night shift")
    [kept] = store.list(namespace="shop/night")
    assert (kept.tier, kept.expires_at) == ("long", None)


@pytest.mark.full
def test_a_memory_is_created_edited_and_deleted_and_each_step_can_be_undone(
    page: Page, store: holdfast.Holdfast
) -> None:
    go(page, "new")
    page.get_by_label("Title").fill("Standby")
    page.get_by_label("Content").fill("Bea has the pager in week 47.")
    page.get_by_label("Namespace").fill("shop/ops")
    page.get_by_label("Tier").select_option("mid")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main h1")).to_have_text("Standby")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Content").fill("Carl has the pager in week 47.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".history ins")).to_have_text("Carl")
    page.get_by_role("button", name="Promote").click()
    expect(page.locator("main .byline").first).to_contain_text("long")
    page.get_by_role("button", name="Undo change").last.click()
    expect(page.locator("main .byline").first).to_contain_text("mid")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert store.call("list", {"namespace": "shop/ops"}).count == 1
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("main h1")).to_have_text("Memories")
    assert store.call("list", {"namespace": "shop/ops"}).count == 0
    page.locator("#said").get_by_role("button", name="Undo").click()
    expect(page.locator("#said")).to_contain_text("Undone.")
    assert store.call("list", {"namespace": "shop/ops"}).memories[0].content.startswith("Carl")


@pytest.mark.full
def test_many_memories_are_tagged_exported_and_archived_at_once(
    page: Page, store: holdfast.Holdfast, tmp_path: Path
) -> None:
    for number in (1, 2):
        store.call("store", {"title": f"Note {number}", "content": f"The note number {number}.", "namespace": "bulk"})
    one, two = (memory.id for memory in store.call("list", {"namespace": "bulk"}).memories)
    store.call("link", {"source_id": one, "target_id": two})
    choose = page.get_by_label("All on this page")

    go(page, "memories?namespace=bulk")
    choose.check()
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_label("Tags, comma-separated").fill("sorted, <b>")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#said")).to_contain_text("2 tagged.")
    expect(page.locator(".tag")).to_have_count(4)
    choose.check()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export").click()
    envelope = json.loads(saved.value.path().read_text("utf-8"))
    choose.check()
    page.get_by_role("button", name="Archive", exact=True).click()
    expect(page.locator("#said")).to_contain_text("2 archived.")
    expect(page.locator("main")).to_contain_text("No matching memories.")

    with holdfast.open(str(tmp_path / "other.db")) as other:
        other.call("import", {"envelope": envelope})
        brought = other.call("list", {"tags": ["sorted"]})
        assert {memory.title for memory in brought.memories} == {"Note 1", "Note 2"}
        assert other.call("stats", {}).links_count == 1


@pytest.mark.full
def test_open_reviews_are_resolved(page: Page, store: holdfast.Holdfast) -> None:
    go(page, "stale")
    page.get_by_role("button", name="Dismiss").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("It holds.")
    page.get_by_role("dialog").get_by_role("button", name="Dismiss").click()
    expect(page.locator("main")).to_contain_text("No stale memories.")
    assert store.call("invalidations", {"status": ["dismissed"]}).invalidations[0].reason == "It holds."

    go(page, "conflicts")
    page.get_by_label("Other value").get_by_role("button", name="Keep this").click()
    expect(page.locator("main")).to_contain_text("No conflicts.")
    assert store.call("list", {"namespace": "canteen"}).memories[0].content == "On Tuesdays there is pea soup."

    go(page, "tasks?which=failed")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("main")).to_contain_text("None.")


@pytest.mark.full
def test_the_map_shows_a_peer_behind_and_then_caught_up(browser: Browser, tmp_path: Path) -> None:
    with (
        holdfast.open(str(tmp_path / "here.db")) as here,
        holdfast.open(str(tmp_path / "there.db")) as there,
        serve_app(build_app(there)) as peer,
        serve_app(build_app(here)) as url,
        open_page(browser, url) as page,
    ):
        row = page.get_by_role("row").filter(has_text=peer)
        here.call("sync", {"remote": peer, "direction": "merge"})
        for number in range(2):
            there.call("store", {"title": f"Theirs {number}", "content": "Said elsewhere."})
        here.call("sync", {"remote": peer, "direction": "push"})
        for number in range(3):
            here.call("store", {"title": f"Mine {number}", "content": "Said here."})

        go(page, "sync")
        expect(page.locator("svg.drawing")).to_contain_text("this store lacks 2, peer lacks 3")
        expect(row.get_by_role("cell")).to_contain_text([peer, "ok", "2", "3"])
        here.call("sync", {"remote": peer, "direction": "merge"})
        page.reload()
        expect(page.locator("svg.drawing")).to_contain_text("up to date")
        expect(row.get_by_role("cell")).to_contain_text([peer, "ok", "0", "0"])


@pytest.mark.full
def test_the_time_slider_moves_change_by_change(page: Page, store: holdfast.Holdfast) -> None:
    go(page, "time?change=2")
    expect(page.locator(".change ins").first).to_have_text("Wednesdays")
    page.get_by_role("button", name="One change earlier").click()
    expect(page.locator(".memory .text")).to_have_text("We deploy on Tuesdays, after the stand-up.")
    page.get_by_label("About").fill("deploy")
    expect(page.locator("main")).to_contain_text("What was known about")
    expect(page.locator(".memory .text")).to_have_text("We deploy on Tuesdays, after the stand-up.")
    page.get_by_label("Change", exact=True).press("End")
    expect(page.locator("output")).to_contain_text(f"change {head_of(store)} of")


@pytest.mark.full
def test_a_change_appears_as_it_happens(page: Page, store: holdfast.Holdfast) -> None:
    go(page, "events")
    expect(page.locator("[role=status] .chip")).to_have_text("live")
    store.call("store", {"title": "Just now", "content": "This was kept while somebody looked."})
    expect(page.locator(".stream li").first).to_contain_text("Just now")


@pytest.mark.full
def test_a_key_is_requested_stored_in_the_tab_only_and_requested_again_when_invalid(
    browser: Browser, store: holdfast.Holdfast
) -> None:
    with serve_app(build_app(with_settings(store, api_key=SECRET))) as url, open_page(browser, url) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_label("Key").fill("a wrong one")
        page.get_by_role("button", name="Open").click()
        expect(page.locator("main")).to_contain_text("This key is not valid.")
        page.get_by_label("Key").fill(SECRET)
        page.get_by_role("button", name="Open").click()
        expect(page.locator("main")).to_contain_text("Most important")
        go(page, "events")
        expect(page.locator("[role=status] .chip")).to_have_text("live")
        storage = page.evaluate("[sessionStorage.length, localStorage.length, document.cookie]")
        assert storage == [1, 0, ""]
        assert not any(SECRET in address for address in asked)
        page.evaluate("sessionStorage.setItem('holdfast.key', 'revoked since')")
        go(page, "memories")
        expect(page.get_by_label("Key")).to_be_focused()
        assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.full
def test_a_read_only_key_is_told_what_it_cannot_do(browser: Browser, tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "other.db")) as other:
        other.call("store", {"title": "Seen", "content": "By all."})
        key = other.call("key_create", {"name": "reader", "scope": "read"})
        with serve_app(build_app(other)) as url, open_page(browser, url) as page:
            page.get_by_label("Key").fill(key.key)
            page.get_by_role("button", name="Open").click()
            go(page, "sync")
            expect(page.get_by_role("alert")).to_contain_text("requires the admin right")
            go(page, f"memory/{id_of(other, 'Seen')}")
            page.get_by_role("button", name="Archive").click()
            expect(page.locator("#said")).to_contain_text("requires the write right")
            other.call("key_revoke", {"id": key.id})
            go(page, "memories")
            expect(page.locator("main")).to_contain_text("This key is not valid.")


@pytest.mark.full
def test_a_foreign_page_can_neither_frame_nor_query_the_page(browser: Browser, url: str, tmp_path: Path) -> None:
    other = tmp_path / "other.html"
    other.write_text(f"<iframe src='{url}/'></iframe>")
    with browser.new_context() as visitor:
        page = visitor.new_page()
        page.goto(other.as_uri())
        framed = page.frames[1]
        assert framed.url.startswith("chrome-error:") or framed.locator("nav a").count() == 0
        outcome = page.evaluate("url => fetch(url + '/api/v1/memories').then(() => 'answered', () => 'refused')", url)
        assert outcome == "refused"


@pytest.mark.full
def test_many_memories_are_paged(browser: Browser, tmp_path: Path) -> None:
    with holdfast.open(str(tmp_path / "many.db")) as many:
        for begin in range(0, MANY, 1000):
            notes = [
                {"title": f"Note {n}", "content": f"Note number {n} of many.", "force": True}
                for n in range(begin, begin + 1000)
            ]
            many.call("bulk_store", {"memories": notes})
        with serve_app(build_app(many)) as url, open_page(browser, url) as page:
            sizes: list[int] = []
            page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", "0"))))
            go(page, "memories")
            expect(page.locator(".memory")).to_have_count(25)
            before = page.locator(".memory h3").first.inner_text()
            page.get_by_role("link", name="Next →").click()
            expect(page.locator(".pager")).to_contain_text("26 to 50")
            assert page.locator(".memory h3").first.inner_text() != before
            go(page, f"memories?offset={MANY - 10}")
            expect(page.locator(".memory")).to_have_count(10)
            for view in ("search?q=note+number", "time", "events", "health"):
                go(page, view)
                expect(page.locator("main h1")).to_be_visible()
            assert page.locator("main *").count() < 3_000
            assert max(sizes) < MAX_ANSWER_BYTES
