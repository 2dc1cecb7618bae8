"""The text front end: Chinese text in, segments of symbols out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deployments.errors import TextNotSpeakable
from deployments.messages import Segment, TextAnalysis, Word
from deployments.normalization.text import prosody, split, symbols, tables, tone
from deployments.normalization.text.clean import clean
from deployments.normalization.text.endings import Endings
from deployments.normalization.text.english import English
from deployments.normalization.text.normalize import Normalizer
from deployments.normalization.text.pinyin import Reader
from deployments.normalization.text.segment import LATIN, MARK, Segmenter, Token
from deployments.normalization.text.split import Unit
from deployments.normalization.text.symbols import Sound
from deployments.normalization.text.tone import Spoken
from deployments.normalization.text.tracked import Tracked

_NUMERALS = frozenset("零一二三四五六七八九十百千万亿两幺点")
# The model was trained on sentences, each with #4 at its end; a part of a divided sentence ends the same way.
_FINAL_BREAK = "#4"
_BREAKS = {"clause": "#3", "pause": "#3"}


@dataclass(frozen=True, slots=True)
class Pauses:
    """Silence after a segment inside a request, seconds.

    Attributes:
        sentence_s: After the end of a sentence.
        clause_s: Where a sentence is divided.
        paragraph_s: After a paragraph.
    """

    sentence_s: float = 0.25
    clause_s: float = 0.1
    paragraph_s: float = 0.5


class FrontEnd:
    """Reads text. Deterministic, and safe to use from several threads: nothing changes after construction."""

    def __init__(self) -> None:
        self._normalizer = Normalizer()
        self._segmenter = Segmenter()
        self._reader = Reader(self._segmenter)
        self._endings = Endings()
        self._english = English()
        kinds = {row[0]: row[1] for row in tables.rows("punctuation.tsv")}
        self._kinds = {**kinds, "\n": "sentence"}
        ends = "".join(mark for mark, kind in self._kinds.items() if kind == "sentence")
        closing = "".join(mark for mark in self._kinds if mark in "”’》）】")
        self._sentence = re.compile(f"[^{ends}]*(?:[{ends}]+[{ends}{closing} ]*|$)", re.DOTALL)

    def analyse(
        self,
        text: str,
        *,
        normalize: bool,
        emotion: str,
        speaker: str,
        max_segment_chars: int,
        has_english: bool,
        pauses: Pauses,
    ) -> TextAnalysis:
        """What will be spoken.

        Args:
            text: As the caller wrote it; readings may stand beside characters: 行[hang2].
            normalize: False for text that is already words.
            emotion: Without the prefix "emotion_".
            speaker: The voice's name in its speaker list.
            max_segment_chars: Characters of normalised text per segment at most.
            has_english: Whether the voice knows English phones; else Latin words are spelled in Chinese syllables.
            pauses: Silences between segments.

        Returns:
            The normalised text and its segments; their texts, joined, are the caller's text.

        Raises:
            TextNotSpeakable: Nothing in the text can be spoken.
        """
        tracked, pinned = clean(text)
        tracked = self._normalizer.simplify(tracked)
        tracked = self._normalizer.normalize(tracked) if normalize else self._normalizer.spell_rest(tracked)
        parts = [
            part
            for start, end in self._sentences(tracked.text)
            for part in split.pack(self._units(tracked, start, end, pinned), max_segment_chars)
            if any(unit.words for unit in part)
        ]
        if not parts:
            raise TextNotSpeakable("Nothing in the text can be spoken; send words, numbers or letters.", param="input")
        segments = []
        for index, part in enumerate(parts):
            following = parts[index + 1] if index + 1 < len(parts) else None
            words, items = self._symbols(part, emotion, speaker, has_english=has_english)
            segments.append(
                Segment(
                    text=_source(text, tracked, part, following, first=index == 0),
                    normalized=tracked.text[part[0].start : part[-1].end].strip(),
                    words=words,
                    symbols=" ".join(items),
                    pause_s=_pause(tracked.text, part, following, pauses),
                )
            )
        return TextAnalysis(normalized=tracked.text.strip(), segments=tuple(segments))

    def _sentences(self, text: str) -> Iterator[tuple[int, int]]:
        for match in self._sentence.finditer(text):
            if match.end() > match.start():
                yield match.span()

    def _units(self, tracked: Tracked, start: int, end: int, pinned: Mapping[int, str]) -> list[Unit]:
        """Prosodic words of a sentence, with the marks that follow each."""
        sentence = tracked.text[start:end]
        tokens = self._endings.join(self._segmenter.cut(sentence))
        places = {}
        if pinned:
            for place in range(len(sentence) - 1, -1, -1):
                reading = pinned.get(tracked.origins[start + place])
                if reading and "一" <= sentence[place] <= "鿿":
                    places[place] = reading
        readings = self._endings.soften(tokens, self._reader.read(sentence, tokens, places))
        units: list[Unit] = []
        clause: list[Spoken] = []
        for token, syllables in [*zip(tokens, readings, strict=True), (Token("", len(sentence), MARK), ())]:
            kind = self._kinds.get(token.text, "silent")
            if token.tag == LATIN:
                clause.append(Spoken(token.text, start + token.start, token.tag, (token.text,)))
            elif token.tag != MARK:
                parts = self._parts(token.text) if len(token.text) > 2 else ()
                clause.append(Spoken(token.text, start + token.start, token.tag, tuple(filter(None, syllables)), parts))
            elif kind != "silent" or not token.text:
                units += _clause_units(clause, kind)
                clause = []
        return _with_marks(units, start, end)

    def _parts(self, word: str) -> tuple[int, ...]:
        return tuple(map(len, self._segmenter.parts(word)))

    def _symbols(
        self, units: Sequence[Unit], emotion: str, speaker: str, *, has_english: bool
    ) -> tuple[tuple[Word, ...], list[str]]:
        words: list[Word] = []
        items: list[str] = []
        for index, unit in enumerate(units):
            sounds = [self._sounds(word, has_english=has_english) for word in unit.words]
            if not any(sounds):
                continue
            place = len(items)
            for word, word_sounds in zip(unit.words, sounds, strict=True):
                size = sum(len(sound.phones) for sound in word_sounds)
                words.append(Word(text=word.text, pinyin=word.pinyin, start_symbol=place, num_symbols=size))
                place += size
            last = index == len(units) - 1
            items += symbols.items(sounds, _FINAL_BREAK if last else _BREAKS.get(unit.boundary, "#1"), emotion, speaker)
        return tuple(words), items

    def _sounds(self, word: Spoken, *, has_english: bool) -> tuple[Sound, ...]:
        if word.tag == LATIN:
            return self._english.sounds(word.text, has_english=has_english)
        return tuple(sound for pinyin in word.pinyin for sound in symbols.syllable(pinyin))


def _clause_units(clause: list[Spoken], kind: str) -> list[Unit]:
    """Prosodic words of one clause; the last one ends as the clause does."""
    units = []
    for words in tone.change(prosody.group([word for word in clause if word.pinyin])):
        end = words[-1].start + len(words[-1].text)
        units.append(Unit(words, words[0].start, end, "word"))
    for unit, following in itertools.pairwise(units):
        if unit.words[-1].text[-1] in _NUMERALS and following.words[0].text[0] in _NUMERALS:
            unit.boundary = "never"
    if units:
        units[-1].boundary = kind
    return units


def _with_marks(units: list[Unit], start: int, end: int) -> list[Unit]:
    """Lets every unit reach to the next one, so that marks belong to the unit before them."""
    if not units:
        return [Unit([], start, end, "sentence")]
    for unit, following in itertools.pairwise(units):
        unit.end = following.start
    units[0].start, units[-1].end = start, end
    return units


def _source(text: str, tracked: Tracked, part: Sequence[Unit], following: Sequence[Unit] | None, *, first: bool) -> str:
    """The caller's own words of a segment: from its first character to that of the next."""
    begin = 0 if first else tracked.origins[part[0].start]
    return text[begin : tracked.origins[following[0].start] if following else len(text)]


def _pause(text: str, part: Sequence[Unit], following: Sequence[Unit] | None, pauses: Pauses) -> float:
    if following is None:
        return 0.0
    if part[-1].boundary != "sentence":
        return pauses.clause_s
    marks = text[part[-1].words[-1].start + len(part[-1].words[-1].text) : following[0].words[0].start]
    lines = marks.count("\n")
    return pauses.paragraph_s if lines > 1 or (lines and len(marks.strip()) > 0) else pauses.sentence_s
