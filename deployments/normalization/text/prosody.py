"""Prosodic words and phrases: which words are spoken without a break, and where a long clause breathes."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.normalization.text.segment import LATIN
from deployments.normalization.text.tone import Spoken

_PARTICLE_TAGS = frozenset({"uj", "ul", "uz", "ug", "ud", "uv", "y", "k", "u"})
_PARTICLES = frozenset("的地得了着过吗呢吧啊呀啦嘛么们里上下中内外儿个")
_COMPLEMENTS = frozenset(f"{way}来" for way in "起过出下上回进") | frozenset(f"{way}去" for way in "过出下上回进")
_LEADING_TAGS = frozenset({"d", "p", "c", "zg"})
_JOINING_TAGS = frozenset("drpmcvaz")
_MAX_SYLLABLES = 4
_OPENING_TAGS = frozenset({"p", "c"})
_LONGEST_PHRASE = 14  # syllables that are spoken in one breath
_SHORTEST_PHRASE = 4


def group(words: Sequence[Spoken]) -> list[list[Spoken]]:
    """Puts the words of a clause into prosodic words.

    Args:
        words: Of one clause, without marks.

    Returns:
        The prosodic words, each of one to a few words.
    """
    groups: list[list[Spoken]] = []
    for index, word in enumerate(words):
        # An adverb or preposition goes with what follows: 我 很好, not 我很 好.
        counts = word.text == "把" and index > 0 and words[index - 1].tag == "m"
        leads = word.tag in _LEADING_TAGS and index + 1 < len(words) and not counts
        if groups and not leads and _belongs(groups[-1], word):
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
    if word.text in _PARTICLES or word.tag in _PARTICLE_TAGS or (word.text in _COMPLEMENTS and last.tag[:1] == "v"):
        return total <= _MAX_SYLLABLES + 1
    if total > _MAX_SYLLABLES:
        return False
    if last.tag == "m" and (word.tag in {"q", "m"} or word.text == "把"):
        return True
    if len(group) > 1 or size > 1:
        return False
    if len(word.pinyin) == 1:
        return last.tag[:1] in _JOINING_TAGS
    return last.tag in _LEADING_TAGS


def phrases(groups: Sequence[Sequence[Spoken]]) -> frozenset[int]:
    """Where a long clause without marks breathes.

    Args:
        groups: Prosodic words of one clause.

    Returns:
        Indices of the groups after which a phrase ends; none in a clause of ordinary length.
    """
    sizes = [sum(len(word.pinyin) for word in group) for group in groups]
    found: set[int] = set()
    waiting = [(0, len(groups))]
    while waiting:
        start, end = waiting.pop()
        total = sum(sizes[start:end])
        if total <= _LONGEST_PHRASE or end - start < 2:
            continue
        before = 0
        best, best_cost = start, float("inf")
        for index in range(start, end - 1):
            before += sizes[index]
            cost = abs(before / total - 0.5) + _tightness(groups[index][-1], groups[index + 1][0])
            if min(before, total - before) < _SHORTEST_PHRASE:
                cost += 1.0
            if cost < best_cost:
                best, best_cost = index, cost
        found.add(best)
        waiting += [(start, best + 1), (best + 1, end)]
    return frozenset(found)


def _tightness(last: Spoken, first: Spoken) -> float:
    """How much two words cling together: a preposition or conjunction begins a phrase, 的 and numbers look ahead."""
    if first.tag in _OPENING_TAGS:
        return -0.2
    if last.text == "的" or last.tag in _LEADING_TAGS or last.tag == "m" or first.tag in _PARTICLE_TAGS | {"q"}:
        return 0.5
    return 0.0
