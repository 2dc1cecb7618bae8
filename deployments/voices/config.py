"""YAML files, arrays and audio numbers of a voice folder, each read once and checked."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml
from numpy.lib import format as npy
from numpy.typing import NDArray

from deployments.errors import VoiceInvalid

AGAIN: Final = "Download the voice again"
Place = tuple[str, ...]


def shown(value: Any) -> str:
    """A value for an error message, cut short: a few YAML aliases can stand for one that would fill the memory."""
    short = reprlib.Repr()
    short.maxlevel = 2
    return short.repr(value)


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping from a YAML file.

    Raises:
        VoiceInvalid: The file is missing, not UTF-8, not YAML, or not a mapping.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise VoiceInvalid(f"{path} cannot be read as YAML: {_line(error)}. {AGAIN}.", str(path)) from error
    if not isinstance(content, dict):
        raise VoiceInvalid(f"{path} is not a mapping of keys to values. {AGAIN}.", str(path))
    return content


def section(config: Mapping[str, Any], path: Path, *keys: str) -> dict[str, Any]:
    """A mapping inside a configuration.

    Raises:
        VoiceInvalid: A key on the way is missing or no mapping; names file and key.
    """
    found: Any = config
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, dict):
        raise VoiceInvalid(
            f"{path} has no mapping {'.'.join(keys)}; it is the config.yaml of another kind of model. {AGAIN}.",
            str(path),
        )
    return found


def number(params: Mapping[str, Any], key: str, path: Path, default: float | None = None) -> float:
    """A finite number of a configuration.

    Raises:
        VoiceInvalid: The key is missing without a default, or its value is not a finite number.
    """
    value = params.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise VoiceInvalid(f"{path}: {key} must be a number (got {shown(value)}). {AGAIN}.", str(path))
    return float(value)


def count(params: Mapping[str, Any], key: str, path: Path) -> int:
    """A positive whole number of a configuration.

    Raises:
        VoiceInvalid: The key is missing or its value is not a positive whole number.
    """
    value = number(params, key, path)
    if value < 1 or value != int(value):
        raise VoiceInvalid(
            f"{path}: {key} must be a positive whole number (got {shown(params.get(key))}). {AGAIN}.", str(path)
        )
    return int(value)


def read_array(path: Path, what: str, shapes: tuple[tuple[int, ...], ...]) -> NDArray[np.float32]:
    """A small float array from a .npy file, flattened.

    Args:
        path: The file.
        what: What it holds, for the error.
        shapes: Shapes that are accepted.

    Returns:
        float32 [elements].

    Raises:
        VoiceInvalid: The file is missing, holds objects, has another shape or type, or values that are not finite.
    """
    wanted = " or ".join(map(str, shapes))
    if not path.is_file():
        raise VoiceInvalid(
            f"{path} is missing; config.yaml asks for it ({what}, shape {wanted}). {AGAIN} with this file.", str(path)
        )
    try:
        with path.open("rb") as stream:
            array = npy.read_array(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        raise VoiceInvalid(f"{path} is not a numpy array of numbers: {_line(error)}. {AGAIN}.", str(path)) from error
    if array.shape not in shapes or array.dtype.kind not in "fiu":
        got = f"{array.dtype} {array.shape}"
        raise VoiceInvalid(f"{path} must be {what}, numbers of shape {wanted} (got {got}). {AGAIN}.", str(path))
    flat: NDArray[np.float32] = array.astype(np.float32).reshape(-1)
    if not np.isfinite(flat).all():
        raise VoiceInvalid(f"{path} holds values that are not finite. {AGAIN}.", str(path))
    return flat


def audio_numbers(folder: Path, acoustic: Mapping[str, Any], vocoder: Mapping[str, Any]) -> tuple[int, int]:
    """Sample rate and hop of a voice, from whichever of its files say them.

    Read are audio_config.yaml, the audio_config of both config.yaml files, nsf_params.sampling_rate and the product of
    upsample_scales (which is the hop by construction).

    Args:
        folder: Of the voice.
        acoustic: am/config.yaml.
        vocoder: voc/config.yaml.

    Returns:
        Sample rate in Hz, hop in samples.

    Raises:
        VoiceInvalid: No file says the sample rate, or two files contradict each other.
    """
    am_path, voc_path, own_path = folder / "am/config.yaml", folder / "voc/config.yaml", folder / "audio_config.yaml"
    generator = section(vocoder, voc_path, "Model", "Generator", "params")
    scales = generator.get("upsample_scales")
    if not isinstance(scales, list) or not scales or not all(type(scale) is int and scale > 0 for scale in scales):
        raise VoiceInvalid(
            f"{voc_path}: upsample_scales must be positive whole numbers (got {shown(scales)}). {AGAIN}."
        )
    rates: dict[str, int] = {}
    hops = {f"{voc_path}, product of upsample_scales": math.prod(scales)}
    files: list[tuple[Path, Mapping[str, Any]]] = [(am_path, acoustic), (voc_path, vocoder)]
    if own_path.is_file():
        files.insert(0, (own_path, read_yaml(own_path)))
    for path, config in files:
        audio = config.get("audio_config", config if path == own_path else {})
        audio = audio if isinstance(audio, Mapping) else {}
        if audio.get("sampling_rate") is not None:
            rates[f"{path}, sampling_rate"] = count(audio, "sampling_rate", path)
        if audio.get("hop_length") is not None:
            hops[f"{path}, hop_length"] = count(audio, "hop_length", path)
    nsf = generator.get("nsf_params")
    if isinstance(nsf, Mapping) and nsf.get("sampling_rate") is not None:
        rates[f"{voc_path}, nsf_params.sampling_rate"] = count(nsf, "sampling_rate", voc_path)
    if not rates:
        raise VoiceInvalid(
            f"No file of {folder} says its sample rate. Add {own_path} with audio_config: {{sampling_rate: 16000}} "
            "(or what the voice was trained at).",
            str(own_path),
        )
    return _agreed(rates, "sample rate"), _agreed(hops, "hop")


def _agreed(values: Mapping[str, int], what: str) -> int:
    if len(set(values.values())) > 1:
        said = "; ".join(f"{place}: {value}" for place, value in values.items())
        raise VoiceInvalid(f"The files of the voice contradict each other about its {what}: {said}. {AGAIN}.")
    return next(iter(values.values()))


def _line(error: BaseException) -> str:
    return " ".join((str(error).strip() or type(error).__name__).split())[:200]
