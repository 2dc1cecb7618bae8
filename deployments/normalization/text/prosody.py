"""Prosodic words: which words are spoken without a break between them."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.normalization.text.segment import LATIN
from deployments.normalization.text.tone import Spoken

_PARTICLE_TAGS = frozenset({"uj", "ul", "uz", "ug", "ud", "uv", "y", "k", "u"})
_PARTICLES = frozenset("的地得了着过吗呢吧啊呀啦嘛么们里上下中内外儿个")
_LEADING_TAGS = frozenset({"d", "p", "c", "zg"})
_MAX_SYLLABLES = 4


def group(words: Sequence[Spoken]) -> list[list[Spoken]]:
    """Puts the words of a clause into prosodic words.

    Args:
        words: Of one clause, without marks.

    Returns:
        The prosodic words, each of one to a few words.
    """
    groups: list[list[Spoken]] = []
    for word in words:
        if groups and _belongs(groups[-1], word):
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def _belongs(group: Sequence[Spoken], word: Spoken) -> bool:
    last = group[-1]
    if LATIN in (last.tag, word.tag):
        return False
    size = sum(len(member.pinyin) for member in group)
    total = size + len(word.pinyin)
    if word.text in _PARTICLES or word.tag in _PARTICLE_TAGS:
        return total <= _MAX_SYLLABLES + 1
    if total > _MAX_SYLLABLES:
        return False
    if last.tag == "m" and word.tag in {"q", "m"}:
        return True
    if len(group) > 1 or size > 1:
        return False
    if len(word.pinyin) == 1:
        return last.tag[:1] in {"d", "r", "p", "m", "c", "v", "a"}
    return last.tag in _LEADING_TAGS
