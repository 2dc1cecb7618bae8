"""The layer of Ray's proxy: its own refusals in the one shape, bounded bodies, no orders from callers."""

import json
import time

import pytest

from deployments.errors import all_errors
from deployments.ingress.front import MAX_BODY_BYTES, Front, layers


class Proxy:
    """Stands for Ray's proxy: answers what it is told to, in its way; keeps what it was passed."""

    def __init__(self, status=200, body=b"audio", content_type="audio/wav", fails=False, silent=False):
        self.status, self.body, self.content_type = status, body, content_type
        self.fails, self.silent = fails, silent
        self.scope = None
        self.received = []

    async def __call__(self, scope, receive, send):
        self.scope = scope
        while True:
            message = await receive()
            self.received.append(message)
            if message["type"].endswith("disconnect"):
                return
            if not message.get("more_body", False):
                break
        if self.fails:
            raise RuntimeError("broken")
        if self.silent:
            return
        headers = [(b"content-type", self.content_type.encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})

    @property
    def headers(self):
        return dict(self.scope["headers"])


async def sent_by(proxy, *, headers=(), bodies=(b"{}",), kind="http", query=b""):
    """Status, headers and body that a caller gets."""
    scope = {"type": kind, "path": "/tts", "method": "POST", "headers": list(headers), "query_string": query}
    if kind == "http":
        unread = [
            {"type": "http.request", "body": body, "more_body": index < len(bodies) - 1}
            for index, body in enumerate(bodies)
        ]
    else:
        unread = [{"type": "websocket.receive", "text": body} for body in bodies]
    sent = []

    async def receive():
        return unread.pop(0)

    async def send(message):
        sent.append(message)

    await Front(proxy)(scope, receive, send)
    return sent


def told(sent):
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert dict(sent[0]["headers"])[b"content-type"] == b"application/json"
    return sent[0]["status"], json.loads(sent[1]["body"])["error"]["code"], dict(sent[0]["headers"])


async def test_answers_of_the_service_pass_unchanged():
    for proxy in (Proxy(), Proxy(429, b'{"error": {}}', "application/json")):
        sent = await sent_by(proxy)
        assert (sent[0]["status"], sent[1]["body"]) == (proxy.status, proxy.body)


@pytest.mark.parametrize(
    ("status", "answered", "code"),
    [(404, 404, "not_found"), (408, 504, "deadline_exceeded"), (429, 429, "overloaded"), (500, 503, "replica_lost"),
     (503, 503, "not_ready")],
)  # fmt: skip
async def test_what_the_proxy_says_itself_comes_in_the_one_shape(status, answered, code):
    found_status, found_code, headers = told(await sent_by(Proxy(status, b"Request dropped", "text/plain")))
    assert (found_status, found_code) == (answered, code)
    assert code in {error.code for error in all_errors()}
    assert (b"retry-after" in headers) == (code in ("overloaded", "replica_lost", "not_ready"))


@pytest.mark.parametrize("proxy", [Proxy(fails=True), Proxy(silent=True)])
async def test_a_proxy_without_an_answer_has_lost_its_replica(proxy):
    assert told(await sent_by(proxy))[:2] == (503, "replica_lost")


async def test_bodies_are_bounded_before_they_are_whole():
    half = b"x" * (MAX_BODY_BYTES // 2)
    proxy = Proxy()
    assert told(await sent_by(proxy, bodies=(half, half, b"x", b"y")))[:2] == (413, "too_large")
    assert [message["type"] for message in proxy.received] == ["http.request"] * 2 + ["http.disconnect"]
    assert (await sent_by(Proxy(), bodies=(half, half)))[0]["status"] == 200


async def test_heads_are_bounded():
    assert told(await sent_by(Proxy(), headers=[(b"a", b"x" * 200_000)]))[:2] == (431, "headers_too_large")
    assert told(await sent_by(Proxy(), query=b"x" * 200_000))[:2] == (431, "headers_too_large")
    sent = await sent_by(Proxy(), headers=[(b"a", b"x" * 200_000)], kind="websocket")
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_messages_of_websockets_are_bounded():
    proxy = Proxy()
    await sent_by(proxy, bodies=("x" * (MAX_BODY_BYTES + 1),), kind="websocket")
    assert proxy.received == [{"type": "websocket.disconnect", "code": 1009}]


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_callers_give_the_proxy_no_orders_and_do_not_say_when_they_came(kind):
    proxy = Proxy(silent=True)
    orders = ["x-request-timeout-seconds", "X-Request-Disconnect-Disabled", "serve_multiplexed_model_id",
              "serve-multiplexed-model-id", "X_Request_Start", "x-request-start"]  # fmt: skip
    headers = [(name.encode(), b"1") for name in orders]
    headers += [(b"x-request-id", b"mine"), (b"authorization", b"Bearer x"), (b"\xff", b"1")]
    before = time.time()
    await sent_by(proxy, headers=headers, bodies=("{}",) if kind == "websocket" else (b"{}",), kind=kind)
    arrived = float(proxy.headers[b"x-request-start"].removeprefix(b"t="))
    assert before - 0.001 <= arrived <= time.time() + 0.001
    assert set(proxy.headers) == {b"x-request-id", b"authorization", b"x-request-start"}


async def test_a_request_id_that_the_proxy_cannot_read_is_left_out():
    proxy = Proxy()
    await sent_by(proxy, headers=[(b"x-request-id", b"\xff\xfe")])
    assert b"x-request-id" not in proxy.headers


async def test_an_answer_that_breaks_off_stays_broken():
    class Breaking(Proxy):
        async def __call__(self, scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await sent_by(Breaking())


def test_it_is_what_ray_asks_for():
    (layer,) = layers()
    assert layer.cls is Front
