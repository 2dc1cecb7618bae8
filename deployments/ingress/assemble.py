"""From segments to one answer: volume, pauses, sample rate; piece by piece or whole, with equal samples.

Everything here works on its argument alone, so that pieces may be computed on any thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import soxr
from numpy.typing import NDArray

from deployments.answers import Audio, TimedSegment
from deployments.errors import TextNotSpeakable
from deployments.ingress.timestamps import timed_segment
from deployments.messages import Segment, SpokenSegment

KNEE = 0.8
FULL_SCALE = 32768.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A segment and where it lies in the answer.

    Attributes:
        segment: What was spoken.
        frames_T: int32 [symbols]; see SegmentAudio.
        start_s: Seconds from the start of the answer.
        num_samples: Of the segment, at the voice's rate.
        sample_rate_hz: The voice's.
    """

    segment: Segment
    frames_T: NDArray[np.int32]
    start_s: Fraction
    num_samples: int
    sample_rate_hz: int

    def timed(self) -> TimedSegment:
        """The times of the segment, its words and characters."""
        samples_per_frame = Fraction(self.num_samples, max(1, int(self.frames_T.sum())))
        return timed_segment(self.segment, self.frames_T, samples_per_frame / self.sample_rate_hz, self.start_s)


class Assembly:
    """One answer in the making.

    Args:
        sample_rate_hz: Of the answer, None for that of the first segment.
        volume: 0 to 2; of segments that have no controls of their own.
    """

    def __init__(self, sample_rate_hz: int | None = None, volume: float = 1.0) -> None:
        self._rate_hz = sample_rate_hz
        self._default_volume = self._volume = volume
        self._source_rate_hz = 0
        self._resampler: soxr.ResampleStream | None = None
        self._elapsed_s = Fraction(0)
        self._pause_s = 0.0
        self._tail_s = 0.0
        self._num_samples = 0
        self._samples_of_segment = 0
        self._placed: list[Placed] = []
        self._caches: list[str] = []
        self._timings_s: dict[str, float] = dict.fromkeys(("text", "cache", "acoustic", "vocoder"), 0.0)

    @property
    def sample_rate_hz(self) -> int:
        """Of the answer; known once a segment was added.

        Raises:
            TextNotSpeakable: There is no segment yet.
        """
        if not self._rate_hz or not self._source_rate_hz:
            raise TextNotSpeakable("Nothing in the text can be spoken. Send words, not only marks.", param="input")
        return self._rate_hz

    @property
    def cache(self) -> str:
        """Of the segments so far: "hit", "partial", "miss" or "bypass"."""
        return summary(self._caches)

    @property
    def timings_s(self) -> dict[str, float]:
        """Seconds of the segments so far by stage: text, cache, acoustic, vocoder."""
        return dict(self._timings_s)

    @property
    def num_samples(self) -> int:
        """Samples of the answer that were returned so far."""
        return self._num_samples

    @property
    def num_segments(self) -> int:
        """Segments so far."""
        return len(self._placed)

    def timeline(self, first: int = 0) -> tuple[TimedSegment, ...]:
        """Where the segments, their words and characters lie in the answer.

        Args:
            first: Number of the first segment that is wanted.
        """
        return tuple(placed.timed() for placed in self._placed[first:])

    def pause(self, at_least_s: float) -> None:
        """Lengthens the pause before the next segment, if there is a next one.

        Args:
            at_least_s: Seconds.
        """
        self._pause_s = max(self._pause_s, at_least_s)

    def add(self, spoken: SpokenSegment) -> NDArray[np.int16]:
        """Takes the next segment, or the next part of one.

        Returns:
            int16 [samples]: what of the answer is known now, beginning with the pause after the segment before.
        """
        audio, controls = spoken.audio, spoken.segment.controls
        parts = [self._switch(audio.sample_rate_hz, controls.volume if controls else self._default_volume)]
        if spoken.part == 0:
            parts.append(self._silence(self._pause_s + spoken.segment.lead_s))
        parts.append(self._convert(audio.pcm_S))
        self._elapsed_s += Fraction(len(audio.pcm_S), audio.sample_rate_hz)
        self._samples_of_segment += len(audio.pcm_S)
        self._pause_s = self._tail_s = 0.0
        if spoken.is_last:
            self._complete(spoken)
        return self._count(np.concatenate(parts))

    def _complete(self, spoken: SpokenSegment) -> None:
        """Notes what is known once all samples of a segment were added; its last part tells of the whole."""
        audio, num_samples = spoken.audio, self._samples_of_segment
        start_s = self._elapsed_s - Fraction(num_samples, audio.sample_rate_hz)
        self._placed.append(Placed(spoken.segment, audio.frames_T, start_s, num_samples, audio.sample_rate_hz))
        self._samples_of_segment = 0
        self._pause_s = spoken.segment.pause_s + spoken.segment.tail_s
        self._tail_s = spoken.segment.tail_s
        self._caches.append(spoken.cache)
        self._timings_s["text"] += spoken.text_s
        self._timings_s["cache"] += spoken.cache_s
        self._timings_s["acoustic"] += audio.acoustic_s
        self._timings_s["vocoder"] += audio.vocoder_s

    def finish(self) -> NDArray[np.int16]:
        """The samples that the resampler still holds; only a break that ends the text follows the last segment."""
        silence = self._silence(self._tail_s)
        self._tail_s = 0.0
        return self._count(np.concatenate([silence, self._flush()]))

    def audio(self, pcm: NDArray[np.int16]) -> Audio:
        """The whole answer.

        Args:
            pcm: int16 [samples]: all that `add` and `finish` returned, joined.

        Raises:
            TextNotSpeakable: There was no segment.
        """
        return Audio(
            pcm=pcm,
            sample_rate_hz=self.sample_rate_hz,
            segments=self.timeline(),
            cache=self.cache,
            timings_s=self.timings_s,
        )

    def _count(self, pcm_S: NDArray[np.int16]) -> NDArray[np.int16]:
        self._num_samples += len(pcm_S)
        return pcm_S

    def _silence(self, length_s: float) -> NDArray[np.int16]:
        """Silence at this place of the answer, as long as it is at the sample rate of the segments."""
        silence_S = np.zeros(round(length_s * self._source_rate_hz), np.int16)
        if not len(silence_S):
            return silence_S
        self._elapsed_s += Fraction(len(silence_S), self._source_rate_hz)
        return self._convert(silence_S)

    def _switch(self, source_rate_hz: int, volume: float) -> NDArray[np.int16]:
        """Gets ready for segments of this sample rate and volume; returns what is left of the one before."""
        if (source_rate_hz, volume) == (self._source_rate_hz, self._volume):
            return np.zeros(0, np.int16)
        rest = self._flush()
        self._source_rate_hz, self._volume = source_rate_hz, volume
        self._rate_hz = self._rate_hz or source_rate_hz
        if source_rate_hz != self._rate_hz:
            self._resampler = soxr.ResampleStream(source_rate_hz, self._rate_hz, 1, dtype="float32", quality="HQ")
        return rest

    def _convert(self, pcm_S: NDArray[np.int16]) -> NDArray[np.int16]:
        if self._resampler is None:
            return pcm_S if self._volume == 1.0 else _to_pcm(amplify(_to_wave(pcm_S), self._volume))
        return _to_pcm(amplify(self._resampler.resample_chunk(_to_wave(pcm_S)), self._volume))

    def _flush(self) -> NDArray[np.int16]:
        if self._resampler is None:
            return np.zeros(0, np.int16)
        wave_S = self._resampler.resample_chunk(np.zeros(0, np.float32), last=True)
        self._resampler = None
        return _to_pcm(amplify(wave_S, self._volume))


def assemble(spoken: Iterable[SpokenSegment], sample_rate_hz: int | None = None, volume: float = 1.0) -> Audio:
    """The whole answer from all its segments.

    Args:
        spoken: In order.
        sample_rate_hz: Of the answer, None for that of the first segment.
        volume: 0 to 2.

    Raises:
        TextNotSpeakable: There is no segment.
    """
    assembly = Assembly(sample_rate_hz, volume)
    parts = [assembly.add(segment) for segment in spoken]
    return assembly.audio(np.concatenate([*parts, assembly.finish()]))


async def collect(segments: AsyncGenerator[SpokenSegment, None]) -> list[SpokenSegment]:
    """All segments; closes the generator whatever happens."""
    async with aclosing(segments):
        return [segment async for segment in segments]


def amplify(wave_S: NDArray[np.float32], volume: float) -> NDArray[np.float32]:
    """Scales a waveform; what would leave the range is bent, not cut.

    Up to the knee the curve is the straight line; above, it falls away smoothly and meets full scale where the loudest
    possible input lies. It becomes the identity as the volume goes to 1.

    Args:
        wave_S: float32 [samples], -1 to 1.
        volume: 0 to 2.

    Returns:
        float32 [samples], within -1 to 1.
    """
    scaled_S = wave_S * np.float32(volume)
    if volume > 1.0:
        size_S = np.abs(scaled_S)
        rest_S = np.clip((volume - size_S) / (volume - KNEE), 0.0, 1.0)
        bent_S = 1.0 - (1.0 - KNEE) * rest_S ** ((volume - KNEE) / (1.0 - KNEE))
        scaled_S = np.where(size_S > KNEE, np.copysign(bent_S, scaled_S), scaled_S).astype(np.float32)
    return scaled_S.clip(-1.0, 1.0)


def summary(caches: Iterable[str]) -> str:
    """One word for how the segments of an answer were had.

    Args:
        caches: "miss", "bypass" or the name of a tier, per segment.
    """
    seen = set(caches)
    if "bypass" in seen:
        return "bypass"
    if "miss" not in seen:
        return "hit" if seen else "miss"
    return "miss" if seen == {"miss"} else "partial"


def _to_wave(pcm_S: NDArray[np.int16]) -> NDArray[np.float32]:
    return pcm_S.astype(np.float32) / np.float32(FULL_SCALE)


def _to_pcm(wave_S: NDArray[np.float32]) -> NDArray[np.int16]:
    return (wave_S * FULL_SCALE).round().clip(-FULL_SCALE, FULL_SCALE - 1).astype(np.int16)
