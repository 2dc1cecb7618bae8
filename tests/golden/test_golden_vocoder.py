"""The generator against published numbers: waves of every golden folder, names and shapes of every parameter list."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from deployments.vocoder.checkpoint import build_generator, config_of, published_shapes
from deployments.vocoder.hifigan import HifiGan
from deployments.voices.checkpoint import read_tensors

WAVE_BOUND = 2e-4
PARAMS = sorted((Path(__file__).parent / "params").glob("params_hifigan*.json"))


def golden_generator(folder: Path) -> HifiGan:
    params = yaml.safe_load((folder / "config.yaml").read_text())["Model"]["Generator"]["params"]
    checkpoint = max(folder.glob("ckpt/checkpoint_*.pth"))
    return build_generator(params, read_tensors(checkpoint, "model", "generator"), checkpoint)


def test_wave_equals_the_published_one(vocoder_golden_dir: Path) -> None:
    generator = golden_generator(vocoder_golden_dir)
    mel_rows = generator.config.in_channels
    with np.load(vocoder_golden_dir / "expected.npz") as expected:
        cases = sorted({name.split(".")[0] for name in expected.files})
        assert cases
        for case in cases:
            rows_RF = torch.from_numpy(expected[f"{case}.input"])
            excitation_B1S = None
            if generator.config.num_harmonics:
                source = generator.source_module
                f0_BF, voiced_BF = rows_RF[None, mel_rows], rows_RF[None, mel_rows + 1]
                before_BFH = source.phase_before(f0_BF)[:, :-1]
                excitation_B1S = source(f0_BF, voiced_BF, before_BFH, torch.zeros(1, dtype=torch.int64), None)
            with torch.inference_mode():
                wave_BS = generator(rows_RF[None, :mel_rows], excitation_B1S)
            np.testing.assert_allclose(wave_BS[0].numpy(), expected[f"{case}.wav"], rtol=0, atol=WAVE_BOUND)


@pytest.mark.parametrize("path", PARAMS, ids=lambda path: path.stem)
def test_names_and_shapes_are_the_published_ones(path: Path) -> None:
    published = json.loads(path.read_text())
    with torch.device("meta"):
        network = HifiGan(config_of(published["params"]))
    assert published_shapes(network) == {name: tuple(shape) for name, shape in published["tensors"].items()}


def test_all_published_parameter_lists_are_here() -> None:
    assert len(PARAMS) == 4
