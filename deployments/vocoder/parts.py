"""The samples of one utterance in parts, while its mel spectrogram is still arriving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

import numpy as np

from deployments.messages import MelChunk, SegmentAudio, VocoderRequest
from deployments.vocoder.engine import VocoderEngine
from deployments.vocoder.stepper import VocoderTicket


async def vocode_chunks(
    engine: VocoderEngine,
    request: VocoderRequest,
    chunks: AsyncGenerator[MelChunk, None],
    observe: Callable[[float, float], None] | None = None,
) -> AsyncGenerator[SegmentAudio, None]:
    """Submits windows as frames arrive and yields their samples in order.

    Args:
        engine: Runs the windows, together with those of others.
        request: Of the utterance.
        chunks: Its mel spectrogram; closed in every case.
        observe: Gets the seconds that each part waited and that it then took, or None.

    Yields:
        Samples that follow each other without a gap. The first part carries frames_T and the seconds until it was
        begun, later ones an empty frames_T.

    Raises:
        SpeechError: A stage refused, failed or ran out of time.
    """
    tickets: asyncio.Queue[VocoderTicket | None] = asyncio.Queue()
    stream = engine.open_stream(request)
    first: asyncio.Future[MelChunk] = asyncio.get_running_loop().create_future()

    async def submit() -> None:
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    if not first.done():
                        first.set_result(chunk)
                    pieces = stream.push(chunk.mel_FM) + (stream.finish() if chunk.is_last else [])
                    for ticket in engine.submit([(request, piece) for piece in pieces]):
                        tickets.put_nowait(ticket)
        finally:
            tickets.put_nowait(None)

    submitting = asyncio.ensure_future(submit())
    ticket: VocoderTicket | None = None
    is_first = True
    try:
        while (ticket := await tickets.get()) is not None:
            part = await ticket.result()
            if observe is not None:
                observe(ticket.queue_s, part.vocoder_s - ticket.queue_s)
            if is_first:
                chunk, is_first = first.result(), False
                frames_T = np.zeros(0, np.int32) if chunk.frames_T is None else chunk.frames_T
                part = replace(part, frames_T=frames_T, acoustic_s=chunk.queue_s + chunk.model_s)
            yield part
        await submitting
    finally:
        submitting.cancel()
        await asyncio.gather(submitting, return_exceptions=True)
        while not tickets.empty():
            if (left := tickets.get_nowait()) is not None:
                left.future.cancel()
