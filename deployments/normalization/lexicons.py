"""The lexicon of each voice: the service's own entries, then those of the voice, as their files stand now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from deployments.errors import ConfigurationInvalid
from deployments.normalization.text.lexicon import Lexicon, LexiconFile
from deployments.settings import NormalizerSettings

_EMPTY = Lexicon({})


class Lexicons:
    """Lexicons by voice. Belongs to one event loop.

    Args:
        settings: lexicon_file and lexicon_files.
        voices: Names of the voices that are served.
        in_folders: Lexicons that lie in voices' folders; a voice that lexicon_files names does without.

    Raises:
        ConfigurationInvalid: A file cannot be read, a row is wrong, or lexicon_files names a voice that is not served.
    """

    def __init__(self, settings: NormalizerSettings, voices: Sequence[str], in_folders: Mapping[str, Path]) -> None:
        unknown = [name for name in settings.lexicon_files if name not in voices]
        if unknown:
            raise ConfigurationInvalid(
                f"normalizer.lexicon_files names the voice {unknown[0]!r}, which is not served. "
                f"The voices: {', '.join(voices)}.",
                "normalizer.lexicon_files",
            )
        everywhere = [] if settings.lexicon_file is None else [_file(settings.lexicon_file)]
        own: dict[str, str | Path] = {**in_folders, **settings.lexicon_files}
        self._files = {name: (*everywhere, *([_file(own[name])] if name in own else [])) for name in voices}
        self._joined: dict[str, tuple[tuple[Lexicon, ...], Lexicon]] = {}

    async def of(self, voice: str) -> Lexicon:
        """The entries that hold for a voice now; files are looked at off the event loop."""
        files = self._files[voice]
        if not files:
            return _EMPTY
        if any(file.is_due for file in files) or voice not in self._joined:
            return await asyncio.to_thread(self._join, voice)
        return self._joined[voice][1]

    def _join(self, voice: str) -> Lexicon:
        parts = tuple(file.current() for file in self._files[voice])
        known = self._joined.get(voice)
        if known is None or known[0] != parts:  # lexicons are equal when they are the same object
            known = (parts, parts[0] if len(parts) == 1 else Lexicon.joined(parts))
            self._joined[voice] = known
        return known[1]


def _file(path: str | Path) -> LexiconFile:
    return LexiconFile(Path(path).expanduser())
