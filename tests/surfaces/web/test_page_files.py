"""The files of the web page: access, security headers and forbidden content."""

import re

import pytest
from serving import LOCAL, open_http_client

import holdfast
from holdfast.surfaces.http import page

SOURCES = sorted(page.FOLDER.rglob("*.js"))
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|\bFunction\(|createContextualFragment|DOMParser"
    r"|localStorage|document\.cookie|\bsetAttribute\(\s*[\"'](?:on|style|src)|\.on[a-z]+\s*=[^=]|import\s*\(\s*[^\"\s]"
)
MAX_BYTES = 500_000


def test_the_page_is_served_to_everybody_and_reveals_nothing_of_the_store(hold: holdfast.Holdfast) -> None:
    hold.call("store", {"title": "A secret", "content": "nobody must know"})
    with open_http_client(hold, api_key="key-of-the-owner") as client:
        for path in page.load_assets():
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert "secret" not in answer.text or path.endswith(".js"), path
            assert client.head(path).status_code == 200
        assert client.get("/page/nothing.js").json()["code"] == "UNAUTHENTICATED"
        assert client.get("/page/../app.py").status_code in (401, 404)
        assert client.post("/").status_code == 405


def test_every_file_has_security_headers(hold: holdfast.Holdfast) -> None:
    with open_http_client(hold) as client:
        for path in page.load_assets():
            sent = client.get(path).headers
            assert sent["content-security-policy"] == page.POLICY
            assert (sent["x-frame-options"], sent["x-content-type-options"]) == ("DENY", "nosniff")
            assert sent["referrer-policy"] == "no-referrer"
    assert "unsafe" not in page.POLICY
    assert "default-src 'none'" in page.POLICY
    assert "frame-ancestors 'none'" in page.POLICY


def test_a_cached_file_is_not_sent_again(hold: holdfast.Holdfast) -> None:
    with open_http_client(hold) as client:
        first = client.get("/")
        again = client.get("/", headers={"if-none-match": first.headers["etag"]})
        other = client.get("/", headers={"if-none-match": '"another"'})

    assert (first.headers["cache-control"], first.headers["content-encoding"]) == ("no-cache", "gzip")
    assert (again.status_code, again.content) == (304, b"")
    assert other.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "https://evil.example"}, 403), ({"host": "evil.example"}, 421), ({"origin": LOCAL}, 200)],
    ids=["another site's page", "another name", "its own page"],
)
def test_the_page_is_refused_to_a_foreign_host(hold: holdfast.Holdfast, headers: dict[str, str], status: int) -> None:
    with open_http_client(hold) as client:
        for path in ("/", "/page/main.js"):
            assert client.get(path, headers=headers).status_code == status


def test_no_source_turns_text_into_markup_or_persists_the_key() -> None:
    assert SOURCES
    assert [(source.name, found) for source in SOURCES for found in FORBIDDEN.findall(source.read_text("utf-8"))] == []


def test_the_page_loads_nothing_external_and_has_nothing_inline() -> None:
    markup = (page.FOLDER / page.ENTRY).read_text("utf-8")
    sheets = "".join(file.read_text("utf-8") for file in page.FOLDER.rglob("*.css"))

    assert not re.search(r"https?:|//[a-z]", markup)
    assert not re.search(r"<style|\son\w+=|style=|<script(?![^>]*\ssrc=)", markup)
    assert not re.search(r"@import|url\(", sheets)


def test_all_files_together_are_small() -> None:
    assert sum(len(asset.content) for asset in page.load_assets().values()) <= MAX_BYTES
