"""A server with a slow model: only requests that use the model wait for it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
from serving import serve_app, store_over_http

import holdfast
from holdfast.settings import Settings
from holdfast.surfaces.http.app import MODEL_THREADS, build_app
from holdfast.surfaces.http.thread_pool import DEFAULT_THREADS
from model_server import Handler, ReceivedRequest, provider, wrap_text
from timeouts import TIMEOUT

TERMS = '{"terms": ["release"]}'


def test_reads_and_writes_continue_while_many_requests_wait_for_a_model(db: str) -> None:
    requests, go = threading.Semaphore(0), threading.Event()

    def thinking(handler: Handler, question: ReceivedRequest) -> None:
        requests.release()
        go.wait()
        handler.reply(wrap_text(question, TERMS))

    with provider(thinking) as server, ThreadPoolExecutor(DEFAULT_THREADS + 4) as crowd:
        settings = Settings(db=db, llm="openai", llm_url=server.url, llm_model="m", embedder="none")
        with holdfast.app.open(settings=settings) as hold, serve_app(build_app(hold)) as url:

            def expand(number: int) -> httpx.Response:
                return httpx.post(f"{url}/api/v1/expand_query", json={"query": f"deploy {number}"}, timeout=TIMEOUT)

            waiting = [crowd.submit(expand, number) for number in range(DEFAULT_THREADS + 4)]
            try:
                for _ in range(MODEL_THREADS):
                    assert requests.acquire(timeout=TIMEOUT)
                with httpx.Client(base_url=url, timeout=TIMEOUT) as client:
                    id = store_over_http(client)["id"]
                    assert client.get(f"/api/v1/memories/{id}").status_code == 200
                    assert client.post("/api/v1/recall", json={"context": "deploy"}).json()["count"] == 1
                assert not any(one.done() for one in waiting)
            finally:
                go.set()
            assert {one.result().json()["method"] for one in waiting} == {"llm"}


def test_a_failing_embedding_provider_is_not_a_server_error(db: str) -> None:
    with provider(lambda handler, _: handler.reply({}, 500)) as server:
        settings = Settings(db=db, embedder="openai", embedding_url=server.url)
        with holdfast.app.open(settings=settings, once=True) as hold, serve_app(build_app(hold)) as url:
            hold.store(title="a", content="b")
            for asked in ({}, {"everything": True}):
                answer = httpx.post(f"{url}/api/v1/reembed", json=asked, timeout=TIMEOUT)
                assert (answer.status_code, answer.json()["code"]) == (424, "EMBEDDER_FAILED")
                assert answer.headers["retry-after"] == "1"
