"""`sambert-serve analyse`: what would be spoken, without speaking."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from typing import Any

from deployments.command.config import settings_of
from deployments.command.tables import interlinear
from deployments.command.texts import add_text, text_of
from deployments.messages import Controls, Segment, SpeechRequest, TextAnalysis
from deployments.settings import Settings

INDENT = "   "
PLAIN = Controls(voice="")


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "analyse", parents=[shared], allow_abbrev=False, help="show how a text will be read: words, pinyin, pauses"
    )
    add_text(parser)
    parser.add_argument("--voice", help="name of a voice; left out: the default one")
    parser.add_argument("--no-normalize", action="store_true", help="the text is already words")
    parser.add_argument("--json", action="store_true", help="the answer of POST /v1/text/analysis")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the analysis.

    Raises:
        SpeechError: The text or the voice is refused.
    """
    text, settings = text_of(arguments), settings_of(arguments.config)
    analysis = asyncio.run(_analysed(text, arguments.voice, not arguments.no_normalize, settings))
    if arguments.json:
        from deployments.ingress.replies import analysis_reply

        sys.stdout.write(analysis_reply(analysis).model_dump_json(indent=2) + "\n")
        return 0
    columns = shutil.get_terminal_size().columns
    for number, segment in enumerate(analysis.segments, 1):
        sys.stdout.write("\n".join(_lines(number, segment, columns)) + "\n")
    return 0


async def _analysed(text: str, voice: str | None, normalize: bool, settings: Settings) -> TextAnalysis:
    from deployments.normalization.analyser import Analyser
    from deployments.normalization.cache.memo import TextMemo
    from deployments.normalization.lexicons import Lexicons
    from deployments.normalization.text.frontend import FrontEnd
    from deployments.normalization.voices import Voices
    from deployments.voices.served import calm
    from deployments.voices.store import VoiceStore

    store = VoiceStore.open(settings.voices)
    voices = Voices(store.infos)
    lexicons = Lexicons(settings.normalizer, voices.names, store.lexicon_files)
    emotion = calm(voices.find(voice))
    analyser = Analyser(settings.normalizer, voices, lexicons, TextMemo(0), FrontEnd())
    try:
        return await analyser.analyse(SpeechRequest(text=text, voice=voice, emotion=emotion, normalize=normalize))
    finally:
        analyser.close()


def _lines(number: int, segment: Segment, columns: int) -> list[str]:
    """A segment: its text, the same in words where that differs, each word above its pinyin, what else holds."""
    head = f"{number:<{len(INDENT) - 1}} {' '.join(segment.text.split())}"
    normalized = [INDENT + segment.normalized] if segment.normalized != segment.text.strip() else []
    pairs = [(word.text, " ".join(word.pinyin)) for word in segment.words]
    words = [INDENT + line for line in interlinear(pairs, columns - len(INDENT))]
    notes = [*_controls(segment.controls), *_pauses(segment)]
    return [head, *normalized, *words, *([f"{INDENT}({', '.join(notes)})"] if notes else [])]


def _controls(controls: Controls | None) -> list[str]:
    """What markup says of a segment."""
    if controls is None:
        return []
    named = {
        "intensity": (controls.emotion_intensity, PLAIN.emotion_intensity),
        "speed": (controls.speed, PLAIN.speed),
        "pitch": (controls.pitch, PLAIN.pitch),
        "volume": (controls.volume, PLAIN.volume),
    }
    changed = [f"{name} {value:g}" for name, (value, plain) in named.items() if value != plain]
    return [f"voice {controls.voice}", controls.emotion, *changed]


def _pauses(segment: Segment) -> list[str]:
    before, after = segment.lead_s, segment.pause_s + segment.tail_s
    return [f"pause {length_s:g} s {place}" for length_s, place in ((before, "before"), (after, "after")) if length_s]
