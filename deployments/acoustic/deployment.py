"""The Acoustic deployment: symbols in, mel spectrogram out, by continuous batching."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import torch
from ray import serve

from deployments.acoustic.engine import AcousticEngine
from deployments.counts import RunCounts
from deployments.deployment import answering, device_of
from deployments.errors import NotReady
from deployments.messages import AcousticRequest, MelChunk, MelSpectrogram, StageStatus
from deployments.settings import AcousticSettings, VoicesSettings
from deployments.ticket import Ticket
from deployments.voices.store import VoiceStore


class Acoustic:
    """Sambert: turns the symbols of a segment into a mel spectrogram.

    Arrivals are collected by @serve.batch and join the step decoder together; each caller then waits for its own result
    alone, so that a short segment never waits for a long one.
    """

    def __init__(self, settings: AcousticSettings, voices: VoicesSettings) -> None:
        torch.set_num_threads(settings.threads)
        store = VoiceStore.open(voices)
        folders = [store.folder(name) for name in store.names]
        self._engine = AcousticEngine(folders, settings, device_of(settings.device))
        self._batching = settings.batching

    def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Takes new batch settings on the live service."""
        batching = self._batching.changed(user_config)
        collector: Any = self._collect  # @serve.batch adds the two setters
        collector.set_max_batch_size(batching.max_batch_size)
        collector.set_batch_wait_timeout_s(batching.batch_wait_s)
        self._engine.reconfigure(batching)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.0)
    async def _collect(self, requests: list[AcousticRequest]) -> list[Ticket[Any, MelSpectrogram]]:
        """Hands what arrived together to the engine, which never blocks; reconfigure() sets both numbers."""
        return self._engine.submit(requests)

    @answering
    async def infer(self, request: AcousticRequest) -> MelSpectrogram:
        """The mel spectrogram of one segment.

        Raises:
            SpeechError: The request was refused, failed or ran out of time.
        """
        ticket = await self._collect(request)
        return await ticket.result()

    @answering
    async def infer_stream(self, request: AcousticRequest) -> AsyncGenerator[MelChunk, None]:
        """The mel spectrogram of one segment in pieces, each as soon as it is made; leaving early frees its place.

        Raises:
            SpeechError: The request was refused, failed or ran out of time.
        """
        ticket = await self._collect(replace(request, stream=True))
        async with aclosing(ticket.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def status(self) -> StageStatus:
        """Whether this replica can serve."""
        reason = self._engine.why_unhealthy()
        return StageStatus(stage="acoustic", ready=not reason, reason=reason)

    async def counts(self) -> dict[str, RunCounts]:
        """What each part of the model has run since this replica started."""
        return self._engine.counts

    def check_health(self) -> None:
        """Tells Ray Serve to replace this replica when its batches keep getting stuck."""
        if reason := self._engine.why_unhealthy():
            raise NotReady(f"The acoustic model cannot serve: {reason}.")

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.close()
