"""The Vocoder deployment: mel spectrogram in, 16 bit samples out, in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import torch
from ray import serve
from ray.serve.handle import DeploymentHandle

from deployments.deployment import ModelStage, answering, device_of, inline, items_of
from deployments.messages import AcousticRequest, MelSpectrogram, SegmentAudio, VocoderRequest
from deployments.settings import VocoderSettings, VoicesSettings
from deployments.ticket import Ticket
from deployments.vocoder.engine import VocoderEngine
from deployments.vocoder.parts import vocode_chunks
from deployments.voices.store import VoiceStore


class Vocoder(ModelStage[VocoderEngine]):
    """HifiGan: turns the mel spectrogram of a segment into samples.

    Arrivals are collected by @serve.batch and join the batches of windows; each caller waits for its own result alone.
    """

    stage = "vocoder"
    model = "vocoder"

    def __init__(self, settings: VocoderSettings, voices: VoicesSettings, acoustic: DeploymentHandle[Any]) -> None:
        torch.set_num_threads(settings.threads)
        engine = VocoderEngine(VoiceStore.open(voices).folders, settings, device_of(settings.device))
        self._serve(engine, settings.batching)
        self._acoustic_stream = inline(acoustic, stream=True)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.0)
    async def _collect(self, requests: list[tuple[VocoderRequest, MelSpectrogram]]) -> list[Ticket[Any, SegmentAudio]]:
        """Hands what arrived together to the engine, which never blocks; reconfigure() sets both numbers."""
        return self._engine.submit(requests)

    @answering
    async def vocode(self, request: VocoderRequest, mel: MelSpectrogram) -> SegmentAudio:
        """The samples of one segment.

        Args:
            request: Voice, noise key and time left.
            mel: The acoustic stage's answer.

        Raises:
            SpeechError: The request failed or ran out of time.
        """
        ticket = await self._collect((request, mel))
        audio: SegmentAudio = await ticket.result()
        self._observe(ticket.queue_s, audio.vocoder_s - ticket.queue_s)
        return audio

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
        parts = vocode_chunks(self._engine, request, chunks, self._observe)
        async with aclosing(parts):
            async for part in parts:
                yield part
