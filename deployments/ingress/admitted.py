"""The stages behind admission: every text gets a place before they hear of it, or is refused."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Literal

from deployments.errors import DeadlineExceeded, Overloaded
from deployments.ingress.admission import Admission, Place, Wish
from deployments.ingress.service import SpeechService
from deployments.ingress.wire import spoken_chars
from deployments.messages import SpeechRequest, SpokenSegment, StageStatus, TextAnalysis, VoiceInfo

MADE: Final = frozenset({"miss", "bypass"})


class Admitted:
    """A SpeechService that takes on no more than it can; the texts of its callers begin at once or are refused.

    Args:
        service: The stages.
        admission: Shared by all that is taken on.
    """

    def __init__(self, service: SpeechService, admission: Admission) -> None:
        self.admission = admission
        self._service = service

    def live(self) -> SpeechService:
        """The same for texts that belong to what was taken on: they wait for a place."""
        return Patient(self._service, self.admission, "live")

    def background(self) -> SpeechService:
        """The same for texts that nobody listens to: they wait and leave room for others."""
        return Patient(self._service, self.admission, "background")

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """See SpeechService; Overloaded tells when there will be room."""
        try:
            place = self.admission.enter(wish_of(request))
        except Overloaded as refusal:
            async with aclosing(self._known(request, refusal)) as segments:
                async for segment in segments:
                    yield segment
            return
        async with aclosing(spoken_in(place, self._service, request)) as segments:
            async for segment in segments:
                yield segment

    async def analyse(self, text: str, voice: str, normalize: bool) -> TextAnalysis:
        """See SpeechService."""
        try:
            place = self.admission.enter(Wish(num_chars=0))
        except Overloaded:
            self.admission.refuse("room")
            raise
        try:
            return await self._service.analyse(text, voice, normalize)
        finally:
            place.leave(is_whole=False)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """See SpeechService."""
        return await self._service.voices()

    async def stages(self) -> tuple[StageStatus, ...]:
        """See SpeechService."""
        return await self._service.stages()

    async def purge(self, voice: str | None) -> int:
        """See SpeechService."""
        return await self._service.purge(voice)

    async def _known(self, request: SpeechRequest, refusal: Overloaded) -> AsyncGenerator[SpokenSegment, None]:
        """What the cache has of a text for which there is no room; the refusal stands where it has not all of it."""
        try:
            if not request.use_cache or not self.admission.may_look:
                raise refusal
            with self.admission.look():
                async with aclosing(self._service.speak(replace(request, cached_only=True))) as segments:
                    async for segment in segments:
                        yield segment
        except Overloaded:
            self.admission.refuse("room")
            raise refusal from None


class Patient(Admitted):
    """A SpeechService whose texts wait for a place.

    Args:
        service: The stages.
        admission: See Admitted.
        kind: See Admission.wait.
    """

    def __init__(self, service: SpeechService, admission: Admission, kind: Literal["live", "background"]) -> None:
        super().__init__(service, admission)
        self._kind = kind

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """See SpeechService; the time of waiting is taken from that of the request."""
        arrived = time.monotonic()
        place = await self.admission.wait(wish_of(request), self._kind)
        if request.timeout_s is not None:
            left_s = request.timeout_s - (time.monotonic() - arrived)
            if left_s <= 0:
                place.leave(is_whole=False)
                raise DeadlineExceeded("The request's time was up before it was its turn. Retry later.")
            request = replace(request, timeout_s=left_s)
        async with aclosing(spoken_in(place, self._service, request)) as segments:
            async for segment in segments:
                yield segment


def wish_of(request: SpeechRequest) -> Wish:
    """What a request asks for."""
    sound = (
        (request.text, request.voice, request.emotion, request.emotion_intensity, request.speed, request.pitch)
        if request.use_cache
        else None
    )
    return Wish(num_chars=spoken_chars(request.text), speed=request.speed, sound=sound)


async def spoken_in(
    place: Place, service: SpeechService, request: SpeechRequest
) -> AsyncGenerator[SpokenSegment, None]:
    """The segments of a request that has a place, which is given back at the end, whatever it is."""
    is_whole = False
    try:
        async with aclosing(service.speak(request)) as segments:
            while (segment := await _next(place, segments)) is not None:
                yield segment
        is_whole = True
    finally:
        place.leave(is_whole=is_whole)


async def _next(place: Place, segments: AsyncGenerator[SpokenSegment, None]) -> SpokenSegment | None:
    with place.waiting():
        segment = await anext(segments, None)
    if segment is not None:
        place.made(segment.audio.duration_s, by_models=segment.cache in MADE)
    return segment
