"""Single flight: what many ask for at once is made once, and no caller depends on another one's fate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


@dataclass(slots=True)
class _Flight(Generic[Result]):
    num_failed: int
    landed: asyncio.Event = field(default_factory=asyncio.Event)
    results: list[Result] = field(default_factory=list)  # one when it landed well, none when it failed


class SingleFlight(Generic[Key, Result]):
    """Groups the callers that want the same thing; all calls come from one event loop.

    The first caller leads: it makes the result in its own task, with its own deadline. The others wait. A leader that
    fails or is cancelled takes its error alone; the first of the others to wake leads with its own work. After
    `max_failed` leaders in a row those who still wait go alone, so that what always fails does not queue.

    Args:
        max_failed: Leaders that may fail before the callers go alone.
    """

    def __init__(self, max_failed: int = 2) -> None:
        self._max_failed = max_failed
        self._flights: dict[Key, _Flight[Result]] = {}

    async def run(self, key: Key, work: Callable[[], Awaitable[Result]]) -> tuple[Result, bool]:
        """Does the work or waits for whoever does it.

        Args:
            key: What is wanted.
            work: Makes it; called at most once.

        Returns:
            The result, and whether this caller made it.

        Raises:
            Exception: What this caller's own work raised.
        """
        num_failed = 0
        while (flight := self._flights.get(key)) is not None:
            await flight.landed.wait()
            if flight.results:
                return flight.results[0], False
            num_failed = max(num_failed, flight.num_failed)
            if num_failed >= self._max_failed:
                return await work(), True
        return await self._lead(key, _Flight(num_failed), work), True

    @property
    def num_flights(self) -> int:
        """Things that are being made."""
        return len(self._flights)

    async def _lead(self, key: Key, flight: _Flight[Result], work: Callable[[], Awaitable[Result]]) -> Result:
        self._flights[key] = flight
        try:
            result = await work()
        except Exception:  # not a cancelled leader: that says nothing about the work
            flight.num_failed += 1
            raise
        else:
            flight.results.append(result)
            return result
        finally:
            del self._flights[key]
            flight.landed.set()
