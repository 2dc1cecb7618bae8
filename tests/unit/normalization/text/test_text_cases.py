"""The readings in tests/cases, row by row: by rule and through the whole front end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from as_served import analyse

from deployments.normalization.text.clean import clean
from deployments.normalization.text.frontend import FrontEnd
from deployments.normalization.text.normalize import Normalizer

CASES = Path(__file__).parents[3] / "cases"
_IGNORED = re.compile(r"[^\w]|_")
_CHARACTERS = re.compile(r"(\S+?)=((?:[a-z]+[1-5] ?)+)")


def rows(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    written_and_wanted = [line.split("\t")[:2] for line in lines if line.strip() and not line.startswith("# written")]
    return [(written, wanted) for written, wanted in written_and_wanted]


def plain(text: str) -> str:
    return _IGNORED.sub("", text)


@pytest.fixture(scope="module")
def normalizer() -> Normalizer:
    return Normalizer()


FILES = sorted(CASES.glob("*.tsv"))
NORMALIZATION = [path for path in FILES if "pinyin" not in path.stem]
PRONUNCIATION = [path for path in FILES if "pinyin" in path.stem]


@pytest.mark.parametrize("path", NORMALIZATION, ids=lambda path: path.stem)
def test_normalization(frontend: FrontEnd, normalizer: Normalizer, path: Path) -> None:
    wrong = []
    for written, spoken in rows(path):
        accepted = [plain(one) for one in spoken.split("|")]
        tracked, _ = clean(written)
        by_rule = plain(normalizer.normalize(normalizer.simplify(tracked)).text)
        whole = plain("".join(segment.normalized for segment in analyse(frontend, written).segments))
        if by_rule not in accepted or whole not in accepted:
            wrong.append((written, by_rule, whole))
    assert not wrong


@pytest.mark.parametrize("path", PRONUNCIATION, ids=lambda path: path.stem)
def test_pronunciation(frontend: FrontEnd, path: Path) -> None:
    wrong = []
    for written, wanted in rows(path):
        words = [word for segment in analyse(frontend, written).segments for word in segment.words]
        chars = ""
        syllables: list[str] = []
        for word in words:
            whole = len(word.text) == len(word.pinyin)
            chars += word.text if whole else "\0" * len(word.pinyin)
            syllables += word.pinyin
        wrong += [
            (written, item, syllables)
            for item in wanted.split(";")
            if not any(occurs(one.strip(), chars, syllables) for one in item.split("|"))
        ]
    assert not wrong


def occurs(wanted: str, chars: str, syllables: list[str]) -> bool:
    """Whether a sequence of syllables, or the readings of some characters, occurs."""
    if "=" not in wanted:
        return f" {wanted} " in f" {' '.join(syllables)} "
    return all(has_reading(text, pinyin.strip(), chars, syllables) for text, pinyin in _CHARACTERS.findall(wanted))


def has_reading(text: str, pinyin: str, chars: str, syllables: list[str]) -> bool:
    places = [match.start() for match in re.finditer(re.escape(text), chars)]
    return any(f" {pinyin} " in f" {' '.join(syllables[place : place + len(text)])} " for place in places)
