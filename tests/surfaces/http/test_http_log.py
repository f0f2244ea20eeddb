"""The server log: what an operator needs, without a line per request during an outage."""

import logging
from pathlib import Path

import pytest
from serving import open_http_client

from holdfast import Holdfast
from holdfast.surfaces.http.middleware import INTERVAL_SECONDS, ThrottledLog


def test_an_outage_is_logged_once_and_not_per_request(
    hold: Holdfast, db: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_http_client(hold) as client, caplog.at_level(logging.ERROR, logger="holdfast"):
        Path(db).rename(f"{db}.away")
        statuses = {client.get(f"/api/v1/memories/{number}").status_code for number in range(50)}
        Path(f"{db}.away").rename(db)
        assert client.get("/api/v1/memories").status_code == 200
    (line,) = [record.getMessage() for record in caplog.records if record.name == "holdfast"]
    assert (statuses, line.partition(":")[0]) == ({503}, "GET '/api/v1/memories/0'")


def test_suppressed_messages_are_counted_after_their_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = ThrottledLog(lambda: now[0])
    for path in ("/a", "/b", "/c"):
        log.error("away", f"{path}: away")
    log.error("full", "/a: full")
    now[0] = INTERVAL_SECONDS
    log.error("away", "/d: away")
    now[0] = 3 * INTERVAL_SECONDS
    log.error("full", "/b: full")
    assert caplog.messages == ["/a: away", "/a: full", "2 more requests since then: away", "/d: away", "/b: full"]
