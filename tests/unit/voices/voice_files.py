"""Writes voices in the published layout, for tests to open and to break."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from deployments.errors import VoiceInvalid
from deployments.voices.folder import VoiceFolder, open_model

AM_PARAMS = {"num_mels": 80, "speaker_units": 16, "emotion_units": 16}
VOC_PARAMS = {"in_channels": 80, "out_channels": 1, "upsample_scales": [10, 5, 2, 2]}
NSF = {"NSF": True, "num_mels": 82}


def write_yaml(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content), encoding="utf-8")


def edit_yaml(path: Path, change: Callable[[Any], None]) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(content)
    write_yaml(path, content)


def write_checkpoint(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)


def make_voice(path: Path, am: dict[str, Any] | None = None, voc: dict[str, Any] | None = None) -> None:
    write_yaml(path / "audio_config.yaml", {"audio_config": {"sampling_rate": 16000, "hop_length": 200}})
    write_yaml(
        path / "am/config.yaml",
        {
            "Model": {"KanTtsSAMBERT": {"params": {**AM_PARAMS, **(am or {})}}},
            "linguistic_unit": {"speaker_list": "F7,F74,M7"},
        },
    )
    write_yaml(path / "voc/config.yaml", {"Model": {"Generator": {"params": {**VOC_PARAMS, **(voc or {})}}}})
    write_checkpoint(path / "am/ckpt/checkpoint_90.pth", {"model": {"encoder.weight": torch.ones(2, 3)}})
    write_checkpoint(path / "voc/ckpt/checkpoint_7.pth", {"model": {"generator": {"conv.weight": torch.ones(3)}}})


def opened(voice: Path) -> VoiceFolder:
    """The voice of a folder model/voices/<name>."""
    return open_model(voice.parents[1], "some/model", [voice.name])[0]


def refused(voice: Path) -> str:
    with pytest.raises(VoiceInvalid) as raised:
        opened(voice)
    return raised.value.message


def set_am(voice: Path, **params: Any) -> None:
    edit_yaml(voice / "am/config.yaml", lambda c: c["Model"]["KanTtsSAMBERT"]["params"].update(params))


def set_voc(voice: Path, **params: Any) -> None:
    edit_yaml(voice / "voc/config.yaml", lambda c: c["Model"]["Generator"]["params"].update(params))


def make_nsf(voice: Path, **params: Any) -> None:
    set_am(voice, **NSF, **params)
    set_voc(voice, nsf_params={"nb_harmonics": 7, "sampling_rate": 16000})
    np.save(voice / "am/mvn.npy", np.array([[220.5], [55.25]]))
