"""A memo of analysed texts, so that the front end reads the same text once."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Final

from moka_py import Moka

from deployments.messages import Segment, TextAnalysis

_ENTRY_BYTES: Final = 512  # the analysis, its tuples, key and bookkeeping
_SEGMENT_BYTES: Final = 256
_WORD_BYTES: Final = 256


class TextMemo:
    """Analyses by text, the least recently used forgotten first. May be used from any thread.

    Args:
        max_bytes: Of all analyses together, about; 0 keeps none.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._cache: Moka[Hashable, TextAnalysis] = Moka(
            max(1, max_bytes), policy="lru", weigher=lambda key, analysis: analysis_bytes(analysis) + _key_bytes(key)
        )

    def get(self, text: str, *context: Hashable) -> TextAnalysis | None:
        """The analysis of a text.

        Args:
            text: As the caller gave it.
            *context: Everything else that decides the analysis: voice, emotion, switches, pauses, versions.

        Returns:
            The analysis, or None.
        """
        return self._cache.get((text, *context))

    def put(self, analysis: TextAnalysis, text: str, *context: Hashable) -> None:
        """Keeps the analysis of a text; the arguments as in get()."""
        if self._max_bytes:
            self._cache.set((text, *context), analysis)
            self._cache.run_pending_tasks()  # the bound is one at any time

    def clear(self) -> None:
        """Forgets everything."""
        self._cache.clear()

    @property
    def num_entries(self) -> int:
        """Analyses that are kept."""
        self._cache.run_pending_tasks()
        return self._cache.count()

    @property
    def num_bytes(self) -> int:
        """Bytes that they take, about."""
        self._cache.run_pending_tasks()
        return self._cache.weighted_size()


def analysis_bytes(analysis: TextAnalysis) -> int:
    """Bytes that an analysis takes in memory, about."""
    segments = sum(map(_segment_bytes, analysis.segments))
    return _ENTRY_BYTES + sys.getsizeof(analysis.normalized) + segments


def _segment_bytes(segment: Segment) -> int:
    words = sum(_WORD_BYTES + 64 * len(word.pinyin) for word in segment.words)
    texts = sum(map(sys.getsizeof, (segment.text, segment.normalized, segment.symbols)))
    return _SEGMENT_BYTES + texts + words


def _key_bytes(key: Hashable) -> int:
    return sys.getsizeof(key[0]) if isinstance(key, tuple) else 0
