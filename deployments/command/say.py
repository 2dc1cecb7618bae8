"""`sambert-serve say`: a text to a sound file, with the samples that the service gives for the same request."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deployments.command.config import settings_of
from deployments.command.output import FORMATS, SUFFIXES, check_output, format_of, write_output
from deployments.command.texts import add_text, text_of
from deployments.settings import Settings

if TYPE_CHECKING:
    from deployments.ingress.answer import Whole
    from deployments.messages import SpeechRequest

# Options and the fields of POST /v1/audio/speech they stand for; what is not given keeps the service's default.
FIELDS = {
    "voice": "voice",
    "emotion": "emotion",
    "intensity": "emotion_intensity",
    "speed": "speed",
    "pitch": "pitch",
    "volume": "volume",
    "sample_rate": "sample_rate",
}


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "say", parents=[shared], allow_abbrev=False, help="speak a text into a file, without starting the service"
    )
    add_text(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help=f"{', '.join(SUFFIXES)}; - is stdout (wav)"
    )
    parser.add_argument("--format", choices=FORMATS, help="format, whatever the suffix says")
    parser.add_argument("--voice", help="name of a voice; left out: the default one")
    parser.add_argument("--emotion", help="an emotion of the voice, or a word for it in Chinese or English")
    parser.add_argument("--intensity", type=float, help="of the emotion, 0.01 to 2.0 (1.0)")
    parser.add_argument("--speed", type=float, help="0.25 to 4.0 (1.0)")
    parser.add_argument("--pitch", type=float, help="semitones, -12 to 12 (0)")
    parser.add_argument("--volume", type=float, help="0 to 2 (1.0)")
    parser.add_argument("--sample-rate", type=int, help="8000, 16000, 22050, 24000, 44100 or 48000 Hz (the voice's)")
    parser.add_argument("--ssml", action="store_true", help="the text is SSML, even if it has no <speak> around it")
    parser.add_argument("--no-normalize", action="store_true", help="the text is already words")
    parser.add_argument("--no-cache", action="store_true", help="synthesise anew")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Speaks the text.

    Raises:
        SpeechError: The request is wrong, or synthesis failed.
        OSError: The output cannot be written.
    """
    text = text_of(arguments)
    response_format = format_of(arguments.output, arguments.format)
    check_output(arguments.output)
    settings = settings_of(arguments.config)
    request = _request(arguments, text, settings)
    started = time.monotonic()
    whole = _spoken(request, response_format, _for_one_request(settings))
    write_output(arguments.output, whole.body)
    if arguments.output != "-":
        took_s = time.monotonic() - started
        sys.stdout.write(f"{arguments.output}: {whole.duration_s:.2f} s at {whole.sample_rate_hz} Hz, ")
        sys.stdout.write(f"voice {request.voice}, {request.emotion}; took {took_s:.1f} s\n")
    return 0


def _request(arguments: argparse.Namespace, text: str, settings: Settings) -> SpeechRequest:
    """The checked request. Here it has neither the length nor the time limit of one over HTTP: nobody else waits."""
    from pydantic import ValidationError

    from deployments.ingress.bodies import SpeechBody
    from deployments.ingress.wire import explain, spoken_as
    from deployments.normalization.text.ssml import is_markup
    from deployments.voices.store import VoiceStore

    if arguments.ssml and not is_markup(text):
        text = f"<speak>{text}</speak>"
    given = {field: getattr(arguments, option) for option, field in FIELDS.items()}
    fields = {field: value for field, value in given.items() if value is not None}
    try:
        body = SpeechBody(input=text, normalize=not arguments.no_normalize, **fields)
    except ValidationError as error:
        raise explain(error.errors(include_url=False), SpeechBody) from None
    voices = VoiceStore.open(settings.voices).infos
    request = spoken_as(body, text, voices, settings.ingress, use_cache=not arguments.no_cache)
    return replace(request, timeout_s=None)


def _for_one_request(settings: Settings) -> Settings:
    """The settings without what pays only for a service: phrases spoken and windows run at start-up."""
    return settings.model_copy(
        update={
            "cache": settings.cache.model_copy(update={"warmup_file": None}),
            "vocoder": settings.vocoder.model_copy(update={"warm_up": False}),
        }
    )


def _spoken(request: SpeechRequest, response_format: str, settings: Settings) -> Whole:
    from deployments.command.pipeline import Pipeline  # brings torch and both networks
    from deployments.command.spoken import spoken

    pipeline = Pipeline(settings)  # before the event loop runs, which would put off Ctrl-C until this is done

    async def speak() -> Whole:
        async with pipeline:
            return await spoken(pipeline, request, response_format, settings.ingress)

    return asyncio.run(speak())
