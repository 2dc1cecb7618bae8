"""Endings of words as spoken: neutral tones and r-colouring, by word lists."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.normalization.text import tables
from deployments.normalization.text.segment import Segmenter, Token

_NUMBERS_AND_PRONOUNS = frozenset("零一二三四五六七八九十百千万亿两几半每各某这那哪多")
_IDIOM_TAGS = frozenset({"i", "l"})
_NOT_AN_ENDING = frozenset("子女童科歌媳孙化时戏")


class Endings:
    """Word lists of endings. Safe to use from several threads.

    Args:
        segmenter: Finds the words that a long word is made of.
    """

    def __init__(self, segmenter: Segmenter) -> None:
        self._segmenter = segmenter
        self._neutral = frozenset(row[0] for row in tables.rows("neutral.tsv"))
        self._full_zi = frozenset(row[0] for row in tables.rows("zi.tsv"))
        self._full_er = frozenset(row[0] for row in tables.rows("er.tsv"))
        self._before_er = frozenset(row[0] for row in tables.rows("er_after.tsv"))

    def join(self, tokens: Sequence[Token]) -> list[Token]:
        """Joins a separate 儿 to the word that it colours: 媳妇 儿 is one word."""
        joined: list[Token] = []
        for index, token in enumerate(tokens):
            following = tokens[index + 1].text[0] if index + 1 < len(tokens) else ""
            if (
                token.text == "儿"
                and joined
                and joined[-1].text[-1] in self._before_er
                and joined[-1].start + len(joined[-1].text) == token.start
                and following not in _NOT_AN_ENDING
            ):
                before = joined.pop()
                joined.append(Token(before.text + token.text, before.start, before.tag))
            else:
                joined.append(token)
        return joined

    def soften(self, tokens: Sequence[Token], readings: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Makes endings neutral or r-coloured.

        Args:
            tokens: Words of a sentence.
            readings: Their syllables, one per character.

        Returns:
            The same with tone 5 on neutral endings and "r5" for a 儿 that colours the syllable before it.
        """
        softened: list[tuple[str, ...]] = []
        for index, (token, syllables) in enumerate(zip(tokens, readings, strict=True)):
            before = tokens[index - 1] if index else None
            if len(syllables) == len(token.text) and syllables and syllables[-1]:
                ended = (*syllables[:-1], self._ending(token, syllables[-1], before))
                softened.append(self._parts(token, ended) if len(token.text) > 2 else ended)
            else:
                softened.append(syllables)
        return softened

    def _is_name(self, token: Token) -> bool:
        """Whether 儿 ends a person's name; the dictionary also takes 小鸟儿 and 宝贝儿 for names."""
        stem = token.text[:-1]
        coloured = len(stem) > 1 and self._segmenter.knows(stem) and stem[-1] in self._before_er
        return token.tag.startswith("nr") and not coloured

    def _parts(self, token: Token, syllables: tuple[str, ...]) -> tuple[str, ...]:
        """Neutral tones inside a word of words: 男朋友 as 朋友, 爸爸妈妈 as 爸爸 and 妈妈."""
        if token.tag in _IDIOM_TAGS:
            return syllables
        parts = self._segmenter.parts(token.text)
        neutral = parts if all(part in self._neutral for part in parts) else parts[-1:]
        softened = list(syllables)
        end = len(token.text)
        for part in reversed(parts):
            if part in neutral and part in self._neutral and softened[end - 1]:
                softened[end - 1] = softened[end - 1][:-1] + "5"
            end -= len(part)
        return tuple(softened)

    def _ending(self, token: Token, syllable: str, before: Token | None) -> str:
        text, last = token.text, token.text[-1]
        if len(text) == 1:
            counted = before is not None and before.text[-1] in _NUMBERS_AND_PRONOUNS
            return "ge5" if text == "个" and counted else syllable
        if syllable.startswith("er") and last == "儿":
            return syllable if text in self._full_er or self._is_name(token) else "r5"
        if last == "子" and syllable == "zi3":
            keeps = text[-2:] in self._full_zi or text[-3:] in self._full_zi or token.tag.startswith(("nr", "ns"))
            return syllable if keeps else "zi5"
        is_repeated_verb = len(text) == 2 and text[0] == last and token.tag == "v"
        counts = last == "个" and text[-2] in _NUMBERS_AND_PRONOUNS
        if text in self._neutral or is_repeated_verb or last in "们么" or counts:
            return syllable[:-1] + "5"
        return syllable
