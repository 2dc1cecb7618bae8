"""The engine with the bundled voice: what callers do to it while it works."""

import asyncio
import contextlib
import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest

from deployments.acoustic.decoder import StepDecoder
from deployments.acoustic.engine import AcousticEngine
from deployments.errors import DeadlineExceeded, InvalidRequest, NotReady, StageStuck
from deployments.messages import AcousticRequest
from deployments.settings import AcousticSettings, Batching

WAIT_S = 60.0  # of a test that would otherwise hang
HEAD = "{n_c$tone2$s_begin$word_begin$emotion_neutral$F7} {i_c$tone3$s_end$word_end$emotion_neutral$F7}"
TAIL = "{#4$tone_none$s_none$word_none$emotion_none$F7}"
SHORT = f"{HEAD} {TAIL}"
LONG = " ".join([HEAD] * 30) + f" {TAIL}"


def request_of(symbols: str, **rest) -> AcousticRequest:
    return AcousticRequest(voice="demo", symbols=symbols, **rest)


@pytest.fixture
def engine_of(bundled_folder):
    engines = []

    def build(**batching: float) -> AcousticEngine:
        engines.append(AcousticEngine([bundled_folder], AcousticSettings(batching=Batching(**batching)), "cpu"))
        return engines[-1]

    yield build
    for engine in engines:
        engine.close()
        assert engine.join(WAIT_S)


@pytest.fixture
def held_step(monkeypatch):
    """Decoder steps wait at a gate after the first few, so that a test acts in the middle of an utterance."""

    class Gate:
        def __init__(self) -> None:
            self.reached, self.opened = threading.Event(), threading.Event()
            self.num_free = 3

    gate = Gate()
    step = StepDecoder.step

    def held(decoder):
        if gate.num_free:
            gate.num_free -= 1
        else:
            gate.reached.set()
            assert gate.opened.wait(WAIT_S)
        return step(decoder)

    monkeypatch.setattr(StepDecoder, "step", held)
    yield gate
    gate.opened.set()


def test_a_short_request_overtakes_a_long_one_that_came_before(engine_of, held_step):
    engine = engine_of()
    (long,) = engine.submit([request_of(LONG)])
    assert held_step.reached.wait(WAIT_S)  # the long one is being decoded
    (short,) = engine.submit([request_of(SHORT)])
    order = []
    for name, ticket in (("short", short), ("long", long)):
        ticket.future.add_done_callback(lambda _, name=name: order.append(name))
    held_step.opened.set()
    assert len(long.future.result(WAIT_S).mel_FM) > 5 * len(short.future.result(WAIT_S).mel_FM)
    assert order == ["short", "long"]


def test_a_request_given_up_midway_leaves_the_others_as_they_are(engine_of, held_step):
    engine = engine_of()
    kept, gone = engine.submit([request_of(SHORT), request_of(LONG)])
    assert held_step.reached.wait(WAIT_S)
    assert gone.future.cancel()
    held_step.opened.set()
    found = kept.future.result(WAIT_S)
    (again,) = engine.submit([request_of(SHORT)])
    np.testing.assert_allclose(found.mel_FM, again.future.result(WAIT_S).mel_FM, rtol=0, atol=1e-4)
    with pytest.raises(CancelledError):
        gone.future.result(0)


def test_a_deadline_midway_frees_the_place(engine_of, held_step):
    engine = engine_of(max_batch_size=1)
    (late,) = engine.submit([request_of(LONG, timeout_s=WAIT_S)])
    assert held_step.reached.wait(WAIT_S)
    (next_one,) = engine.submit([request_of(SHORT)])
    late.deadline = late.arrived_at
    held_step.opened.set()
    with pytest.raises(DeadlineExceeded):
        late.future.result(WAIT_S)
    assert next_one.future.result(WAIT_S).queue_s > 0


def test_a_bad_symbol_fails_beside_good_ones(engine_of):
    engine = engine_of()
    good, bad, other = engine.submit(
        [request_of(SHORT), request_of(SHORT.replace("i_c", "nope")), request_of(SHORT, speed=2.0)]
    )
    with pytest.raises(InvalidRequest, match="nope"):
        bad.future.result(WAIT_S)
    assert len(good.future.result(WAIT_S).mel_FM) > len(other.future.result(WAIT_S).mel_FM)


def test_limits_change_while_it_works(engine_of, held_step):
    engine = engine_of(max_batch_size=1)
    (running,) = engine.submit([request_of(LONG)])
    assert held_step.reached.wait(WAIT_S)
    others = engine.submit([request_of(SHORT)] * 3)
    assert engine.num_waiting == 3
    engine.reconfigure(Batching(max_batch_size=8))
    held_step.opened.set()
    for ticket in others:
        ticket.future.result(WAIT_S)
    assert not running.future.done()  # with one place they would have waited for it
    running.future.result(WAIT_S)


def test_a_stuck_step_fails_alone_and_the_engine_goes_on(engine_of, held_step):
    engine = engine_of(batch_timeout_s=1.0, max_timeouts=1)
    (stuck,) = engine.submit([request_of(LONG)])
    with pytest.raises(StageStuck):
        stuck.future.result(WAIT_S)
    assert "batch_timeout_s" in engine.why_unhealthy()
    held_step.num_free = 10_000
    (next_one,) = engine.submit([request_of(SHORT)])
    assert len(next_one.future.result(WAIT_S).mel_FM) > 0
    assert engine.why_unhealthy() == ""


async def test_a_reader_gets_pieces_while_later_ones_are_made(engine_of, held_step):
    engine = engine_of()
    held_step.num_free = 12
    (ticket,) = engine.submit([request_of(LONG, stream=True)])
    chunks = ticket.chunks()
    first = await asyncio.wait_for(anext(chunks), WAIT_S)
    assert not ticket.future.done()
    assert first.frames_T.sum() > len(first.mel_FM) > 0
    held_step.opened.set()
    mels = [first.mel_FM] + [chunk.mel_FM async for chunk in chunks]
    np.testing.assert_array_equal(np.concatenate(mels), (await ticket.result()).mel_FM)


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_a_reader_that_goes_frees_the_place(engine_of, held_step, how):
    engine = engine_of(max_batch_size=1)
    held_step.num_free = 12
    (ticket,) = engine.submit([request_of(LONG, stream=True)])
    got_one = asyncio.Event()

    async def read() -> None:
        async with contextlib.aclosing(ticket.chunks()) as chunks:
            async for _ in chunks:
                got_one.set()
                if how == "closed":
                    return

    reader = asyncio.create_task(read())
    await asyncio.wait_for(got_one.wait(), WAIT_S)  # the gate holds it in the middle of the utterance
    if how == "cancelled":
        reader.cancel()
    await asyncio.wait([reader], timeout=WAIT_S)
    assert ticket.future.cancelled()
    held_step.num_free = 10_000
    held_step.opened.set()
    (next_one,) = engine.submit([request_of(SHORT)])
    assert len((await next_one.result()).mel_FM) > 0


async def test_a_stream_that_fails_midway_says_so_after_its_pieces(engine_of, held_step):
    engine = engine_of()
    held_step.num_free = 12
    (ticket,) = engine.submit([request_of(LONG, stream=True)])
    chunks = ticket.chunks()
    assert len((await asyncio.wait_for(anext(chunks), WAIT_S)).mel_FM) > 0
    ticket.deadline = ticket.arrived_at
    held_step.opened.set()
    with pytest.raises(DeadlineExceeded):
        async for _ in chunks:
            pass


async def test_a_bad_symbol_fails_a_stream_at_its_start(engine_of):
    (ticket,) = engine_of().submit([request_of(SHORT.replace("i_c", "nope"), stream=True)])
    with pytest.raises(InvalidRequest, match="nope"):
        await anext(ticket.chunks())


async def test_many_callers_at_once(engine_of):
    engine = engine_of(max_batch_size=4)

    async def call(speed: float) -> int:
        (ticket,) = engine.submit([request_of(SHORT, speed=speed)])
        return len((await ticket.result()).mel_FM)

    lengths = await asyncio.gather(*(call(1 + index / 10) for index in range(12)))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_after_close_nothing_is_taken(engine_of):
    engine = engine_of()
    engine.close()
    with pytest.raises(NotReady):
        engine.submit([request_of(SHORT)])
    assert "closed" in engine.why_unhealthy()
