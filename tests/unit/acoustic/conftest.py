"""Real networks for the acoustic tests: the golden configurations with their checkpoints, and the bundled voice."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from deployments.acoustic.voice import AcousticVoice
from deployments.settings import VoicesSettings
from deployments.voices.folder import VoiceFolder
from deployments.voices.store import VoiceStore
from deployments.voices.symbols import SymbolTables

GOLDEN_DIR = Path(__file__).parents[2] / "golden" / "data"
GOLDEN = ("am_nsf", "am_plain", "am_r2", "am_speaker_embedding")


def golden_folder(name: str) -> VoiceFolder:
    path = GOLDEN_DIR / name
    config = yaml.safe_load((path / "config.yaml").read_text())
    vector = path / "se.npy"
    speakers = tuple(config["linguistic_unit"]["speaker_list"].split(","))
    return VoiceFolder(
        name=name,
        model="golden",
        path=path,
        acoustic_params=config["Model"]["KanTtsSAMBERT"]["params"],
        vocoder_params={},
        speakers=speakers,
        symbols=SymbolTables.of({"speaker": speakers}),
        acoustic_checkpoint=path / "ckpt" / "checkpoint_0.pth",
        vocoder_checkpoint=path / "none",
        sample_rate_hz=16_000,
        hop_samples=200,
        is_nsf=bool(config["Model"]["KanTtsSAMBERT"]["params"].get("NSF")),
        f0_scale_hz=60.0,
        f0_offset_hz=240.0,
        speaker_vector=np.load(vector).astype(np.float32).reshape(-1) if vector.exists() else None,
        emotions=("neutral", "happy", "sad"),
        language="zh-CN",
        license="Apache-2.0",
        has_english=False,
        fingerprint="",
    )


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def bundled_folder() -> VoiceFolder:
    return VoiceStore.open(VoicesSettings()).folder("demo")


@pytest.fixture(scope="session")
def voices(bundled_folder) -> dict[str, AcousticVoice]:
    folders = [*(golden_folder(name) for name in GOLDEN), bundled_folder]
    return {folder.name: AcousticVoice(folder, "cpu") for folder in folders}


@pytest.fixture(scope="session", params=[*GOLDEN, "demo"])
def voice(request, voices) -> AcousticVoice:
    return voices[request.param]
