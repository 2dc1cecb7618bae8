"""What a listener hears of a stream: when sound starts, and whether it ever stops because samples are late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import aiohttp

FORMAT: Final = {"response_format": "pcm", "stream": True}


@dataclass(frozen=True, slots=True)
class Arrival:
    """Bytes of a stream.

    Attributes:
        at_s: Seconds since the request was sent.
        num_bytes: That came then.
    """

    at_s: float
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Heard:
    """One stream from a listener's side.

    Attributes:
        arrivals: In order, at least one.
        bytes_per_s: Of 16-bit mono at the stream's rate.
    """

    arrivals: Sequence[Arrival]
    bytes_per_s: int

    @property
    def first_s(self) -> float:
        """Seconds from the request to the first sound."""
        return self.arrivals[0].at_s

    @property
    def total_s(self) -> float:
        """Seconds from the request to the last byte."""
        return self.arrivals[-1].at_s

    @property
    def audio_s(self) -> float:
        """Seconds of audio."""
        return sum(arrival.num_bytes for arrival in self.arrivals) / self.bytes_per_s

    @property
    def starved_s(self) -> float:
        """Seconds that a player that starts with the first byte has to wait for later ones."""
        played_until_s, starved_s = self.first_s, 0.0
        for arrival in self.arrivals:
            starved_s += max(0.0, arrival.at_s - played_until_s)
            played_until_s = max(played_until_s, arrival.at_s) + arrival.num_bytes / self.bytes_per_s
        return starved_s


async def listen(
    session: aiohttp.ClientSession,
    url: str,
    body: dict[str, object],
    *,
    rate_hz: int = 16_000,
    stop_after_bytes: int | None = None,
) -> Heard:
    """Asks for a stream of raw samples and notes when they come.

    Args:
        session: To ask with.
        url: Of the speech endpoint.
        body: Of the request; format and sample rate are set here.
        rate_hz: Sample rate to ask for.
        stop_after_bytes: Hang up once so many have come.

    Raises:
        RuntimeError: The answer is an error or empty.
    """
    started, arrivals, received = perf_counter(), [], 0
    async with session.post(url, json={**body, **FORMAT, "sample_rate": rate_hz}) as response:
        if response.status != 200:
            raise RuntimeError(f"{url} answered {response.status}: {await response.text()}")
        async for chunk in response.content.iter_any():
            arrivals.append(Arrival(perf_counter() - started, len(chunk)))
            received += len(chunk)
            if stop_after_bytes is not None and received >= stop_after_bytes:
                response.close()
                break
    if not arrivals:
        raise RuntimeError(f"{url} answered with no sound")
    return Heard(arrivals, 2 * rate_hz)
