"""The damper: a full service is asked a little more often than it accepts, and never locked out."""

import json

import pytest
from test_ingress_front import Proxy, told

from deployments.errors import Overloaded, RateLimited
from deployments.ingress.damper import Damper
from deployments.ingress.front import Front


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def simulate(clock, damper, offered_per_s, accepts_per_s, seconds):
    """What a service was asked, and what it accepted, by second, where it has room for so much and refuses the rest."""
    asked, accepted, room = [0] * seconds, [0] * seconds, 0.0
    for step in range(seconds * offered_per_s):
        clock.now += 1 / offered_per_s
        room = min(2.0, room + accepts_per_s / offered_per_s)
        try:
            damper.check()
        except Overloaded:
            continue
        asked[step // offered_per_s] += 1
        if room >= 1:
            room -= 1
            accepted[step // offered_per_s] += 1
            damper.accepted()
        else:
            damper.refused(3.0)
    return asked, accepted


@pytest.mark.parametrize("accepts_per_s", [0, 4, 40])
def test_a_full_service_is_asked_little_more_often_than_it_accepts(clock, accepts_per_s):
    asked, accepted = simulate(clock, Damper(clock), 1000, accepts_per_s, 10)
    assert all(number <= 1.15 * (10 + 2 * accepts_per_s) for number in asked[2:])
    assert sum(accepted[2:]) >= 0.9 * 8 * accepts_per_s


def test_who_refuses_nothing_is_asked_everything(clock):
    assert simulate(clock, Damper(clock), 500, 600, 4)[0] == [500] * 4


def test_a_service_that_has_room_again_is_asked_everything_soon(clock):
    damper = Damper(clock)
    simulate(clock, damper, 500, 0, 5)
    asked, _ = simulate(clock, damper, 500, 600, 4)
    assert asked[3] == 500


async def test_the_front_refuses_for_a_full_service_and_leaves_others_alone(clock):
    refusal = json.dumps(Overloaded("Full. Retry.", retry_after_s=7.0).body()).encode()

    class Full(Proxy):
        num_asked = 0

        async def __call__(self, scope, receive, send):
            self.num_asked += 1

            async def send_with_time(message):
                if "headers" in message:
                    message["headers"].append((b"retry-after", b"7"))
                await send(message)

            await super().__call__(scope, receive, send_with_time)

    proxy = Full(429, refusal, "application/json")
    front = Front(proxy, clock)

    async def ask(path):
        sent, scope = [], {"type": "http", "path": path, "method": "POST", "headers": [], "query_string": b""}

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        await front(scope, receive, send)
        return sent

    for _ in range(100):
        status, code, headers = told(await ask("/a/tts"))
        assert (status, code, headers[b"retry-after"]) == (429, "overloaded", b"7")
    assert proxy.num_asked == 10
    for path in ("/a/healthz", "/b/tts", "/a/v1/audio/voices"):
        await ask(path)
    assert proxy.num_asked == 13
    # a key that has used up its quota says nothing of the service
    proxy.body = json.dumps(RateLimited("Enough. Wait.").body()).encode()
    for _ in range(50):
        await ask("/c/tts")
    assert proxy.num_asked == 63
    for number in range(200):
        await ask(f"/made-up-{number}/tts")
    assert len(front._dampers) <= 64
