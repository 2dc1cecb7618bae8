"""The acoustic stage without Ray: requests in, tickets for mel spectrograms out."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from deployments.acoustic.stepper import AcousticStepper, new_counts
from deployments.acoustic.voice import AcousticVoice
from deployments.acoustic.work import AcousticTicket
from deployments.batching import WorkLoop
from deployments.counts import RunCounts
from deployments.messages import AcousticRequest, MelSpectrogram
from deployments.settings import AcousticSettings, Batching
from deployments.voices.folder import VoiceFolder


class AcousticEngine:
    """All voices of the stage behind one thread that admits new work between decoder steps.

    Args:
        folders: The voices to serve.
        settings: Of the stage; the number of torch's threads is the process's business, set by whoever owns it.
        device: "cpu", "cuda" or "cuda:0".

    Raises:
        VoiceInvalid: A voice cannot be loaded.
    """

    def __init__(self, folders: Sequence[VoiceFolder], settings: AcousticSettings, device: str) -> None:
        voices = {folder.name: AcousticVoice(folder, device, settings.backend, settings.threads) for folder in folders}
        self._counts = new_counts()
        self._loop: WorkLoop[AcousticRequest, MelSpectrogram] = WorkLoop(
            make_stepper=lambda: AcousticStepper(voices, settings, self._counts),
            size_of=lambda request: max(1, request.symbols.count("{")),
            limits=settings.batching,
            name="acoustic model",
        )

    @property
    def num_waiting(self) -> int:
        """Requests that are not yet admitted."""
        return self._loop.num_waiting

    @property
    def num_in_progress(self) -> int:
        """Requests that are admitted and not yet answered."""
        return self._loop.num_in_progress

    @property
    def counts(self) -> dict[str, RunCounts]:
        """What encoder (in tokens), decoder (in steps) and postnet (in frames) have run since the start."""
        return copy.deepcopy(self._counts)

    def submit(self, requests: Sequence[AcousticRequest]) -> list[AcousticTicket]:
        """Queues requests together.

        Args:
            requests: Of any voices; those with `stream` get their frames in pieces.

        Returns:
            A ticket per request, at once; each fails or succeeds on its own. `await ticket.result()` gives the whole;
            `async for chunk in ticket.chunks()` gives every MelChunk as soon as it is made (a request without `stream`
            has one, the whole). Whoever stops waiting or iterating gives the request up, which frees its place.

        Raises:
            NotReady: The engine is closed.
        """
        return self._loop.submit(
            requests, [request.priority for request in requests], [request.timeout_s for request in requests]
        )

    def reconfigure(self, batching: Batching) -> None:
        """Changes the limits of batching; work in progress goes on."""
        self._loop.reconfigure(batching)

    def why_unhealthy(self) -> str:
        """Empty while the engine is fit to serve, else the reason."""
        return self._loop.why_unhealthy()

    def close(self) -> None:
        """Refuses new work and fails what waits."""
        self._loop.close()

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits until a closed engine has finished its work in progress; False when the time was up before."""
        return self._loop.join(timeout_s)
