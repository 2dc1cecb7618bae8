"""The vocoder of a replica: all its voices behind one queue. No Ray."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from deployments.batching import WorkLoop
from deployments.counts import RunCounts
from deployments.errors import ConfigurationInvalid
from deployments.messages import SegmentAudio, VocoderRequest
from deployments.settings import Batching, VocoderSettings
from deployments.vocoder.backends.choice import Chooser
from deployments.vocoder.checkpoint import load_generator
from deployments.vocoder.stepper import Item, VocoderTicket, WindowStepper, voice_named
from deployments.vocoder.stream import MelStream, Piece
from deployments.vocoder.voice import VocoderVoice
from deployments.vocoder.windows import Planner, context_of
from deployments.voices.folder import VoiceFolder


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

    @property
    def num_in_progress(self) -> int:
        """Requests that are admitted and not yet answered."""
        return self._loop.num_in_progress

    def close(self) -> None:
        """Refuses new work and fails what waits."""
        self._loop.close()

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits until a closed engine has finished its work in progress; False when the time was up before."""
        return self._loop.join(timeout_s)


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
