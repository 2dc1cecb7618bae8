"""The user's own readings: a TSV of text and pinyin, read again when the file changes."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deployments.errors import ConfigurationInvalid
from deployments.normalization.text import symbols, tables
from deployments.normalization.text.tracked import Tracked

_FIRST_STAND_IN = 0xE000  # private use: cleaning drops it from the caller's text, so it can stand for an entry
MAX_STAND_INS = 0x1900
_CHECK_EVERY_S = 1.0

log = logging.getLogger(__name__)


def stand_in(number: int) -> str:
    """The private character of this number, below MAX_STAND_INS."""
    return chr(_FIRST_STAND_IN + number)


@dataclass(frozen=True, slots=True)
class Entry:
    """A text with a fixed reading.

    Attributes:
        text: As it is written.
        pinyin: Its syllables.
    """

    text: str
    pinyin: tuple[str, ...]


class Lexicon:
    """Texts with fixed readings, the longest first. Immutable.

    Args:
        readings: Text to pinyin: "行[hang2]" is written {"行": "hang2"}.
        source: Where they come from, for messages.

    Attributes:
        fingerprint: Equal for lexicons with equal entries, and for no others.

    Raises:
        ConfigurationInvalid: A reading is no pinyin.
    """

    def __init__(self, readings: dict[str, str], source: str = "lexicon") -> None:
        self._entries = {text: Entry(text, _syllables(text, pinyin, source)) for text, pinyin in readings.items()}
        longest_first = sorted(self._entries, key=len, reverse=True)
        self._pattern = _any_of(longest_first) if longest_first else None
        rows = "\n".join(f"{text}\t{' '.join(entry.pinyin)}" for text, entry in sorted(self._entries.items()))
        self.fingerprint = hashlib.blake2b(rows.encode(), digest_size=16).hexdigest()

    @classmethod
    def joined(cls, lexicons: Iterable[Lexicon]) -> Lexicon:
        """The entries of several lexicons; where two have one text, the later one wins."""
        return cls({text: " ".join(entry.pinyin) for lexicon in lexicons for text, entry in lexicon._entries.items()})

    def stand_in(
        self, text: Tracked, num_taken: int = 0, pinned: Container[int] = ()
    ) -> tuple[Tracked, dict[str, Entry]]:
        """Puts one private character in the place of each entry that occurs.

        Args:
            text: Cleaned text, before any rule.
            num_taken: How many private characters, from the first on, stand for something else already.
            pinned: Places in the caller's text that have a reading of their own; no entry covers them.

        Returns:
            The text, and the entries by the character that stands for them.
        """
        used: dict[str, Entry] = {}
        if self._pattern is None:
            return text, used
        places: dict[str, str] = {}

        def replace(match: re.Match[str]) -> str | None:
            found = match[0]
            if any(text.origins[place] in pinned for place in range(*match.span())):
                return None
            if found not in places:
                if num_taken + len(places) >= MAX_STAND_INS:
                    return None
                places[found] = stand_in(num_taken + len(places))
                used[places[found]] = self._entries[found]
            return places[found]

        return text.sub(self._pattern, replace), used


class LexiconFile:
    """A lexicon in a file of two columns, text and pinyin; "#" starts a comment. Safe to use from several threads.

    Args:
        path: The file.

    Raises:
        ConfigurationInvalid: It cannot be read, or a row is wrong.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._changed = self._stamp()
        self._lexicon = self._read()
        self._checked = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the next call of current() looks at the file."""
        return time.monotonic() - self._checked >= _CHECK_EVERY_S

    def current(self) -> Lexicon:
        """The lexicon as the file stands now; the last good one where the file has become wrong."""
        with self._lock:
            if self.is_due:
                self.reload()
            return self._lexicon

    def reload(self) -> None:
        """Looks at the file and reads it again if it has changed."""
        self._checked = time.monotonic()
        try:
            changed = self._stamp()
            if changed != self._changed:
                self._changed = changed
                self._lexicon = self._read()
        except ConfigurationInvalid as error:
            log.warning("%s The earlier entries stay in use.", error.message)

    def _stamp(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise ConfigurationInvalid(
                f"Lexicon {self._path} cannot be read ({error.strerror}); create it or remove the setting."
            ) from error
        return status.st_mtime_ns, status.st_size

    def _read(self) -> Lexicon:
        try:
            content = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationInvalid(f"Lexicon {self._path} cannot be read ({error}); save it as UTF-8.") from error
        readings = {}
        for row in tables.parse_rows(content):
            if len(row) < 2 or not row[0]:
                raise ConfigurationInvalid(
                    f"Lexicon {self._path}: row {row[0]!r} needs two columns, text and pinyin, with a tab between them."
                )
            readings[row[0]] = row[1]
        return Lexicon(readings, str(self._path))


def _any_of(longest_first: Sequence[str]) -> re.Pattern[str]:
    """Any of many texts; most places are ruled out by their first character, whatever the number of texts."""
    firsts = "".join(sorted({re.escape(text[0]) for text in longest_first}))
    return re.compile(f"(?=[{firsts}])(?:{'|'.join(map(re.escape, longest_first))})")


def _syllables(text: str, pinyin: str, source: str) -> tuple[str, ...]:
    syllables = tuple(pinyin.lower().replace("u:", "v").replace("ü", "v").split())
    try:
        for syllable in syllables:
            symbols.syllable(syllable)
    except KeyError as error:
        raise ConfigurationInvalid(
            f"{source}: {error.args[0]!r} in the reading of {text!r} is no syllable; write pinyin with tones, as hang2."
        ) from error
    if not syllables:
        raise ConfigurationInvalid(f"{source}: {text!r} has no reading; write pinyin with tones, as hang2.")
    return syllables
