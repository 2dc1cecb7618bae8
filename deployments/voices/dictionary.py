"""The symbol tables of one voice: those of its dict/ folder where it has one, else the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deployments.errors import VoiceInvalid
from deployments.voices.config import AGAIN, shown
from deployments.voices.symbols import EMOTION_PREFIX, NO_EMOTION, SymbolTables

_FILES: Final = {
    "phone": "sy_dict.txt",
    "tone": "tone_dict.txt",
    "syllable_flag": "syllable_flag_dict.txt",
    "word_segment": "word_segment_dict.txt",
    "emotion": "emo_category_dict.txt",
    "speaker": "speaker_dict.txt",
}
# A voice without these cannot speak a single sentence, whatever its tables are.
_NEEDED: Final = {
    "phone": ("#1", "#2", "#3", "#4"),
    "tone": ("tone1", "tone2", "tone3", "tone4", "tone5", "tone_none"),
    "syllable_flag": ("s_begin", "s_end", "s_both", "s_none"),
    "word_segment": ("word_begin", "word_middle", "word_end", "word_both", "word_none"),
    "emotion": (NO_EMOTION,),
}
_ENGLISH_VOWELS: Final = ("aa", "ae", "ah", "ao", "aw", "ay", "eh", "er", "ey", "ih", "iy", "ow", "oy", "uh", "uw")


def read_symbols(
    path: Path, acoustic_config: Mapping[str, Any]
) -> tuple[tuple[str, ...], SymbolTables, tuple[str, ...]]:
    """Speakers, tables and emotions of a voice.

    The emotions are those of the emotion table, which is dict/emo_category_dict.txt where the voice has one. Without
    that file nothing in the folder tells which rows of the published table were trained: all of them are offered,
    except emotion_none and the placeholders. A card.yaml narrows them.

    Args:
        path: Folder of the voice.
        acoustic_config: am/config.yaml.

    Returns:
        Speakers of the voice, its own first; its tables; its emotions without the prefix, neutral first.

    Raises:
        VoiceInvalid: A table is broken or lacks what every sentence needs, or there is no speaker.
    """
    rows = {table: found for table, file in _FILES.items() if (found := _read_rows(path / "dict" / file))}
    speakers = _speakers(path, acoustic_config) or tuple(rows.get("speaker", ()))
    if not speakers:
        raise VoiceInvalid(
            f"{path}/am/config.yaml has no linguistic_unit.speaker_list, and dict/speaker_dict.txt is absent. {AGAIN}.",
            str(path / "am/config.yaml"),
        )
    try:
        symbols = SymbolTables.of({"speaker": speakers, **rows})
    except ValueError as error:
        raise VoiceInvalid(
            f"The symbol tables of {path} ({path / 'dict'}, am/config.yaml) are broken: {error}. {AGAIN}.",
            str(path / "dict"),
        ) from error
    for table, needed in {**_NEEDED, "speaker": speakers}.items():
        lacking = [symbol for symbol in needed if not symbols.has(table, symbol)]
        if lacking:
            file = path / "dict" / _FILES[table]
            raise VoiceInvalid(f"{file} lacks {', '.join(lacking)}, which every sentence needs. {AGAIN}.", str(file))
    emotions = plain_emotions(symbols.emotion)
    if not emotions:
        file = path / "dict" / _FILES["emotion"]
        raise VoiceInvalid(f"{file} lists no emotion, not even emotion_neutral. {AGAIN}.", str(file))
    return speakers, symbols, emotions


def plain_emotions(rows: tuple[str, ...]) -> tuple[str, ...]:
    """Emotions of a table that a caller may ask for: without prefix, none and placeholders, neutral first."""
    names = [
        row.removeprefix(EMOTION_PREFIX)
        for row in rows
        if row.startswith(EMOTION_PREFIX) and row != NO_EMOTION and not row.startswith(EMOTION_PREFIX + "placeholder")
    ]
    return tuple(sorted(names, key=lambda name: name != "neutral"))


def has_english(symbols: SymbolTables) -> bool:
    """Whether the tables have the English vowels (a card may still say that they were not trained)."""
    return all(symbols.has("phone", vowel) for vowel in _ENGLISH_VOWELS)


def _speakers(path: Path, acoustic_config: Mapping[str, Any]) -> tuple[str, ...]:
    unit = acoustic_config.get("linguistic_unit")
    listed = unit.get("speaker_list") if isinstance(unit, Mapping) else None
    if listed is None:
        return ()
    file = path / "am/config.yaml"
    # YAML reads a lone 7 as a number, and some configurations hold a list.
    names = listed.split(",") if isinstance(listed, str) else listed if isinstance(listed, list) else [listed]
    if not all(isinstance(name, str | int) for name in names):
        raise VoiceInvalid(f"{file}: speaker_list must name speakers (got {shown(listed)}). {AGAIN}.", str(file))
    speakers = tuple(str(name).strip() for name in names if str(name).strip())
    if len(set(speakers)) != len(speakers):
        raise VoiceInvalid(f"{file}: speaker_list names a speaker twice ({shown(listed)}). {AGAIN}.", str(file))
    return speakers


def _read_rows(file: Path) -> list[str]:
    """One symbol per line, in order; blank lines are none. Empty where the file is absent."""
    if not file.is_file():
        return []
    try:
        rows = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise VoiceInvalid(f"{file} cannot be read as UTF-8 text: {error}. {AGAIN}.", str(file)) from error
    if not any(rows):
        raise VoiceInvalid(f"{file} is empty. {AGAIN}.", str(file))
    return [row for row in rows if row]
