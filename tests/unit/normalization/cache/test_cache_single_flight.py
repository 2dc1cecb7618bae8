"""Single flight: one maker, no caller bound to another one's fate, whatever the order of things."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.normalization.cache.single_flight import SingleFlight


class Failed(Exception):
    pass


async def ticks(number):
    for _ in range(number):
        await asyncio.sleep(0)


async def test_fifty_callers_share_one_result():
    flights, calls = SingleFlight(), []

    async def work():
        calls.append(1)
        await ticks(3)
        return object()

    results = await asyncio.gather(*(flights.run("k", work) for _ in range(50)))
    assert len(calls) == 1
    assert len({id(result) for result, _ in results}) == 1
    assert [is_own for _, is_own in results] == [True] + 49 * [False]
    assert flights.num_flights == 0


async def test_different_keys_fly_apart():
    flights = SingleFlight()
    results = await asyncio.gather(*(flights.run(key, lambda key=key: asyncio.sleep(0, key)) for key in "abc"))
    assert results == [("a", True), ("b", True), ("c", True)]


async def test_a_failed_leader_takes_its_error_alone_and_one_of_the_others_takes_over():
    flights, made = SingleFlight(), []

    def work(number):
        async def make():
            made.append(number)
            await ticks(2)
            if number == 0:
                raise Failed
            return number

        return make

    results = await asyncio.gather(*(flights.run("k", work(n)) for n in range(6)), return_exceptions=True)
    assert isinstance(results[0], Failed)
    assert results[1:] == [(1, True)] + 4 * [(1, False)]
    assert made == [0, 1]


async def test_a_cancelled_leader_is_followed_however_often():
    flights, made = SingleFlight(), []

    async def work(number):
        made.append(number)
        await ticks(1000 if number < 4 else 1)
        return number

    tasks = [asyncio.create_task(flights.run("k", lambda n=n: work(n))) for n in range(8)]
    for leader in range(4):
        await ticks(5)
        assert made == list(range(leader + 1))
        tasks[leader].cancel()
    assert await asyncio.gather(*tasks[4:]) == [(4, True)] + 3 * [(4, False)]
    assert all(task.cancelled() for task in tasks[:4])


async def test_a_follower_is_cancelled_alone():
    flights = SingleFlight()
    go = asyncio.Event()

    async def work():
        await go.wait()
        return 7

    tasks = [asyncio.create_task(flights.run("k", work)) for _ in range(4)]
    await ticks(3)
    tasks[2].cancel()
    await ticks(3)
    go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[:2] == [(7, True), (7, False)]
    assert isinstance(results[2], asyncio.CancelledError)
    assert results[3] == (7, False)


async def test_what_always_fails_does_not_queue():
    """Callers one behind the other would take 30 works; here all have failed after two in a row and one together."""
    flights, ended = SingleFlight(max_failed=2), []
    works = []

    async def work():
        works.append(asyncio.Event())
        await works[-1].wait()
        raise Failed

    async def caller():
        with pytest.raises(Failed):
            await flights.run("k", work)
        ended.append(1)

    tasks = [asyncio.create_task(caller()) for _ in range(30)]
    for started, finished in ((1, 1), (2, 2), (30, 30)):
        await ticks(5)
        assert len(works) == started
        for event in works:
            event.set()
        await ticks(5)
        assert len(ended) == finished
    await asyncio.gather(*tasks)


@dataclass(frozen=True)
class Caller:
    arrives: int
    takes: int
    fails: bool
    cancelled_at: int | None


callers = st.lists(
    st.builds(Caller, st.integers(0, 6), st.integers(0, 6), st.booleans(), st.none() | st.integers(0, 20)),
    min_size=1,
    max_size=9,
)


@given(callers)
@settings(max_examples=100, deadline=None)
def test_whatever_the_order_everybody_gets_a_result_or_what_happened_to_themselves(plan):
    async def scenario():
        flights, calls = SingleFlight(), []

        async def one(number, caller):
            async def work():
                calls.append(number)
                await ticks(caller.takes)
                if caller.fails:
                    raise Failed(number)
                return number

            await ticks(caller.arrives)
            return await flights.run("k", work)

        tasks = [asyncio.create_task(one(number, caller)) for number, caller in enumerate(plan)]
        for tick in range(120):
            for task, caller in zip(tasks, plan, strict=True):
                if caller.cancelled_at == tick:
                    task.cancel()
            await asyncio.sleep(0)
        assert all(task.done() for task in tasks), "somebody hangs"
        return calls, tasks, flights

    calls, tasks, flights = asyncio.run(scenario())
    assert len(calls) == len(set(calls))
    assert flights.num_flights == 0
    for number, (task, caller) in enumerate(zip(tasks, plan, strict=True)):
        if task.cancelled():
            assert caller.cancelled_at is not None
        elif task.exception() is not None:
            assert task.exception().args == (number,)
            assert caller.fails
        else:
            maker, is_own = task.result()
            assert is_own == (maker == number)
            assert not plan[maker].fails
    if not any(caller.fails or caller.cancelled_at is not None for caller in plan):
        made_by = {task.result()[0] for task in tasks}
        assert set(calls) == made_by


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt])
async def test_work_that_ends_itself_leaves_no_flight_behind(error):
    flights = SingleFlight()

    async def work():
        raise error

    with pytest.raises(error):
        await flights.run("k", work)
    assert flights.num_flights == 0
