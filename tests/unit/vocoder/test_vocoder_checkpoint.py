from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from deployments.errors import VoiceInvalid
from deployments.vocoder.checkpoint import build_generator, config_of, fold_weight_norm, load_generator
from deployments.voices.checkpoint import read_tensors
from deployments.voices.folder import VoiceFolder

AnyFolder = Callable[[str], VoiceFolder]


@pytest.mark.parametrize("layer", [nn.Conv1d(3, 5, 7), nn.ConvTranspose1d(3, 5, 4, stride=2)])
def test_folding_gives_the_weight_that_torch_normalises(layer: nn.Module) -> None:
    torch.manual_seed(0)
    normed = weight_norm(layer, dim=0)
    gain, direction = normed.parametrizations.weight.original0, normed.parametrizations.weight.original1
    state = {"a.b.weight_g": gain.detach() * 3.0, "a.b.weight_v": direction.detach(), "a.b.bias": torch.ones(5)}
    gain.data.mul_(3.0)
    folded = fold_weight_norm(state)
    assert folded.keys() == {"a.b.weight", "a.b.bias"}
    torch.testing.assert_close(folded["a.b.weight"], normed.weight.detach(), rtol=1e-6, atol=1e-7)


def test_a_checkpoint_without_weight_norm_makes_the_same_network(any_folder: AnyFolder) -> None:
    folder = any_folder("voc_nsf")
    state = read_tensors(folder.vocoder_checkpoint, "model", "generator")
    normed = build_generator(folder.vocoder_params, state).state_dict()
    plain = build_generator(folder.vocoder_params, fold_weight_norm(state)).state_dict()
    assert normed.keys() == plain.keys()
    assert all(torch.equal(normed[name], plain[name]) for name in normed)


def test_every_tensor_must_fit_by_name_and_shape(any_folder: AnyFolder) -> None:
    folder = any_folder("voc_causal")
    state = read_tensors(folder.vocoder_checkpoint, "model", "generator")
    state["extra.weight"] = state.pop("conv_pre.conv1d.bias")
    state["conv_post.conv1d.weight_v"] = torch.zeros(1, 2, 9)
    with pytest.raises(VoiceInvalid) as caught:
        build_generator(folder.vocoder_params, state, Path("voc/checkpoint_1.pth"))
    for part in (
        "voc/checkpoint_1.pth",
        "conv_pre.conv1d.bias",
        "extra.weight",
        "conv_post.conv1d.weight_v: [1, 2, 9]",
    ):
        assert part in caught.value.message


def test_the_checkpoint_of_another_configuration_names_its_file(any_folder: AnyFolder) -> None:
    mixed = replace(any_folder("voc_causal"), vocoder_checkpoint=any_folder("voc_nsf").vocoder_checkpoint)
    with pytest.raises(VoiceInvalid, match=r"checkpoint_0\.pth.*source_"):
        load_generator(mixed)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("out_channels", 4),
        ("nonlinear_activation", "ReLU"),
        ("bias", False),
        ("channels", 100),
        ("channels", None),
        ("kernel_size", 6),
        ("upsample_scales", []),
        ("upsample_scales", [10, 5, 2.0, 2]),
        ("upsample_kernal_sizes", [20, 11, 4]),
        ("upsample_kernal_sizes", [9, 11, 4, 4]),
        ("resblock_kernel_sizes", [3, 8, 11]),
        ("resblock_dilations", [[1, 3]]),
        ("resblock_dilations", [[1, 3], [], [1]]),
        ("nsf_params", {"nb_harmonics": 7}),
    ],
)
def test_a_configuration_that_the_network_cannot_follow_is_refused(any_folder: AnyFolder, key: str, value: Any) -> None:
    params = {**any_folder("voc_nsf").vocoder_params, key: value}
    with pytest.raises(VoiceInvalid, match=key if key != "nsf_params" else "sampling_rate"):
        config_of(params)


def test_an_excitation_of_odd_stride_is_refused(any_folder: AnyFolder) -> None:
    params = {**any_folder("voc_nsf").vocoder_params, "upsample_scales": [10, 2, 5, 3]}
    with pytest.raises(VoiceInvalid, match="odd stride"):
        config_of({**params, "upsample_kernal_sizes": [20, 4, 11, 5]})
    config_of({**params, "upsample_kernal_sizes": [20, 4, 11, 5], "causal": True})
