"""Voices to test with: the four golden configurations as voice folders, and the bundled voice."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray

from deployments import voices
from deployments.settings import VocoderSettings
from deployments.vocoder.backends.choice import Chooser
from deployments.vocoder.engine import load_voice
from deployments.vocoder.voice import VocoderVoice
from deployments.voices.folder import VoiceFolder, open_model

GOLDEN = Path(__file__).parents[2] / "golden" / "data"
KINDS = ("demo", *(path.name for path in sorted(GOLDEN.glob("voc_*"))))


@cache
def folder_of(kind: str) -> VoiceFolder:
    bundled = open_model(Path(voices.__file__).parent / "bundled", "bundled")[0]
    if kind == "demo":
        return bundled
    params = yaml.safe_load((GOLDEN / kind / "config.yaml").read_text())["Model"]["Generator"]["params"]
    checkpoint = GOLDEN / kind / "ckpt" / "checkpoint_0.pth"
    return replace(
        bundled, name=kind, vocoder_params=params, vocoder_checkpoint=checkpoint, is_nsf="nsf_params" in params
    )


@cache
def voice_of(kind: str) -> VocoderVoice:
    settings = VocoderSettings(backend="torch")
    return load_voice(folder_of(kind), settings, "cpu", Chooser(settings, "cpu"))


@pytest.fixture(params=KINDS)
def voice(request: pytest.FixtureRequest) -> VocoderVoice:
    torch.set_num_threads(1)
    return voice_of(request.param)


@pytest.fixture
def any_voice() -> Callable[[str], VocoderVoice]:
    torch.set_num_threads(1)
    return voice_of


@pytest.fixture
def any_folder() -> Callable[[str], VoiceFolder]:
    return folder_of


@pytest.fixture
def make_mel() -> Callable[[VocoderVoice, int, int], NDArray[np.float32]]:
    """Random mel spectrograms; F0 on both sides of its minimum and voicing on both sides of its threshold."""

    def make(voice: VocoderVoice, num_frames: int, seed: int) -> NDArray[np.float32]:
        return np.random.default_rng(seed).normal(size=(num_frames, voice.mel_width)).astype(np.float32)

    return make
