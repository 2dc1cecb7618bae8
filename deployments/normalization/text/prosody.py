"""Prosodic words: which words are spoken without a break between them."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.normalization.text.tone import Spoken

_ATTACHED_TAGS = frozenset({"uj", "ul", "uz", "ug", "ud", "uv", "y", "k"})
_ATTACHED = frozenset("的地得了着过吗呢吧啊呀啦嘛么们里上下中内外儿个")
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
    if "eng" in (last.tag, word.tag):
        return False
    size = sum(len(member.pinyin) for member in group)
    if size + len(word.pinyin) > _MAX_SYLLABLES:
        return False
    if word.text in _ATTACHED or word.tag in _ATTACHED_TAGS:
        return True
    if last.tag == "m" and word.tag in {"q", "m"}:
        return True
    return (
        size == 1
        and len(group) == 1
        and len(word.pinyin) <= 2
        and last.tag in {"d", "r", "p", "m"}
        and len(word.pinyin) == 1
    )
