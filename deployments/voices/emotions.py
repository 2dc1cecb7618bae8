"""Names of emotions as people say them, in Chinese and English, mapped to what a voice can do.

The words are data: emotions.tsv, columns emotion, language, word. A word may stand in several rows; the first emotion
that the voice has is meant.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Mapping, Sequence
from importlib import resources

from deployments.errors import EmotionNotFound

NEUTRAL = "neutral"
PREFIX = "emotion_"
# Words right before an emotion that turn it into its absence: "not sad", "without anger", 不要生气, 别难过.
NEGATED = re.compile(
    r"(?:\b(?:not|no|never|without|less|non)\s+(?:\w+\s+)?|n't\s+(?:\w+\s+)?|[不别莫勿没未]要?太?|没有|不能|避免)$"
)


@functools.cache
def aliases() -> Mapping[str, tuple[str, ...]]:
    """Every known word, in lower case, with the emotions it may mean, the closest first."""
    found: dict[str, tuple[str, ...]] = {}
    table = resources.files(__package__).joinpath("emotions.tsv").read_text(encoding="utf-8")
    for row in csv.DictReader(table.splitlines(), delimiter="\t"):
        word = row["word"].casefold()
        found[word] = (*found.get(word, ()), row["emotion"])
    return found


def resolve(word: str, emotions: Sequence[str], voice: str) -> str:
    """The voice's emotion that a caller names.

    Args:
        word: An emotion's name, the same with the prefix "emotion_", or a word of the table; case does not matter.
        emotions: What the voice has.
        voice: Its name, for the message.

    Returns:
        One of `emotions`.

    Raises:
        EmotionNotFound: The voice has no such emotion; lists those it has.
    """
    name = word.strip().casefold().removeprefix(PREFIX)
    for candidate in (name, *aliases().get(name, ())):
        if candidate in emotions:
            return candidate
    raise EmotionNotFound(
        f"Voice {voice!r} has no emotion {word!r}. Its emotions: {', '.join(emotions) or 'none'}.", param="emotion"
    )


def in_instructions(instructions: str, emotions: Sequence[str]) -> str | None:
    """The first emotion of the voice that free text asks for, or None.

    Args:
        instructions: For example "Speak in a cheerful tone" or 用开心的语气.
        emotions: What the voice has.
    """
    text = instructions.casefold()
    for match in _words(tuple(emotions)).finditer(text):
        if NEGATED.search(text[: match.start()]):
            continue
        word = match.group()
        for candidate in (word, *aliases().get(word, ())):
            if candidate in emotions:
                return candidate
    return None


@functools.lru_cache(maxsize=64)
def _words(emotions: tuple[str, ...]) -> re.Pattern[str]:
    """Any word of the table or name of an emotion, the longest first; words in Latin letters must stand alone."""
    words = sorted({*aliases(), *emotions}, key=len, reverse=True)
    return re.compile("|".join(rf"\b{re.escape(w)}\b" if w.isascii() else re.escape(w) for w in words))
