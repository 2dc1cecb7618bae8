"""Refusals cross handles as values: Serve logs a traceback of what a stage raises; the caller raises them."""

import asyncio
import pickle

import pytest

from deployments.deployment import answering, items_of, result_of
from deployments.errors import DeadlineExceeded, SpeechError, SynthesisFailed, all_errors


class Stage:
    """A stage that raises what it was given, or answers."""

    def __init__(self, error=None):
        self.error = error
        self.closed = False

    @answering
    async def one(self, _request):
        """A result."""
        if self.error is not None:
            raise self.error
        return "result"

    @answering
    async def several(self, _request):
        """Two items, or one and the error."""
        try:
            yield "first"
            if self.error is not None:
                raise self.error
            yield "second"
        finally:
            self.closed = True


class Response:
    """What a handle returns: the stage's answer after a journey through pickle."""

    def __init__(self, answer):
        self._answer = answer
        self.cancelled = False

    def __await__(self):
        return self._travelled().__await__()

    async def _travelled(self):
        return pickle.loads(pickle.dumps(await self._answer))

    async def __aiter__(self):
        async for item in self._answer:
            yield pickle.loads(pickle.dumps(item))

    def cancel(self):
        self.cancelled = True


REFUSALS = [error for error in all_errors() if error.status != 500]
FAULTS = [error for error in all_errors() if error.status == 500]


async def test_answers_pass_unchanged():
    assert await result_of(Response(Stage().one(1))) == "result"
    assert [item async for item in items_of(Response(Stage().several(1)))] == ["first", "second"]


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
async def test_refusals_are_raised_by_the_caller_alone(kind):
    error = kind("what is wrong; how to mend it.", param="input", retry_after_s=2.0)
    assert await Stage(error).one(1) is error
    assert [item async for item in Stage(error).several(1)] == ["first", error]
    with pytest.raises(kind) as caught:
        await result_of(Response(Stage(error).one(1)))
    assert (caught.value.body(), caught.value.retry_after_s) == (error.body(), 2.0)


async def test_a_refusal_after_items_comes_after_them_and_cancels_nothing():
    response = Response(Stage(DeadlineExceeded("late; retry.")).several(1))
    items = items_of(response)
    assert await anext(items) == "first"
    with pytest.raises(DeadlineExceeded):
        await anext(items)
    assert not response.cancelled


@pytest.mark.parametrize("kind", [*FAULTS, ValueError], ids=lambda kind: kind.__name__)
async def test_faults_of_ours_stay_exceptions(kind):
    with pytest.raises(kind):
        await Stage(kind("a fault")).one(1)
    with pytest.raises(kind):
        [item async for item in Stage(kind("a fault")).several(1)]
    expected = kind if issubclass(kind, SpeechError) else SynthesisFailed
    with pytest.raises(expected):
        await result_of(Response(Stage(kind("a fault")).one(1)))


async def test_cancelling_and_leaving_reach_the_stage():
    stage, waiting = Stage(), asyncio.Event()

    @answering
    async def endless():
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(endless())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    items = stage.several(1)
    assert await anext(items) == "first"
    await items.aclose()
    assert stage.closed
