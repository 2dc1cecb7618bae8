"""The small parts: breaker, ledger, worker thread, memo of texts."""

import asyncio
import threading

import pytest

from deployments.messages import Segment, TextAnalysis, Word
from deployments.normalization.cache.breaker import Breaker
from deployments.normalization.cache.key import voice_tag
from deployments.normalization.cache.ledger import Ledger
from deployments.normalization.cache.memo import TextMemo
from deployments.normalization.cache.worker import Worker


@pytest.fixture
def breaker(clock):
    return Breaker(max_failures=3, open_s=2.0, max_open_s=5.0, clock=clock)


def test_breaker_opens_after_failures_in_a_row(breaker):
    for _ in range(2):
        assert not breaker.failed()
    breaker.succeeded()
    for _ in range(2):
        assert not breaker.failed()
    assert breaker.allow()
    assert breaker.failed()
    assert breaker.is_open
    assert not breaker.allow()


def test_breaker_tries_once_per_pause_and_doubles_the_pause(breaker, clock):
    breaker.trip()
    start, tries = clock.now, []
    for _ in range(200):
        clock.now += 0.125
        if breaker.allow():
            tries.append(clock.now - start)
            assert not breaker.failed()
    assert tries == [2.0, 6.0, 11.0, 16.0, 21.0]  # pauses 2, 4, then 5 at most


def test_breaker_closes_with_a_success_and_starts_over(breaker, clock):
    breaker.trip()
    clock.now += 2.0
    assert breaker.allow()
    assert breaker.succeeded()
    assert not breaker.is_open
    assert not breaker.succeeded()
    breaker.trip()
    clock.now += 2.0
    assert breaker.allow()


def test_breaker_is_not_blocked_by_a_try_that_nobody_reports(breaker, clock):
    breaker.trip()
    clock.now += 2.0
    assert breaker.allow()
    clock.now += 4.0
    assert breaker.allow()


def test_ledger_tells_why(tools):
    ledger = Ledger(max_entries=2, touch_interval_s=10)
    key = tools.key("a")
    assert ledger.why_missing(key, now=0) == "new"
    ledger.kept(key, expires_at=100, now=0)
    assert ledger.why_missing(key, now=99) == "evicted"
    assert ledger.why_missing(key, now=100) == "expired"
    for text in "bc":
        ledger.kept(tools.key(text), 100, 0)
    assert ledger.why_missing(key, now=1) == "new"  # only two are remembered


def test_ledger_notes_a_use_once_per_interval(tools):
    ledger = Ledger(max_entries=5, touch_interval_s=10)
    key = tools.key("a")
    assert ledger.touch_due(key, 100, now=0)
    assert [ledger.touch_due(key, 100, now) for now in (1, 9.9, 10, 11, 20)] == [False, False, True, False, True]


def test_ledger_forgets_a_voice(tools):
    ledger = Ledger(5, 10)
    for name in ("mine", "yours"):
        ledger.kept(tools.key("a", name), 100, 0)
    ledger.forget(voice_tag("mine"))
    assert ledger.why_missing(tools.key("a", "mine"), 1) == "new"
    assert ledger.why_missing(tools.key("a", "yours"), 1) == "evicted"
    ledger.forget(None)
    assert ledger.why_missing(tools.key("a", "yours"), 1) == "new"


async def test_worker_runs_calls_in_order_on_one_thread_of_its_own():
    worker = Worker("test")
    seen = []

    def note(number):
        seen.append(number)
        return threading.current_thread().name

    names = await asyncio.gather(*(worker.call(note, number) for number in range(20)))
    assert seen == list(range(20))
    assert set(names) == {"test"}
    worker.close()


async def test_worker_hands_faults_over_and_goes_on():
    worker = Worker("test")
    with pytest.raises(ZeroDivisionError):
        await worker.call(lambda: 1 / 0)
    with pytest.raises(SystemExit):
        await worker.call(exit, 3)
    assert await worker.call(max, 3, 4) == 4
    worker.close()


async def test_worker_gives_up_waiting_and_skips_calls_whose_caller_has_gone():
    worker = Worker("test")
    hold, seen = threading.Event(), []
    with pytest.raises(TimeoutError):
        await worker.call(hold.wait, timeout_s=0.01)
    waiting = asyncio.create_task(worker.call(seen.append, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    hold.set()
    await worker.call(seen.append, 2)
    assert seen == [2]
    worker.close()


def analysis(text, num_words=4):
    words = tuple(Word(text="您", pinyin=("nin2",), start_symbol=i, num_symbols=2) for i in range(num_words))
    segment = Segment(text=text, normalized=text, words=words, symbols="{n_c$tone2}" * num_words, pause_s=0.1)
    return TextAnalysis(normalized=text, segments=(segment,))


def test_memo_tells_contexts_apart():
    memo = TextMemo(1 << 20)
    first, second = analysis("您好"), analysis("您好")
    memo.put(first, "您好", "F7", "neutral", True)
    memo.put(second, "您好", "F7", "happy", True)
    assert memo.get("您好", "F7", "neutral", True) is first
    assert memo.get("您好", "F7", "happy", True) is second
    assert memo.get("您好", "F7", "neutral", False) is None
    memo.clear()
    assert memo.get("您好", "F7", "happy", True) is None


def test_memo_is_bounded_and_forgets_the_least_recently_used():
    memo = TextMemo(40_000)
    memo.put(analysis("kept"), "kept")
    for number in range(200):
        memo.put(analysis(str(number)), str(number))
        assert memo.get("kept") is not None
        assert memo.num_bytes <= 40_000
    assert 5 < memo.num_entries < 40
    assert memo.get("0") is None
    assert memo.get("199") is not None


def test_memo_of_no_bytes_keeps_nothing():
    memo = TextMemo(0)
    memo.put(analysis("a", 0), "a")
    assert memo.get("a") is None
