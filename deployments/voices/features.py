"""What makes a voice special: a source-filter vocoder driven by F0 (NSF), and a speaker vector (SE)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from deployments.errors import VoiceInvalid
from deployments.voices.config import AGAIN, count, number, read_array, shown

NSF_ROWS: Final = 2
"""Columns that NSF voices add to the mel spectrogram: normalised F0 and voicing."""

_NSF_MEL_WIDTH: Final = 82
_GLOBAL_F0_MAXIMUM_HZ: Final = 730.0  # what the published code assumes where nsf_f0_global_* are absent
_GLOBAL_F0_MINIMUM_HZ: Final = 30.0


def is_nsf(path: Path, acoustic_params: Mapping[str, Any], vocoder_params: Mapping[str, Any]) -> bool:
    """Whether the acoustic model predicts F0 and voicing for the vocoder's excitation.

    Args:
        path: Folder of the voice.
        acoustic_params: Model.KanTtsSAMBERT.params.
        vocoder_params: Model.Generator.params.

    Raises:
        VoiceInvalid: Acoustic model and vocoder do not fit each other.
    """
    am_path, voc_path = path / "am/config.yaml", path / "voc/config.yaml"
    if vocoder_params.get("out_channels", 1) != 1:
        raise VoiceInvalid(
            f"{voc_path}: out_channels must be 1; vocoders of several sub-bands are not supported. "
            "Use another voice or another vocoder of this voice.",
            str(voc_path),
        )
    mel_width, in_channels = count(acoustic_params, "num_mels", am_path), count(vocoder_params, "in_channels", voc_path)
    acoustic_nsf = acoustic_params.get("NSF") is True or mel_width == _NSF_MEL_WIDTH
    vocoder_nsf = vocoder_params.get("nsf_params") is not None
    if acoustic_nsf != vocoder_nsf or mel_width != in_channels + (NSF_ROWS if acoustic_nsf else 0):
        raise VoiceInvalid(
            f"{am_path} (num_mels {mel_width}, NSF {acoustic_nsf}) and {voc_path} (in_channels {in_channels}, "
            f"nsf_params {'given' if vocoder_nsf else 'absent'}) do not fit each other. "
            "Take am/ and voc/ from the same download of the voice.",
            str(voc_path),
        )
    return acoustic_nsf


def f0_line(path: Path, acoustic_params: Mapping[str, Any]) -> tuple[float, float]:
    """How the normalised F0 of an NSF voice becomes Hz.

    Args:
        path: Folder of the voice.
        acoustic_params: Model.KanTtsSAMBERT.params.

    Returns:
        Scale and offset in Hz: F0 is value * scale + offset.

    Raises:
        VoiceInvalid: The normalisation is not known, mvn.npy is missing or wrong, or the scale is not positive.
    """
    am_path, kind = path / "am/config.yaml", acoustic_params.get("nsf_norm_type") or "mean_std"
    if kind == "global":
        maximum = number(acoustic_params, "nsf_f0_global_maximum", am_path, _GLOBAL_F0_MAXIMUM_HZ)
        minimum = number(acoustic_params, "nsf_f0_global_minimum", am_path, _GLOBAL_F0_MINIMUM_HZ)
        scale, offset, source = maximum - minimum, minimum, am_path
    elif kind == "mean_std":
        source = path / "am/mvn.npy"
        mean, std = read_array(source, "mean and standard deviation of F0 in Hz", ((2, 1), (2,)))
        scale, offset = float(std), float(mean)
    else:
        raise VoiceInvalid(
            f"{am_path}: nsf_norm_type must be mean_std or global (got {shown(kind)}). {AGAIN}.", str(am_path)
        )
    if scale <= 0 or offset < 0:
        raise VoiceInvalid(
            f"{source} gives F0 a range of {scale:g} Hz from {offset:g} Hz; both must be positive. {AGAIN}.",
            str(source),
        )
    return scale, offset


def speaker_vector(path: Path, acoustic_params: Mapping[str, Any]) -> NDArray[np.float32] | None:
    """The speaker vector of a voice with SE.

    Args:
        path: Folder of the voice.
        acoustic_params: Model.KanTtsSAMBERT.params.

    Returns:
        float32 [speaker_units], read-only; None for a voice without SE.

    Raises:
        VoiceInvalid: se.npy is missing, of another width than speaker_units, or not finite.
    """
    if acoustic_params.get("SE") is not True:
        return None
    width = count(acoustic_params, "speaker_units", path / "am/config.yaml")
    vector = read_array(path / "am/se.npy", "the speaker vector", ((1, width), (width,)))
    vector.setflags(write=False)
    return vector
