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
from deployments.normalization.text.lexicon import Entry, Lexicon
from deployments.normalization.text.marked import MarkedText
from deployments.normalization.text.names import Names
from deployments.normalization.text.normalize import Normalizer
from deployments.normalization.text.pinyin import Reader
from deployments.normalization.text.segment import FIXED, LATIN, MARK, Segmenter, Token
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


_NO_LEXICON = Lexicon({})
_UNUSED = Entry("", ())
_TRAILING = re.compile(r"\W*$")
_WORD = re.compile("[\u3400-\u9fff]+")


class FrontEnd:
    """Reads text. Deterministic, and safe to use from several threads: nothing changes after construction."""

    def __init__(self) -> None:
        with tables.loading():
            self._normalizer = Normalizer()
            self._segmenter = Segmenter()
            self._reader = Reader(self._segmenter)
            self._endings = Endings(self._segmenter)
            self._english = English()
            self._names = Names()
        kinds = {row[0]: row[1] for row in tables.rows("punctuation.tsv")}
        self._kinds = {**kinds, "\n": "sentence"}
        ends = "".join(mark for mark, kind in self._kinds.items() if kind == "sentence")
        closing = "".join(mark for mark in self._kinds if mark in "”’》）】")
        self._sentence = re.compile(f"[^{ends}]*(?:[{ends}]+[{ends}{closing} ]*|$)", re.DOTALL)

    def analyse(
        self,
        text: str | MarkedText,
        *,
        normalize: bool,
        emotion: str,
        speaker: str,
        max_segment_chars: int,
        has_english: bool,
        pauses: Pauses,
        lexicon: Lexicon = _NO_LEXICON,
        phrase_break: str = "#3",
    ) -> TextAnalysis:
        """What will be spoken.

        Args:
            text: As the caller wrote it; readings may stand beside characters: 行[hang2]. Or with fixed places.
            normalize: False for text that is already words.
            emotion: Without the prefix "emotion_".
            speaker: The voice's name in its speaker list.
            max_segment_chars: Characters of normalised text per segment at most.
            has_english: Whether the voice knows English phones; else Latin words are spelled in Chinese syllables.
            pauses: Silences between segments.
            lexicon: Texts with fixed readings, before any rule.
            phrase_break: The break where a long clause breathes: "#2" for voices that were trained on it, else "#3".

        Returns:
            The normalised text and its segments; their texts, joined, are the caller's text.

        Raises:
            TextNotSpeakable: Nothing in the text can be spoken.
        """
        marked = MarkedText.plain(text) if isinstance(text, str) else text
        tracked, pinned = clean(marked.tracked, keep=frozenset(marked.fixed))
        pinned |= marked.pinned
        tracked, entries = lexicon.stand_in(self._normalizer.simplify(tracked), len(marked.fixed), pinned)
        if normalize:
            tracked = self._normalizer.normalize(tracked, english=has_english)
        else:
            tracked = self._normalizer.spell_rest(tracked)
        prepared = _Prepared(marked.source, tracked, pinned, {**marked.fixed, **entries})
        parts = [
            part
            for start, end in self._sentences(tracked.text)
            for part in split.pack(self._units(prepared, start, end), max_segment_chars)
            if any(unit.words for unit in part)
        ]
        if not parts:
            raise TextNotSpeakable("Nothing in the text can be spoken; send words, numbers or letters.", param="input")
        segments = []
        for index, part in enumerate(parts):
            following = parts[index + 1] if index + 1 < len(parts) else None
            words, items = self._symbols(part, emotion, speaker, phrase_break, has_english=has_english)
            segments.append(
                Segment(
                    text=prepared.source(part, following, first=index == 0),
                    normalized=prepared.written(part[0].start, part[-1].end),
                    words=words,
                    symbols=" ".join(items),
                    pause_s=prepared.pause_s(part, following, pauses),
                )
            )
        return TextAnalysis(normalized=prepared.written(0, len(tracked.text)), segments=tuple(segments))

    def word(self, text: str, *, is_name: bool = False) -> Entry | None:
        """Reads a text as one word that is not divided.

        Args:
            text: As the caller wrote it; readings may stand beside characters.
            is_name: Whether it is a person's name.

        Returns:
            The word with its syllables, None where it is not written in Chinese characters alone.
        """
        tracked, pinned = clean(Tracked.of(text))
        tracked = self._normalizer.simplify(tracked)
        written = tracked.text.strip()
        if not _WORD.fullmatch(written):
            return None
        token = Token(written, 0, "nr" if is_name else self._segmenter.tag(written) or "n")
        readings = self._names.begins(written) if is_name else {}
        readings |= {place: pinned[origin] for place, origin in enumerate(tracked.origins) if origin in pinned}
        (syllables,) = self._endings.soften([token], self._reader.read(written, [token], readings))
        return Entry(written, tuple(syllables)) if all(syllables) else None

    def in_words(self, text: str, *, english: bool) -> str:
        """A text in words by the ordinary reading rules.

        Args:
            text: As the caller wrote it.
            english: Whether numbers between English words are read in English.
        """
        tracked, _ = clean(Tracked.of(text))
        return self._normalizer.normalize(self._normalizer.simplify(tracked), english=english).text

    def _sentences(self, text: str) -> Iterator[tuple[int, int]]:
        for match in self._sentence.finditer(text):
            if match.end() > match.start():
                yield match.span()

    def _units(self, prepared: _Prepared, start: int, end: int) -> list[Unit]:
        """Prosodic words of a sentence, with the marks that follow each."""
        sentence = prepared.tracked.text[start:end]
        tokens = self._endings.join(self._segmenter.cut(sentence))
        pinned = prepared.readings(start, end)
        readings = self._endings.soften(tokens, self._reader.read(sentence, tokens, pinned))
        if pinned:  # a reading that the caller wrote keeps its tone in an ending too
            readings = [
                tuple(pinned.get(place, syllable) for place, syllable in enumerate(syllables, token.start))
                for token, syllables in zip(tokens, readings, strict=True)
            ]
        units: list[Unit] = []
        clause: list[Spoken] = []
        for token, syllables in [*zip(tokens, readings, strict=True), (Token("", len(sentence), MARK), ())]:
            kind = self._kinds.get(token.text, "silent")
            if token.tag != MARK:
                clause.append(self._spoken(token, syllables, start, prepared.fixed))
            elif kind != "silent" or not token.text:
                units += _clause_units(clause, kind)
                clause = []
        return _with_marks(units, start, end)

    def _spoken(self, token: Token, syllables: tuple[str, ...], start: int, fixed: Mapping[str, Entry]) -> Spoken:
        place = start + token.start
        if token.tag == FIXED:
            entry = fixed.get(token.text, _UNUSED)
            return Spoken(entry.text, place, token.tag, entry.pinyin)
        if token.tag == LATIN:
            return Spoken(token.text, place, token.tag, (token.text,))
        parts = tuple(map(len, self._segmenter.parts(token.text))) if len(token.text) > 2 else ()
        return Spoken(token.text, place, token.tag, tuple(filter(None, syllables)), parts)

    def _symbols(
        self, units: Sequence[Unit], emotion: str, speaker: str, phrase_break: str, *, has_english: bool
    ) -> tuple[tuple[Word, ...], list[str]]:
        words: list[Word] = []
        items: list[str] = []
        for unit in units:
            sounds = [self._sounds(word, has_english=has_english) for word in unit.words]
            place = len(items)
            for word, word_sounds in zip(unit.words, sounds, strict=True):
                size = sum(len(sound.phones) for sound in word_sounds)
                words.append(Word(text=word.text, pinyin=word.pinyin, start_symbol=place, num_symbols=size))
                place += size
            mark = phrase_break if unit.boundary == "phrase" else _BREAKS.get(unit.boundary, "#1")
            mark = _FINAL_BREAK if unit is units[-1] else mark
            items += symbols.items(tuple(itertools.chain.from_iterable(sounds)), mark, emotion, speaker)
        return tuple(words), items

    def _sounds(self, word: Spoken, *, has_english: bool) -> tuple[Sound, ...]:
        if word.tag == LATIN:
            return self._english.sounds(word.text, has_english=has_english)
        return tuple(sound for pinyin in word.pinyin for sound in symbols.syllable(pinyin))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A text on its way: as it came, in words, and what the caller has fixed in it."""

    text: str
    tracked: Tracked
    pinned: Mapping[int, str]
    fixed: Mapping[str, Entry]

    def readings(self, start: int, end: int) -> dict[int, str]:
        """The caller's readings in a stretch of the normalised text, by place in it."""
        found: dict[int, str] = {}
        if self.pinned:
            for place in range(end - 1, start - 1, -1):
                reading = self.pinned.get(self.tracked.origins[place])
                if reading and "一" <= self.tracked.text[place] <= "鿿":
                    found[place - start] = reading
        return found

    def written(self, start: int, end: int) -> str:
        """A stretch of the normalised text, with the texts of fixed entries."""
        stretch = self.tracked.text[start:end].strip()
        for stand_in, entry in self.fixed.items():
            stretch = stretch.replace(stand_in, entry.text)
        return stretch

    def source(self, part: Sequence[Unit], following: Sequence[Unit] | None, *, first: bool) -> str:
        """The caller's own words of a segment: from its first character to that of the next."""
        begin = 0 if first else self.tracked.origins[part[0].start]
        return self.text[begin : self.tracked.origins[following[0].start] if following else len(self.text)]

    def pause_s(self, part: Sequence[Unit], following: Sequence[Unit] | None, pauses: Pauses) -> float:
        """Silence after a segment; none after the last."""
        if following is None:
            return 0.0
        if part[-1].boundary != "sentence":
            return pauses.clause_s
        marks = _TRAILING.search(self.tracked.text[part[-1].start : following[0].start])
        found = marks[0] if marks else ""
        is_paragraph = found.count("\n") > 1 or ("\n" in found and found.strip())
        return pauses.paragraph_s if is_paragraph else pauses.sentence_s


def _clause_units(clause: list[Spoken], kind: str) -> list[Unit]:
    """Prosodic words of one clause; the last one ends as the clause does."""
    groups = tone.change(prosody.group([word for word in clause if word.pinyin]))
    ends = prosody.phrases(groups)
    units = []
    for index, words in enumerate(groups):
        last, following = words[-1], groups[index + 1][0] if index + 1 < len(groups) else None
        boundary = kind if following is None else "phrase" if index in ends else "word"
        if following and last.text[-1] in _NUMERALS and following.text[0] in _NUMERALS:
            boundary = "never"
        units.append(Unit(words, words[0].start, last.start + 1, boundary))
    return units


def _with_marks(units: list[Unit], start: int, end: int) -> list[Unit]:
    """Lets every unit reach to the next one, so that marks belong to the unit before them."""
    if not units:
        return [Unit([], start, end, "sentence")]
    for unit, following in itertools.pairwise(units):
        unit.end = following.start
    units[0].start, units[-1].end = start, end
    return units
