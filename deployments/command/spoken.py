"""One whole answer of the stages in this process, with a progress bar for long texts."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from tqdm import tqdm

from deployments.ingress.answer import Render, Whole
from deployments.ingress.encoders import make_encoder
from deployments.ingress.service import SpeechService
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

MIN_SEGMENTS = 3


async def spoken(
    service: SpeechService, request: SpeechRequest, response_format: str, settings: IngressSettings
) -> Whole:
    """The whole answer as a file with exact sizes, as POST /v1/audio/speech gives it with "stream": false.

    Args:
        service: The stages.
        request: Checked.
        response_format: A key of MEDIA_TYPES.
        settings: Bit rates.

    Raises:
        SpeechError: The text is refused or a stage failed.
    """
    num_segments = 0
    if sys.stderr.isatty():  # else nobody sees the bar, which is all that they are counted for
        num_segments = len((await service.analyse(request.text, request.voice or "", request.normalize)).segments)
    render = Render(request, make_encoder(response_format, settings, streamed=False))
    is_short = num_segments < MIN_SEGMENTS
    parts = []
    with tqdm(total=num_segments, unit="segment", desc="Speaking", leave=False, disable=is_short) as bar:
        async with aclosing(service.speak(request)) as segments:
            async for segment in segments:
                parts.append(await asyncio.to_thread(render.feed, segment))
                bar.update()
    return Whole(b"".join([*parts, await asyncio.to_thread(render.finish)]), render)
