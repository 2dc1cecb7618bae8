"""Text that remembers where each of its characters came from, so that segments can quote the caller's own words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tracked:
    """A text derived from the caller's.

    Attributes:
        text: The derived text.
        origins: One entry per character: index of the caller's character it came from, never falling.
    """

    text: str
    origins: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Tracked:
        """The caller's text itself."""
        return cls(text, tuple(range(len(text))))

    def sub(self, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str | None]) -> Tracked:
        """Replaces every match; the new characters of a replacement point at the first that it changed.

        Args:
            pattern: What to look for.
            replace: The replacement of a match, or None to leave it as it is.

        Returns:
            The new text, or this very object when nothing matched.
        """
        pieces: list[str] = []
        origins: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            new = replace(match)
            start, end = match.span()
            if new is None or start == end:
                continue
            # What a replacement keeps at either end keeps its exact place.
            old = match[0]
            shorter = min(len(old), len(new))
            head = next((size for size in range(shorter) if old[size] != new[size]), shorter)
            tail = next((size for size in range(shorter - head) if old[-size - 1] != new[-size - 1]), shorter - head)
            pieces += (self.text[done:start], new)
            origins += self.origins[done : start + head]
            if len(old) == len(new):  # a map of characters
                origins += self.origins[start + head : end - tail]
            else:
                origins += (self.origins[min(start + head, end - 1)],) * (len(new) - head - tail)
            origins += self.origins[end - tail : end]
            done = end
        if not pieces:
            return self
        pieces.append(self.text[done:])
        origins += self.origins[done:]
        return Tracked("".join(pieces), tuple(origins))

    def map(self, convert: Callable[[str], str]) -> Tracked:
        """Applies a conversion that keeps the length; where it does not, character by character."""
        new = convert(self.text)
        if len(new) == len(self.text):
            return Tracked(new, self.origins)
        pieces = [convert(char) for char in self.text]
        origins = [origin for piece, origin in zip(pieces, self.origins, strict=True) for _ in piece]
        return Tracked("".join(pieces), tuple(origins))
