"""Work in progress of the vocoder: windows of many requests in a fair order, batched by length and voice. No Ray."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from deployments.counts import RunCounts
from deployments.errors import SpeechError, SynthesisFailed, VoiceNotFound
from deployments.messages import MelSpectrogram, SegmentAudio, VocoderRequest
from deployments.settings import Batching
from deployments.ticket import Ticket
from deployments.vocoder.lanes import Lanes
from deployments.vocoder.stream import Piece
from deployments.vocoder.voice import Utterance, VocoderVoice
from deployments.vocoder.windows import Window

Item = tuple[VocoderRequest, MelSpectrogram | Piece]
VocoderTicket = Ticket[Item, SegmentAudio]
log = logging.getLogger(__name__)


class Work:
    """One request's windows and the samples made so far.

    Args:
        ticket: The claim on the result.
        voice: Of the request.
        utterance: The checked mel spectrogram, or the part of it that a streamed piece needs.
        windows: What to run, in order; their kept frames join without a gap.
        turn: Place in the order of service; grows by one with each window served.
    """

    def __init__(
        self, ticket: VocoderTicket, voice: VocoderVoice, utterance: Utterance, windows: list[Window], turn: float
    ) -> None:
        self.ticket = ticket
        self.voice = voice
        self.utterance = utterance
        self.turn = turn
        self.num_begun = 0
        self.ahead = deque(windows)
        self._num_missing = len(windows)
        self._first_frame = windows[0].keep_start
        num_frames = windows[-1].keep_end - self._first_frame
        self._pcm_S = np.empty(num_frames * voice.folder.hop_samples, dtype=np.int16)

    @property
    def kind(self) -> tuple[str, int]:
        """What the next window shares with those it can run together with: voice and length."""
        return self.voice.folder.name, self.ahead[0].length

    def begin(self) -> Window:
        """Takes out the next window, for its run."""
        self.turn += 1
        self.num_begun += 1
        return self.ahead.popleft()

    def put(self, window: Window, made: NDArray[np.int16] | SpeechError) -> None:
        """Takes the samples of a window; the last one that was missing settles the ticket, as does a fault."""
        if isinstance(made, SpeechError):
            self.ticket.fail(made)
            return
        start = (window.keep_start - self._first_frame) * self.voice.folder.hop_samples
        self._pcm_S[start : start + len(made)] = made
        self._num_missing -= 1
        if not self._num_missing:
            self.ticket.resolve(self._audio())

    def _audio(self) -> SegmentAudio:
        mel = self.ticket.item[1]
        frames_T, acoustic_s = np.zeros(0, dtype=np.int32), 0.0
        if isinstance(mel, MelSpectrogram):
            frames_T, acoustic_s = mel.frames_T, mel.queue_s + mel.model_s
        return SegmentAudio(
            pcm_S=self._pcm_S,
            sample_rate_hz=self.voice.folder.sample_rate_hz,
            frames_T=frames_T,
            acoustic_s=acoustic_s,
            vocoder_s=self.ticket.queue_s + self.ticket.model_s,
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One call of a generator: the next window of some works of one voice and, where there are several, one length."""

    works: list[Work]
    windows: list[Window]
    started_s: float

    def __call__(self) -> list[NDArray[np.int16] | SpeechError]:
        """The samples of each; when a batch fails its members are tried alone, so that one cannot fail another."""
        pieces = [(work.utterance, window) for work, window in zip(self.works, self.windows, strict=True)]
        try:
            return [*self.works[0].voice.synthesize(pieces)]
        except Exception as error:
            if len(self.works) > 1:
                alone = (Run([work], [window], 0.0) for work, window in zip(self.works, self.windows, strict=True))
                return [made for run in alone for made in run()]
            log.exception("vocoder: a window of request %s failed", self.works[0].ticket.item[0].request_id)
            return [error if isinstance(error, SpeechError) else SynthesisFailed(f"The vocoder failed: {error!r}.")]


class WindowStepper:
    """Work in progress of the vocoder; runs batches of windows of one voice and length, several where lanes are free.

    Requests take turns window by window, the lowest turn first. A clock counts how many turns each of the requests in
    progress would have had by now, had all been served alike; a new request starts at its time plus its priority. So
    its first window goes ahead of the later ones of long requests, and as the clock never stands still, nobody is
    overtaken for ever.

    Args:
        voices: By name.
        limits: Gives the limits in force.
        counts: Of the generator, in frames.
    """

    def __init__(
        self, voices: Mapping[str, VocoderVoice], limits: Callable[[], Batching], counts: RunCounts | None = None
    ) -> None:
        self._voices = voices
        self._limits = limits
        self._counts = RunCounts() if counts is None else counts
        self._works: list[Work] = []
        self._clock = 0.0
        lanes = max(voice.backend.lanes for voice in voices.values())
        self._lanes: Lanes[list[NDArray[np.int16] | SpeechError]] = Lanes(lanes, "vocoder")
        self._runs: dict[int, Run] = {}

    @property
    def in_progress(self) -> Sequence[VocoderTicket]:
        """See batching.Stepper."""
        return [work.ticket for work in tuple(self._works)]

    @property
    def running_since(self) -> float | None:
        """See batching.Stepper."""
        return self._lanes.running_since

    def wake(self) -> None:
        """See batching.Stepper."""
        self._lanes.wake()

    def close(self) -> None:
        """See batching.Stepper."""
        self._lanes.close()

    def admit(self, tickets: list[VocoderTicket]) -> None:
        """See batching.Stepper."""
        is_alone = len(tickets) == 1 and not self._works
        for ticket in tickets:
            request, mel = ticket.item
            try:
                voice = voice_named(self._voices, request.voice)
                if isinstance(mel, MelSpectrogram):
                    utterance = voice.utterance(mel.mel_FM, request.noise_key)
                    windows = voice.planner.plan(utterance.num_frames, voice.backend.lanes if is_alone else 1)
                else:
                    utterance, windows = mel.utterance, [mel.window]
            except SpeechError as error:
                ticket.fail(error)
            else:
                self._works.append(Work(ticket, voice, utterance, windows, self._clock + max(0, request.priority)))

    def step(self) -> None:
        """Starts runs while lanes are free and waits until one ends or new work arrives."""
        self._works = [work for work in self._works if work.ticket.wanted()]
        while batch := self._choose():
            self._clock += len(batch) / len(self._works)
            run = Run(batch, [work.begin() for work in batch], perf_counter())
            self._runs[self._lanes.start(run)] = run
        if not self._runs:
            return
        for number, results in self._lanes.wait():
            run = self._runs.pop(number)
            num_kept = sum(window.keep_end - window.keep_start for window in run.windows)
            num_run = sum(window.length for window in run.windows)
            self._counts.add(len(run.windows), num_run, num_kept, run.started_s)
            for work, window, made in zip(run.works, run.windows, results, strict=True):
                work.put(window, made)
        self._works = [work for work in self._works if not work.ticket.future.done()]

    def _choose(self) -> list[Work]:
        """The request whose turn it is, and others whose next window is of the same kind, within the budget.

        None while no lane is free.
        """
        waiting = [work for work in self._works if work.ahead]
        if not waiting:
            return []
        head = min(waiting, key=_order)
        busy = [run.works[0].voice.backend for run in self._runs.values()]
        if len(busy) >= min(backend.lanes for backend in (head.voice.backend, *busy)):
            return []
        limits = self._limits()
        within_cost = limits.max_batch_cost // head.ahead[0].length
        number = max(1, min(limits.max_batch_size, within_cost, head.voice.backend.max_batch))
        return sorted((work for work in waiting if work.kind == head.kind), key=_order)[:number]


def _order(work: Work) -> tuple[float, int]:
    return work.turn, work.num_begun  # then by admission: sorting and min keep the order of equals


def voice_named(voices: Mapping[str, VocoderVoice], name: str) -> VocoderVoice:
    """The voice of this name.

    Raises:
        VoiceNotFound: There is none.
    """
    if name not in voices:
        raise VoiceNotFound(f"There is no voice {name!r}; choose one of {', '.join(voices)}.", "voice")
    return voices[name]
