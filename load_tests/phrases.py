"""Chinese phrases of four personas, made from templates and words (data/*.tsv): as many as asked for, seeded."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

DATA: Final = Path(__file__).parent / "data"
NUM_CANDIDATES: Final = 12
"""Sentences that are tried for the next place of a phrase; the one nearest to the wanted length is taken."""
MAX_TRIES: Final = 1000
GROWTH: Final = 0.2
"""Chance that the wanted length grows by one after a text that is known already."""
_SLOT: Final = re.compile(r"\{(\w+)\}")
_SILENT: Final = re.compile(r"\W")
_NUMBERS: Final[Mapping[str, Callable[[Random], str]]] = {
    "digit": lambda random: str(random.randint(1, 9)),
    "hour": lambda random: str(random.randint(1, 12)),
    "minutes": lambda random: str(5 * random.randint(1, 12)),
    "degrees": lambda random: str(random.randint(2, 38)),
    "tail": lambda random: f"{random.randint(0, 9999):04}",
    "code": lambda random: f"{random.randint(0, 999999):06}",
    "money": lambda random: f"{random.randint(1, 999)}.{random.randint(0, 99):02}",
    "date": lambda random: f"{random.randint(1, 12)}月{random.randint(1, 28)}日",
    "year": lambda random: str(random.randint(1980, 2025)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """One kind of caller.

    Attributes:
        name: As in the tables.
        share: Of all callers; shares are weights, not parts of 1.
        median: Median length of a phrase, characters that are spoken.
        spread: Standard deviation of the length's logarithm.
        shortest: No phrase is asked to be shorter.
        longest: No phrase is asked to be longer.
        think_s: Mean time between an answer and the same caller's next request.
        emotions: Weights by emotion.
    """

    name: str
    share: float
    median: float
    spread: float
    shortest: int
    longest: int
    think_s: float
    emotions: Mapping[str, float]

    def length(self, random: Random) -> int:
        """A length: log-normal, cut at both ends."""
        length = random.lognormvariate(math.log(self.median), self.spread)
        return round(min(max(length, self.shortest), self.longest))


@dataclass(frozen=True, slots=True)
class Phrase:
    """What a caller asks for, always in the same way.

    Attributes:
        text: Chinese, with punctuation and digits.
        persona: Whose phrase it is.
        emotion: How it is said.
    """

    text: str
    persona: str
    emotion: str

    @property
    def num_spoken(self) -> int:
        """Characters without punctuation."""
        return spoken_length(self.text)


def spoken_length(text: str) -> int:
    """Characters without punctuation and blanks."""
    return len(_SILENT.sub("", text))


@cache
def personas() -> Mapping[str, Persona]:
    """The personas by name, in the order of data/personas.tsv."""
    return {
        row["persona"]: Persona(
            name=row["persona"],
            share=float(row["share"]),
            median=float(row["median"]),
            spread=float(row["spread"]),
            shortest=int(row["shortest"]),
            longest=int(row["longest"]),
            think_s=float(row["think_s"]),
            emotions={name: float(weight) for name, _, weight in (e.partition(":") for e in row["emotions"].split())},
        )
        for row in _rows("personas.tsv")
    }


def phrase_book(number: int, seed: int, shares: Mapping[str, float], emotions: Sequence[str]) -> tuple[Phrase, ...]:
    """Distinct phrases.

    Args:
        number: How many.
        seed: The same seed gives the same phrases; a longer book begins with the shorter one.
        shares: Weights by persona.
        emotions: Of the voice; a phrase's emotion that the voice has not becomes the first of these.

    Returns:
        The phrases in random order.

    Raises:
        ValueError: There are not so many phrases, or a persona is unknown.
    """
    if unknown := set(shares) - set(personas()):
        raise ValueError(f"unknown persona {min(unknown)!r}; there are {', '.join(personas())}")
    random = Random(f"phrases {seed}")
    names, weights = list(shares), list(shares.values())
    texts: dict[str, Phrase] = {}
    while len(texts) < number:
        persona = personas()[random.choices(names, weights)[0]]
        emotion = random.choices(list(persona.emotions), list(persona.emotions.values()))[0]
        text = _new_text(persona, random, texts)
        texts[text] = Phrase(text, persona.name, emotion if emotion in emotions else emotions[0])
    return tuple(texts.values())


def _new_text(persona: Persona, random: Random, known: Container[str]) -> str:
    """A text that is not known yet, of the first length drawn if there still is one: short ones run out early."""
    wanted = persona.length(random)
    for _ in range(MAX_TRIES):
        text = _text(persona.name, wanted, random)
        if text not in known:
            return text
        wanted += random.random() < GROWTH
    raise ValueError(f"the tables give no more different phrases of {persona.name}")


def _text(persona: str, wanted: int, random: Random) -> str:
    """Sentences until the wanted length is reached as nearly as the templates allow."""
    text, length = "", 0
    unused = list(_templates()[persona])
    while True:
        candidates = [(template, _filled(template, random)) for template in random.choices(unused, k=NUM_CANDIDATES)]
        template, best = min(candidates, key=lambda candidate: abs(wanted - length - spoken_length(candidate[1])))
        grown = length + spoken_length(best)
        if text and abs(wanted - grown) >= abs(wanted - length):
            return text
        text, length = text + best, grown
        unused.remove(template)
        unused = unused or list(_templates()[persona])


def _filled(template: str, random: Random) -> str:
    used: set[str] = set()

    def word(match: re.Match[str]) -> str:
        slot = match[1]
        if slot in _NUMBERS:
            return _NUMBERS[slot](random)
        # The same word twice in a sentence would sound odd.
        fresh = [choice for choice in _words()[slot] if choice not in used] or _words()[slot]
        used.add(chosen := random.choice(fresh))
        return chosen

    return _SLOT.sub(word, template)


@cache
def _templates() -> dict[str, list[str]]:
    return _grouped("templates.tsv", "persona", "template")


@cache
def _words() -> dict[str, list[str]]:
    return _grouped("words.tsv", "slot", "word")


def _grouped(name: str, key: str, value: str) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for row in _rows(name):
        groups.setdefault(row[key], []).append(row[value])
    return groups


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
