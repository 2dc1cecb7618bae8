"""Warm-up: phrases of a file are spoken once at start-up, so that their first caller finds them in the cache."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deployments.errors import ConfigurationInvalid, SpeechError
from deployments.messages import SpeechRequest

log = logging.getLogger(__name__)
_LOG_PARTS: Final = 10  # progress is logged this often


class _Phrase(BaseModel):
    """The fields of messages.SpeechRequest that a phrase may set; their defaults are those of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, Field(pattern=r"\S")]
    voice: str | None = None
    emotion: str = ""
    emotion_intensity: float = 0
    speed: float = 0
    pitch: float = 0
    normalize: bool = True


def read_phrases(path: Path) -> tuple[SpeechRequest, ...]:
    """The phrases of a file.

    One per line: the text itself, or a JSON object with text and any of voice, emotion, emotion_intensity, speed,
    pitch, normalize. Blank lines and lines that begin with # are skipped.

    Args:
        path: UTF-8, with or without a byte order mark.

    Returns:
        One request per phrase, in order, each phrase once.

    Raises:
        ConfigurationInvalid: The file cannot be read or a line is not a phrase; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid(
            f"cache.warmup_file: {path} cannot be read as UTF-8 text ({error}); mend the path or the file.",
            "cache.warmup_file",
        ) from error
    requests = (_request(path, number, line.strip()) for number, line in enumerate(lines, 1))
    return tuple(dict.fromkeys(request for request in requests if request is not None))


def _request(path: Path, number: int, line: str) -> SpeechRequest | None:
    if not line or line.startswith("#"):
        return None
    if not line.startswith("{"):
        return SpeechRequest(text=line)
    try:
        phrase = _Phrase.model_validate_json(line)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "line"
        raise ConfigurationInvalid(
            f"{path}:{number}: {where}: {fault['msg']}. Write a phrase as plain text, or as a JSON object with text, "
            "voice, emotion, emotion_intensity, speed, pitch, normalize.",
            "cache.warmup_file",
        ) from error
    return SpeechRequest(**phrase.model_dump(exclude_unset=True))


async def warm_up(
    requests: Sequence[SpeechRequest], speak: Callable[[SpeechRequest], Awaitable[object]], concurrency: int
) -> int:
    """Speaks phrases and logs the progress; a phrase that fails is logged and skipped.

    Args:
        requests: From read_phrases().
        speak: Speaks one; what it returns is not used.
        concurrency: Phrases in progress at once.

    Returns:
        How many were spoken.
    """
    spoken = 0
    done = 0

    async def work(waiting: Iterator[tuple[int, SpeechRequest]]) -> None:
        nonlocal spoken, done
        for number, request in waiting:
            try:
                await speak(request)
                spoken += 1
            except SpeechError as error:
                log.warning("warm-up: phrase %d is skipped: %s", number, error.message)
            except Exception:
                log.exception("warm-up: phrase %d is skipped", number)
            done += 1
            if done == len(requests) or done % max(1, len(requests) // _LOG_PARTS) == 0:
                log.info("warm-up: %d of %d phrases", done, len(requests))

    waiting = iter(enumerate(requests, start=1))
    await asyncio.gather(*(work(waiting) for _ in range(max(1, min(concurrency, len(requests))))))
    return spoken
