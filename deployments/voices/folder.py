"""One model folder in ModelScope's layout: its voices found, checked and described, without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from deployments.errors import VoiceInvalid
from deployments.messages import VoiceInfo
from deployments.voices import archive, config, dictionary, features
from deployments.voices.card import Card
from deployments.voices.fingerprint import fingerprint
from deployments.voices.symbols import SymbolTables

_PARTS: Final = {"am": "KanTtsSAMBERT", "voc": "Generator"}
_STEP: Final = re.compile(r"checkpoint_(\d+)\.pth")


@dataclass(frozen=True, kw_only=True, eq=False)
class VoiceFolder:
    """Everything a stage needs to know of one voice before it loads the weights.

    Attributes:
        name: As requests name it; the folder's name.
        model: Id of the model folder: "bundled", a local path or a model id.
        path: voices/<name>.
        acoustic_params: Model.KanTtsSAMBERT.params of am/config.yaml.
        vocoder_params: Model.Generator.params of voc/config.yaml.
        speakers: linguistic_unit.speaker_list; the first one is the voice's own.
        symbols: Its symbol tables.
        acoustic_checkpoint: Of the highest step.
        vocoder_checkpoint: Of the highest step.
        sample_rate_hz: Of its waveform.
        hop_samples: Samples per mel frame.
        is_nsf: Whether its mel spectrograms carry F0 and voicing.
        f0_scale_hz: F0 in Hz is value * scale + offset; 1 for voices without NSF.
        f0_offset_hz: See f0_scale_hz; 0 for voices without NSF.
        speaker_vector: float32 [speaker_units] of se.npy, None for voices that have a speaker table.
        emotions: Without the prefix "emotion_", neutral first where the voice has it.
        language: BCP 47, from its card.
        license: SPDX id or a short phrase, from its card.
        has_english: Whether English phones were trained.
        fingerprint: Hash of everything that decides how the voice sounds.
        phrase_break: The break inside long clauses, from its card.
        lexicon_file: Its own readings, lexicon.tsv, or None where it has none.
    """

    name: str
    model: str
    path: Path
    acoustic_params: Mapping[str, Any] = field(repr=False)
    vocoder_params: Mapping[str, Any] = field(repr=False)
    speakers: tuple[str, ...]
    symbols: SymbolTables = field(repr=False)
    acoustic_checkpoint: Path
    vocoder_checkpoint: Path
    sample_rate_hz: int
    hop_samples: int
    is_nsf: bool
    f0_scale_hz: float
    f0_offset_hz: float
    speaker_vector: NDArray[np.float32] | None = field(repr=False)
    emotions: tuple[str, ...]
    language: str
    license: str
    has_english: bool
    fingerprint: str
    phrase_break: str = "#2"
    lexicon_file: Path | None = None

    def info(self, *, is_default: bool) -> VoiceInfo:
        """What callers may know of it."""
        return VoiceInfo(
            name=self.name,
            model=self.model,
            speaker=self.speakers[0],
            emotions=self.emotions,
            sample_rate_hz=self.sample_rate_hz,
            hop_samples=self.hop_samples,
            language=self.language,
            license=self.license,
            is_default=is_default,
            has_english=self.has_english,
            fingerprint=self.fingerprint,
            phrase_break=self.phrase_break,
        )


def open_model(path: Path, model: str, voices: Sequence[str] | None = None) -> tuple[VoiceFolder, ...]:
    """The voices of a model folder, in the order of voices.json.

    Args:
        path: The folder that holds voices/.
        model: Its id, for messages and VoiceInfo.
        voices: Names of the voices to open; None opens all of them. The order stays that of voices.json.

    Raises:
        VoiceInvalid: The folder is not in ModelScope's layout, a named voice is not in it, or a file of a voice is
            missing, broken or at odds with another; names file and fix.
    """
    names = voice_names(path)
    unknown = [name for name in voices or () if name not in names]
    if unknown:
        raise VoiceInvalid(
            f"{path} ({model}) has no voice {unknown[0]!r}. Its voices: {', '.join(names)}; mend voices.sources.",
            "voices.sources",
        )
    return tuple(_open_voice(path / "voices" / name, model) for name in names if voices is None or name in voices)


def voice_names(path: Path) -> tuple[str, ...]:
    """Names in voices.json, the default first; without voices.json the sub-folders of voices/ by name.

    Raises:
        VoiceInvalid: There is no voice, or voices.json is broken or names what cannot be a folder of voices/.
    """
    root = path / "voices"
    listing = root / "voices.json"
    if not root.is_dir():
        raise VoiceInvalid(
            f"{path} is no model folder: it has no folder voices/. Give the folder that holds configuration.json and "
            "voices/, as ModelScope publishes it.",
            str(path),
        )
    if not listing.is_file():
        names: Any = sorted(part.name for part in root.iterdir() if (part / "am").is_dir())
    else:
        try:
            content = json.loads(listing.read_text(encoding="utf-8"))
            names = content["voices"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise VoiceInvalid(
                f'{listing} is not {{"voices": [names]}}: {error!r:.120}. {config.AGAIN}.', str(listing)
            ) from error
    if not isinstance(names, list) or not names or len(set(map(str, names))) != len(names):
        raise VoiceInvalid(
            f"{listing} must list at least one voice, each once (got {config.shown(names)}).", str(listing)
        )
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w][\w.\-]*", name):
            raise VoiceInvalid(
                f"{listing}: {config.shown(name)} is not the name of a voice folder. {config.AGAIN}.", str(listing)
            )
    return tuple(names)


def newest_checkpoint(folder: Path) -> Path:
    """The checkpoint_<step>.pth of the highest step in a ckpt folder.

    Raises:
        VoiceInvalid: There is none.
    """
    steps = {
        int(match[1]): file
        for file in (folder.iterdir() if folder.is_dir() else ())
        if (match := _STEP.fullmatch(file.name))
    }
    if not steps:
        raise VoiceInvalid(f"{folder} has no checkpoint_<step>.pth. {config.AGAIN}.", str(folder))
    return steps[max(steps)]


def _open_voice(path: Path, model: str) -> VoiceFolder:
    if not path.is_dir():
        raise VoiceInvalid(f"{path} is missing; voices.json lists it. {config.AGAIN}.", str(path))
    configs = {part: config.read_yaml(path / part / "config.yaml") for part in _PARTS}
    acoustic_params, vocoder_params = (
        config.section(configs[part], path / part / "config.yaml", "Model", network, "params")
        for part, network in _PARTS.items()
    )
    acoustic_checkpoint, vocoder_checkpoint = (newest_checkpoint(path / part / "ckpt") for part in _PARTS)
    for checkpoint in (acoustic_checkpoint, vocoder_checkpoint):
        archive.check(checkpoint)
    sample_rate_hz, hop_samples = config.audio_numbers(path, configs["am"], configs["voc"])
    is_nsf = features.is_nsf(path, acoustic_params, vocoder_params)
    f0_scale_hz, f0_offset_hz = features.f0_line(path, acoustic_params) if is_nsf else (1.0, 0.0)
    speakers, symbols, listed_emotions = dictionary.read_symbols(path, configs["am"])
    card = Card.read(path / "card.yaml", symbols)
    lexicon_file = path / "lexicon.tsv"
    return VoiceFolder(
        name=path.name,
        model=model,
        path=path,
        acoustic_params=acoustic_params,
        vocoder_params=vocoder_params,
        speakers=speakers,
        symbols=symbols,
        acoustic_checkpoint=acoustic_checkpoint,
        vocoder_checkpoint=vocoder_checkpoint,
        sample_rate_hz=sample_rate_hz,
        hop_samples=hop_samples,
        is_nsf=is_nsf,
        f0_scale_hz=f0_scale_hz,
        f0_offset_hz=f0_offset_hz,
        speaker_vector=features.speaker_vector(path, acoustic_params),
        emotions=card.emotions or listed_emotions,
        language=card.language or _language(path, configs["am"]),
        license=card.license,
        has_english=dictionary.has_english(symbols) if card.english is None else card.english,
        fingerprint=fingerprint(path, acoustic_checkpoint, vocoder_checkpoint),
        phrase_break=card.phrase_break,
        lexicon_file=lexicon_file if lexicon_file.is_file() else None,
    )


def _language(path: Path, acoustic_config: Mapping[str, Any]) -> str:
    unit = acoustic_config.get("linguistic_unit")
    kind = unit.get("language", "PinYin") if isinstance(unit, Mapping) else "PinYin"
    if kind != "PinYin":
        file = path / "am/config.yaml"
        raise VoiceInvalid(
            f"{file}: the voice was trained on symbols of {config.shown(kind)}; this service writes Mandarin (PinYin). "
            f"Use another voice, or name its language in {path / 'card.yaml'} to serve it all the same.",
            str(file),
        )
    return "zh-CN"
