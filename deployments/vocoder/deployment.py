"""The Vocoder deployment: mel spectrogram in, 16 bit samples out, in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import torch
from ray import serve
from ray.serve.handle import DeploymentHandle

from deployments.counts import RunCounts
from deployments.deployment import answering, device_of, inline, items_of
from deployments.errors import NotReady
from deployments.messages import AcousticRequest, MelSpectrogram, SegmentAudio, StageStatus, VocoderRequest
from deployments.settings import VocoderSettings, VoicesSettings
from deployments.ticket import Ticket
from deployments.vocoder.engine import VocoderEngine
from deployments.vocoder.parts import vocode_chunks
from deployments.voices.store import VoiceStore


class Vocoder:
    """HifiGan: turns the mel spectrogram of a segment into samples.

    Arrivals are collected by @serve.batch and join the batches of windows; each caller waits for its own result alone.
    """

    def __init__(self, settings: VocoderSettings, voices: VoicesSettings, acoustic: DeploymentHandle[Any]) -> None:
        torch.set_num_threads(settings.threads)
        store = VoiceStore.open(voices)
        folders = [store.folder(name) for name in store.names]
        self._engine = VocoderEngine(folders, settings, device_of(settings.device))
        self._batching = settings.batching
        self._acoustic_stream = inline(acoustic, stream=True)

    def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Takes new batch settings on the live service."""
        batching = self._batching.changed(user_config)
        collector: Any = self._collect  # @serve.batch adds the two setters
        collector.set_max_batch_size(batching.max_batch_size)
        collector.set_batch_wait_timeout_s(batching.batch_wait_s)
        self._engine.reconfigure(batching)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.0)
    async def _collect(self, requests: list[tuple[VocoderRequest, MelSpectrogram]]) -> list[Ticket[Any, SegmentAudio]]:
        """Hands what arrived together to the engine, which never blocks; reconfigure() sets both numbers."""
        return self._engine.submit(requests)

    @answering
    async def vocode(self, request: VocoderRequest, mel: MelSpectrogram) -> SegmentAudio:
        """The samples of one segment.

        Args:
            request: Voice, noise key and time left.
            mel: The acoustic stage's answer; callers pass its response on, so that it travels between stages directly.

        Raises:
            SpeechError: The request failed or ran out of time.
        """
        ticket = await self._collect((request, mel))
        return await ticket.result()

    @answering
    async def vocode_stream(
        self, request: VocoderRequest, acoustic_request: AcousticRequest
    ) -> AsyncGenerator[SegmentAudio, None]:
        """The samples of one segment in parts, while the acoustic model is still at work on it.

        Fetches the mel spectrogram itself, so that it travels once and its later frames are vocoded while earlier
        samples are on their way. The first part carries frames_T.

        Raises:
            SpeechError: A stage refused, failed or ran out of time.
        """
        chunks = items_of(self._acoustic_stream.infer_stream.remote(acoustic_request))
        parts = vocode_chunks(self._engine, request, chunks)
        async with aclosing(parts):
            async for part in parts:
                yield part

    async def status(self) -> StageStatus:
        """Whether this replica can serve."""
        reason = self._engine.why_unhealthy()
        return StageStatus(stage="vocoder", ready=not reason, reason=reason)

    async def counts(self) -> dict[str, RunCounts]:
        """What the generator has run since this replica started."""
        return self._engine.counts

    def check_health(self) -> None:
        """Tells Ray Serve to replace this replica when its batches keep getting stuck."""
        if reason := self._engine.why_unhealthy():
            raise NotReady(f"The vocoder cannot serve: {reason}.")

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.close()
