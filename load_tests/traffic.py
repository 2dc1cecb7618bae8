"""The traffic model: who asks for what and when. Pure and seeded; whoever drives it brings clock and network.

A tenth of the phrases gets a third of the requests, as call centres report it; the others come up now and then. Each
aspect (what, when, how long callers think, who leaves) draws from its own stream, so that changing one leaves the
others as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random

from load_tests.phrases import Phrase, personas, phrase_book


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request of a caller.

    Attributes:
        phrase: What is asked for.
        is_hot: Whether it is one of the often repeated phrases.
        think_s: How long the caller waits after the answer before the next request.
        leaves_after_s: The caller hangs up so long after asking, whatever has come by then; None stays to the end.
    """

    phrase: Phrase
    is_hot: bool
    think_s: float
    leaves_after_s: float | None


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Parameters of the traffic.

    Attributes:
        seed: The same seed and parameters give the same traffic, on any machine.
        num_phrases: Different phrases there are.
        hot_phrases: Part of the phrases that is often repeated.
        hot_requests: Part of the requests that falls on them.
        shares: Weights by persona; None takes those of data/personas.tsv.
        emotions: Of the voice; others become the first one.
        rate_hz: Requests per second, bursts included.
        burst_factor: How many times more come in a burst than between; 1 for none.
        burst_every_s: Mean time from the start of a burst to that of the next.
        burst_length_s: Mean length of a burst.
        disconnects: Part of the callers that hang up early.
        patience_s: Mean time after which those do.
    """

    seed: int = 0
    num_phrases: int = 200
    hot_phrases: float = 0.1
    hot_requests: float = 0.3
    shares: Mapping[str, float] | None = None
    emotions: tuple[str, ...] = ("neutral",)
    rate_hz: float = 2.0
    burst_factor: float = 5.0
    burst_every_s: float = 60.0
    burst_length_s: float = 6.0
    disconnects: float = 0.0
    patience_s: float = 1.0

    def __post_init__(self) -> None:
        parts = (self.hot_phrases, self.hot_requests, self.disconnects)
        if self.num_phrases < 1 or not all(0 <= part <= 1 for part in parts):
            raise ValueError("num_phrases must be at least 1; hot_phrases, hot_requests and disconnects 0 to 1")
        if self.rate_hz <= 0 or self.burst_factor < 1 or not 0 < self.burst_length_s < self.burst_every_s:
            raise ValueError("rate_hz must be positive, burst_factor at least 1, bursts shorter than burst_every_s")

    @cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        """All phrases, the often repeated ones first."""
        shares = self.shares or {name: persona.share for name, persona in personas().items()}
        return phrase_book(self.num_phrases, self.seed, shares, self.emotions)

    @property
    def num_hot(self) -> int:
        """How many phrases are often repeated."""
        return min(self.num_phrases, max(1, round(self.hot_phrases * self.num_phrases)))

    def calls(self) -> Iterator[Call]:
        """Requests without end; which phrase comes next does not depend on what came before."""
        what, think, leave = (Random(f"{aspect} {self.seed}") for aspect in ("calls", "thinks", "leaves"))
        hot, cold = self.phrases[: self.num_hot], self.phrases[self.num_hot :]
        while True:
            is_hot = what.random() < self.hot_requests or not cold
            phrase = what.choice(hot if is_hot else cold)
            think_s = think.expovariate(1 / personas()[phrase.persona].think_s)
            goes, after_s = leave.random() < self.disconnects, leave.expovariate(1 / self.patience_s)
            yield Call(phrase=phrase, is_hot=is_hot, think_s=think_s, leaves_after_s=after_s if goes else None)

    def arrivals(self) -> Iterator[float]:
        """Times of requests in seconds from the start, ascending, without end.

        A Poisson process whose rate switches between calm and burst; both last exponentially distributed times.
        """
        random = Random(f"arrivals {self.seed}")
        duty = self.burst_length_s / self.burst_every_s
        calm_hz = self.rate_hz / (1 + (self.burst_factor - 1) * duty)
        calm_s = self.burst_every_s - self.burst_length_s
        in_burst, now_s = False, 0.0
        until_s = random.expovariate(1 / calm_s)
        while True:
            next_s = now_s + random.expovariate(calm_hz * (self.burst_factor if in_burst else 1))
            if next_s < until_s:
                now_s = next_s
                yield now_s
            else:  # the process has no memory: what was waited for begins anew at the new rate
                now_s, in_burst = until_s, not in_burst
                until_s = now_s + random.expovariate(1 / (self.burst_length_s if in_burst else calm_s))
