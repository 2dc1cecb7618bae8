"""The vocoder's work: windows of many requests, batched by length and voice, in a fair order. No Ray."""

from __future__ import annotations

import copy
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from deployments.batching import WorkLoop
from deployments.counts import RunCounts
from deployments.errors import ConfigurationInvalid, SpeechError, SynthesisFailed, VoiceNotFound
from deployments.messages import MelSpectrogram, SegmentAudio, VocoderRequest
from deployments.settings import Batching, VocoderSettings
from deployments.ticket import Ticket
from deployments.vocoder.backends.choice import Chooser
from deployments.vocoder.checkpoint import load_generator
from deployments.vocoder.stream import MelStream, Piece
from deployments.vocoder.voice import Utterance, VocoderVoice
from deployments.vocoder.windows import Planner, Window, context_of
from deployments.voices.folder import VoiceFolder

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
        self.num_done = 0
        self.windows = deque(windows)
        self._first_frame = windows[0].keep_start
        num_frames = windows[-1].keep_end - self._first_frame
        self._pcm_S = np.empty(num_frames * voice.folder.hop_samples, dtype=np.int16)

    @property
    def kind(self) -> tuple[str, int]:
        """What the next window shares with those it can run together with: voice and length."""
        return self.voice.folder.name, self.windows[0].length

    def put(self, window: Window, pcm_S: NDArray[np.int16]) -> None:
        """Takes the samples of the next window; the last one settles the ticket."""
        start = (window.keep_start - self._first_frame) * self.voice.folder.hop_samples
        self._pcm_S[start : start + len(pcm_S)] = pcm_S
        self.windows.popleft()
        self.turn += 1
        self.num_done += 1
        if not self.windows:
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


class WindowStepper:
    """Work in progress of the vocoder; each step runs one batch of windows of one voice and length.

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

    @property
    def in_progress(self) -> Sequence[VocoderTicket]:
        """See batching.Stepper."""
        return [work.ticket for work in self._works]

    def admit(self, tickets: list[VocoderTicket]) -> None:
        """See batching.Stepper."""
        for ticket in tickets:
            request, mel = ticket.item
            try:
                voice = voice_named(self._voices, request.voice)
                if isinstance(mel, MelSpectrogram):
                    utterance = voice.utterance(mel.mel_FM, request.noise_key)
                    windows = voice.planner.plan(utterance.num_frames)
                else:
                    utterance, windows = mel.utterance, [mel.window]
            except SpeechError as error:
                ticket.fail(error)
            else:
                self._works.append(Work(ticket, voice, utterance, windows, self._clock + max(0, request.priority)))

    def step(self) -> None:
        """See batching.Stepper."""
        self._works = [work for work in self._works if work.ticket.wanted()]
        batch = self._choose()
        if batch:
            self._clock += len(batch) / len(self._works)
            self._run(batch)
            self._works = [work for work in self._works if not work.ticket.future.done()]

    def _choose(self) -> list[Work]:
        """The request whose turn it is, and others whose next window is of the same kind, within the budget."""
        in_order = sorted(self._works, key=lambda work: (work.turn, work.num_done))  # stable: then by admission
        if not in_order:
            return []
        limits, head = self._limits(), in_order[0]
        within_cost = limits.max_batch_cost // head.windows[0].length
        number = max(1, min(limits.max_batch_size, within_cost, head.voice.backend.max_batch))
        return [work for work in in_order if work.kind == head.kind][:number]

    def _run(self, batch: list[Work]) -> None:
        """Runs one window of each; when a batch fails its members are tried alone, so that one cannot fail another."""
        started_s = perf_counter()
        windows = [work.windows[0] for work in batch]
        try:
            made = batch[0].voice.synthesize([(work.utterance, work.windows[0]) for work in batch])
        except Exception as error:
            if len(batch) > 1:
                for work in batch:
                    self._run([work])
                return
            log.exception("vocoder: a window of request %s failed", batch[0].ticket.item[0].request_id)
            batch[0].ticket.fail(
                error if isinstance(error, SpeechError) else SynthesisFailed(f"The vocoder failed: {error!r}.")
            )
            return
        num_kept = sum(window.keep_end - window.keep_start for window in windows)
        self._counts.add(len(batch), sum(window.length for window in windows), num_kept, started_s)
        for work, pcm_S in zip(batch, made, strict=True):
            work.put(work.windows[0], pcm_S)


class VocoderEngine:
    """All voices of a replica behind one queue.

    Args:
        folders: Voices to load.
        settings: Window lengths, runtime, batching.
        device: Of torch: "cpu", "cuda", "cuda:0".

    Raises:
        VoiceInvalid: A checkpoint does not load.
        ConfigurationInvalid: A voice needs longer windows than the settings name, or no runtime fits.
    """

    def __init__(self, folders: Sequence[VoiceFolder], settings: VocoderSettings, device: str) -> None:
        chooser = Chooser(settings, device)
        voices = self._voices = {folder.name: load_voice(folder, settings, device, chooser) for folder in folders}
        self._counts = RunCounts()
        self._loop: WorkLoop[Item, SegmentAudio] = WorkLoop(
            lambda: WindowStepper(voices, lambda: self._loop.limits, self._counts),
            _num_frames,
            settings.batching,
            "vocoder",
        )

    @property
    def counts(self) -> dict[str, RunCounts]:
        """What the generator has run since the start, in frames; context around windows counts as not kept."""
        return {"generator": copy.copy(self._counts)}

    def submit(self, requests: Sequence[Item]) -> list[VocoderTicket]:
        """Queues requests together and returns a ticket per request at once.

        Raises:
            NotReady: The engine is closed.
        """
        return self._loop.submit(
            requests, [request.priority for request, _ in requests], [request.timeout_s for request, _ in requests]
        )

    def open_stream(self, request: VocoderRequest) -> MelStream:
        """Begins an utterance whose mel spectrogram arrives in pieces; submit() what its push() and finish() return.

        Raises:
            VoiceNotFound: There is no such voice.
        """
        return MelStream(voice_named(self._voices, request.voice), request.noise_key)

    def reconfigure(self, batching: Batching) -> None:
        """Changes the batch settings; work in progress goes on."""
        self._loop.reconfigure(batching)

    def why_unhealthy(self) -> str:
        """Empty while the engine is fit to serve, else the reason."""
        return self._loop.why_unhealthy()

    @property
    def num_waiting(self) -> int:
        """Requests that are not yet admitted."""
        return self._loop.num_waiting

    def close(self) -> None:
        """Refuses new work and fails what waits."""
        self._loop.close()


def voice_named(voices: Mapping[str, VocoderVoice], name: str) -> VocoderVoice:
    """The voice of this name.

    Raises:
        VoiceNotFound: There is none.
    """
    if name not in voices:
        raise VoiceNotFound(f"There is no voice {name!r}; choose one of {', '.join(voices)}.", "voice")
    return voices[name]


def load_voice(folder: VoiceFolder, settings: VocoderSettings, device: str, chooser: Chooser) -> VocoderVoice:
    """Loads one voice with its windows and runtime.

    Raises:
        VoiceInvalid: The checkpoint does not load.
        ConfigurationInvalid: The voice needs longer windows than the settings name, or no runtime fits.
    """
    generator = load_generator(folder)
    context = context_of(generator.config)
    try:
        planner = Planner(settings.window_frames, context)
    except ValueError as error:
        raise ConfigurationInvalid(
            f"vocoder.window_frames={list(settings.window_frames)} is too short for voice {folder.name}: {error}; "
            f"add a length of at least {2 * context.total}.",
            "vocoder.window_frames",
        ) from error
    backend = chooser.choose(folder, generator, planner.lengths)
    planner = Planner(planner.lengths, context, any_length=backend.any_length)
    return VocoderVoice(folder, generator, planner, backend, device)


def _num_frames(item: Item) -> int:
    mel = item[1]
    if isinstance(mel, Piece):
        return mel.window.length
    return max(1, len(mel.mel_FM)) if np.ndim(mel.mel_FM) else 1
