"""Writes voices in the published layout, for tests to open and to break."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

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
