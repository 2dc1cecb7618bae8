"""What one replica takes on: texts in progress and the audio they ask for, bounded; the rest is refused at once.

A text that finds no room is looked for in the cache (`Admitted`), as long as such looks find something. What was taken
on in advance (items of a batch, tasks, later pieces of a WebSocket's text) waits for its turn instead. No Ray.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal

from deployments.errors import Overloaded
from deployments.ingress.rates import DrainRate, SpokenLength
from deployments.metrics import Metric, Metrics
from deployments.settings import AdmissionSettings, IngressSettings

Kind = Literal["now", "live", "background"]
SLOWEST: Final = 0.1  # seconds of audio per second, for Retry-After
RETRY_AFTER_S: Final = (1.0, 60.0)
MAX_LOOKS: Final = 8.0  # looks into the cache that may miss in a row
LOOKS_PER_S: Final = 4.0  # and how fast they come back
ADMISSION: Final = (
    Metric("texts_admitted", "count", "Texts that were taken on; how: full, or cached_only where there was no room for "
           "more work", ("how",)),
    Metric("refusals", "count", "Texts and sessions refused, by what was exhausted: room, sessions, reading, "
           "key_requests, key_characters", ("why",)),
    Metric("texts_in_progress", "gauge", "Texts that are being spoken"),
    Metric("audio_ahead_seconds", "gauge", "Estimated audio of these texts that is still to be made"),
    Metric("audio_room_seconds", "gauge", "How much of it there may be at most, as the models are working now"),
    Metric("drain_rate", "gauge", "Seconds of audio that the models make per second while somebody waits"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """What a text asks for.

    Attributes:
        num_chars: Characters that will be spoken.
        speed: See SpeechRequest.
        sound: The same for texts that sound the same and may come from one synthesis; None is like no other.
    """

    num_chars: int
    speed: float = 1.0
    sound: Hashable = None


class Place:
    """A text in progress; made by Admission alone."""

    def __init__(self, admission: Admission, wish: Wish, audio_s: float, kind: Kind) -> None:
        self.wish = wish
        self.kind = kind
        self.estimate_s = audio_s
        self.made_s = 0.0
        self.counted_s = 0.0
        self._admission = admission

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The time of waiting for the stages, from which their speed is learnt."""
        with self._admission.rate.waiting():
            yield

    def made(self, audio_s: float, *, by_models: bool) -> None:
        """Takes the next samples of the text.

        Args:
            audio_s: Seconds of audio.
            by_models: Whether they were synthesised; False for those from the cache.
        """
        self.made_s += audio_s
        if by_models:
            self._admission.rate.made(audio_s)
        self._admission.recount(self)

    def leave(self, *, is_whole: bool) -> None:
        """Gives the place back; of a text that was spoken to its end the length is learnt."""
        if is_whole:
            self._admission.length.learn(self.wish.num_chars, self.wish.speed, self.made_s)
        self._admission.release(self)


class Admission:
    """Who may begin now. Belongs to one event loop.

    Args:
        settings: The bounds; read at every use.
        metrics: Gets the series ADMISSION, or None.
        clock: Seconds.

    Attributes:
        length: Learns how long texts are.
        rate: Learns how fast they are made.
    """

    def __init__(
        self,
        settings: IngressSettings,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.length = SpokenLength()
        self.rate = DrainRate(clock)
        self._all_settings = settings
        self._metrics = metrics
        self._clock = clock
        self._num = Counter[Kind]()
        self._audio_s: defaultdict[Kind, float] = defaultdict(float)
        self._sounds = Counter[Hashable]()
        self._queues: dict[Kind, deque[tuple[Wish, asyncio.Future[Place]]]] = {"live": deque(), "background": deque()}
        self._promised_s = 0.0
        self._looks = MAX_LOOKS
        self._num_looking = 0
        self._renewed_at = clock()

    @property
    def num_texts(self) -> int:
        """Texts in progress."""
        return self._num.total()

    @property
    def audio_s(self) -> float:
        """Their audio that is still to be made, seconds, as far as it counts."""
        return max(0.0, sum(self._audio_s.values()))  # sums of what came and went may miss 0 by a rounding

    @property
    def room_s(self) -> float:
        """How much of it there may be: max_audio_s, or less where the models would take longer than max_wait_s."""
        rate = self.rate.best_per_s
        if rate is None:
            return self._settings.max_audio_s
        by_rate_s = max(rate * self._settings.max_wait_s, self._settings.max_request_audio_s)
        return min(self._settings.max_audio_s, by_rate_s)

    def check(self) -> None:
        """Refuses a text of which nothing is known yet, so that no work is done for it.

        Raises:
            Overloaded: There is room for no text, and looking into the cache is not worth it.
        """
        least = Wish(num_chars=1)
        if (why := self._why_not(least, "now")) and not self.may_look:
            self.refuse("room")
            raise self._refusal(self._mean_s(), why)

    def enter(self, wish: Wish) -> Place:
        """A place for a text that begins now.

        Raises:
            Overloaded: There is no room; tells when there will be.
        """
        if why := self._why_not(wish, "now"):
            raise self._refusal(self._cost_s(wish), why)
        return self._take(wish, "now")

    async def wait(self, wish: Wish, kind: Literal["live", "background"]) -> Place:
        """A place for a text that was taken on before; waits for it, in order of arrival.

        Args:
            wish: What it asks for.
            kind: "background" takes no more than background_share of the room, and comes after "live".
        """
        queue = self._queues[kind]
        if not queue and not self._why_not(wish, kind):
            return self._take(wish, kind)
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        queue.append((wish, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().leave(is_whole=False)
            else:
                with suppress(ValueError):  # it was taken out when it was seen to be cancelled
                    queue.remove((wish, future))
                self._let_in()
            raise

    @contextmanager
    def look(self) -> Iterator[None]:
        """A look into the cache for a text that found no room, where may_look; an error leaves it as a vain one."""
        self._looks -= 1
        self._num_looking += 1
        try:
            yield
            self._looks = min(MAX_LOOKS, self._looks + 1)
            self._count("texts_admitted", how="cached_only")
        finally:
            self._num_looking -= 1

    def refuse(self, why: str) -> None:
        """Counts what was refused, by what was exhausted."""
        self._count("refusals", why=why)

    def recount(self, place: Place) -> None:
        """Follows what a text still asks for."""
        self._set_counted(place, min(self._settings.max_request_audio_s, max(0.0, place.estimate_s - place.made_s)))
        self._let_in()

    def release(self, place: Place) -> None:
        """Frees a place."""
        self._set_counted(place, 0.0)
        self._num[place.kind] -= 1
        if place.wish.sound is not None:
            self._sounds[place.wish.sound] -= 1
            if not self._sounds[place.wish.sound]:
                del self._sounds[place.wish.sound]
        if not self.num_texts:
            self._audio_s.clear()  # no rounding adds up
        self._let_in()

    @property
    def _settings(self) -> AdmissionSettings:
        return self._all_settings.admission

    def _cost_s(self, wish: Wish) -> float:
        if wish.sound in self._sounds:
            return 0.0  # one synthesis serves all
        return min(self._settings.max_request_audio_s, self.length.of(wish.num_chars, wish.speed))

    def _mean_s(self) -> float:
        return self.audio_s / max(1, self.num_texts)

    def _why_not(self, wish: Wish, kind: Kind) -> Literal["texts", "audio", ""]:
        """What is exhausted; a service without work takes anything."""
        num, audio_s, share = self.num_texts, self.audio_s, 1.0
        if kind == "background":
            num, audio_s, share = self._num[kind], self._audio_s[kind], self._settings.background_share
        if num and num + 1 > self._settings.max_requests * share:
            return "texts"
        return "audio" if num and audio_s + self._cost_s(wish) > self.room_s * share else ""

    def _take(self, wish: Wish, kind: Kind) -> Place:
        place = Place(self, wish, self._cost_s(wish) and self.length.of(wish.num_chars, wish.speed), kind)
        self._num[kind] += 1
        if wish.sound is not None:
            self._sounds[wish.sound] += 1
        self._set_counted(place, min(self._settings.max_request_audio_s, place.estimate_s))
        self._count("texts_admitted", how="full")
        return place

    def _let_in(self) -> None:
        """Gives places to those who wait and now find room."""
        for kind, queue in self._queues.items():
            while queue and not self._why_not(queue[0][0], kind):
                wish, future = queue.popleft()
                if not future.done():
                    future.set_result(self._take(wish, kind))

    def _set_counted(self, place: Place, counted_s: float) -> None:
        self._audio_s[place.kind] += counted_s - place.counted_s
        place.counted_s = counted_s
        if self._metrics is not None:
            self._metrics.gauge("texts_in_progress", self.num_texts, {})
            self._metrics.gauge("audio_ahead_seconds", self.audio_s, {})
            self._metrics.gauge("audio_room_seconds", self.room_s, {})
            self._metrics.gauge("drain_rate", self.rate.per_s or 0.0, {})

    @property
    def may_look(self) -> bool:
        """Whether a text that finds no room may be looked for in the cache."""
        self._renew()
        return self._looks >= 1 and self._num_looking < self._settings.max_cached_requests

    def _refusal(self, cost_s: float, why: str) -> Overloaded:
        """Says when there will be room; callers that were told so before come first, so that not all return at once."""
        self._renew()
        over_s = max(0.0, self.audio_s + cost_s - self.room_s)
        if why == "texts":
            over_s = max(over_s, self._mean_s())
        wait_s = (over_s + self._promised_s) / self._pace()
        self._promised_s += cost_s
        least_s, most_s = RETRY_AFTER_S
        retry_after_s = float(math.ceil(min(most_s, max(least_s, wait_s))))
        message = f"The service has as much to do as it can. Retry in {retry_after_s:.0f} s."
        return Overloaded(message, retry_after_s=retry_after_s)

    def _renew(self) -> None:
        """What time brings: looks come back, promises are kept."""
        now = self._clock()
        spent_s, self._renewed_at = now - self._renewed_at, now
        self._looks = min(MAX_LOOKS, self._looks + LOOKS_PER_S * spent_s)
        most_s = RETRY_AFTER_S[1] * self._pace()
        self._promised_s = min(most_s, max(0.0, self._promised_s - self._pace() * spent_s))

    def _pace(self) -> float:
        rate = self.rate.per_s
        return max(SLOWEST, 1.0 if rate is None else rate)

    def _count(self, name: str, **tags: str) -> None:
        if self._metrics is not None:
            self._metrics.count(name, 1, tags)
