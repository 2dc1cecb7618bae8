"""in_order: order kept, work bounded, nothing outlives its request."""

import asyncio
import random
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.normalization.ordered import in_order


@settings(max_examples=50, deadline=None)
@given(number=st.integers(0, 12), max_ahead=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_results_come_in_order_whatever_finishes_first(number, max_ahead, seed):
    order = random.Random(seed)

    async def scenario():
        gates = [asyncio.Event() for _ in range(number)]
        running: set[int] = set()
        most = 0

        async def make(index):
            nonlocal most
            running.add(index)
            most = max(most, len(running))
            await gates[index].wait()
            running.discard(index)
            return index

        async def open_gates():
            while not all(gate.is_set() for gate in gates):
                ready = [index for index in running if not gates[index].is_set()]
                if ready:
                    gates[order.choice(ready)].set()
                await asyncio.sleep(0)

        opener = asyncio.ensure_future(open_gates())
        results = [result async for result in in_order(number, make, max_ahead)]
        await opener
        return results, most

    results, most = asyncio.run(scenario())
    assert results == list(range(number))
    assert most <= max_ahead


async def test_a_failure_cancels_what_runs_ahead():
    cancelled = []

    async def make(index):
        if index == 1:
            raise ValueError("one")
        if index == 0:
            return 0
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(index)
            raise

    seen = []
    with pytest.raises(ValueError, match="one"):
        async for result in in_order(10, make, 4):
            seen.append(result)
    assert seen == [0]
    assert cancelled == [2, 3]  # the fourth had not begun
    assert len(asyncio.all_tasks()) == 1


async def test_giving_up_the_iteration_cancels_everything():
    cancelled = []

    async def make(index):
        if index == 0:
            return 0
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(index)
            raise

    async with aclosing(in_order(10, make, 3)) as results:
        assert await anext(results) == 0
        await asyncio.sleep(0)
    assert set(cancelled) <= {1, 2, 3}
    assert len(asyncio.all_tasks()) == 1


async def test_cancelling_the_consumer_cancels_the_one_it_waits_for():
    started = asyncio.Event()
    cancelled = asyncio.Event()

    async def make(index):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def consume():
        async with aclosing(in_order(1, make, 1)) as results:
            await anext(results)

    consumer = asyncio.ensure_future(consume())
    await started.wait()
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert cancelled.is_set()
