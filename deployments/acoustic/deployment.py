"""The Acoustic deployment: symbols in, mel spectrogram out, by continuous batching."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import torch
from ray import serve

from deployments.acoustic.engine import AcousticEngine
from deployments.deployment import ModelStage, answering, device_of
from deployments.messages import AcousticRequest, MelChunk, MelSpectrogram
from deployments.settings import AcousticSettings, VoicesSettings
from deployments.ticket import Ticket
from deployments.voices.store import VoiceStore


class Acoustic(ModelStage[AcousticEngine]):
    """Sambert: turns the symbols of a segment into a mel spectrogram.

    Arrivals are collected by @serve.batch and join the step decoder together; each caller then waits for its own result
    alone, so that a short segment never waits for a long one.
    """

    stage = "acoustic"
    model = "acoustic model"

    def __init__(self, settings: AcousticSettings, voices: VoicesSettings) -> None:
        torch.set_num_threads(settings.threads)
        engine = AcousticEngine(VoiceStore.open(voices).folders, settings, device_of(settings.device))
        self._serve(engine, settings.batching)

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
        mel: MelSpectrogram = await ticket.result()
        self._observe(ticket.queue_s, ticket.model_s)
        return mel

    @answering
    async def infer_stream(self, request: AcousticRequest) -> AsyncGenerator[MelChunk, None]:
        """The mel spectrogram of one segment in pieces, each as soon as it is made; leaving early frees its place.

        Raises:
            SpeechError: The request was refused, failed or ran out of time.
        """
        ticket = await self._collect(replace(request, stream=True))
        async with aclosing(ticket.chunks()) as chunks:
            async for chunk in chunks:
                if chunk.is_last:
                    self._observe(chunk.queue_s, chunk.model_s)
                yield chunk
