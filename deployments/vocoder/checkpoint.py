"""From a voice's configuration and tensors to the generator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deployments.errors import VoiceInvalid
from deployments.vocoder.hifigan import HifiGan, HifiGanConfig
from deployments.voices.checkpoint import explain_mismatch, read_tensors
from deployments.voices.folder import VoiceFolder

# What published generators have and the network is written for; a voice that says otherwise would sound wrong.
FIXED = {"out_channels": 1, "bias": True, "nonlinear_activation": "LeakyReLU"}


def config_of(params: Mapping[str, Any]) -> HifiGanConfig:
    """Sizes of a generator from its configuration.

    Args:
        params: Model.Generator.params of voc/config.yaml.

    Returns:
        The sizes.

    Raises:
        VoiceInvalid: A key is missing, malformed or asks for what the network does not do.
    """
    for key, value in FIXED.items():
        if params.get(key, value) != value:
            raise VoiceInvalid(
                f"{_key(key)} is {params[key]!r}; only {value!r} is supported. Choose another voice.", key
            )
    scales = _integers(params, "upsample_scales")
    up_kernels = _integers(params, "upsample_kernal_sizes", len(scales))
    block_kernels = _integers(params, "resblock_kernel_sizes")
    dilations = params.get("resblock_dilations")
    if not isinstance(dilations, list | tuple) or len(dilations) != len(block_kernels):
        raise VoiceInvalid(f"{_key('resblock_dilations')} must be one list per residual block. Restore the file.")
    kernel_size = _integer(params, "kernel_size")
    channels = _integer(params, "channels")
    causal = bool(params.get("causal", True))
    nsf = params.get("nsf_params") or {}
    if any(kernel % 2 == 0 for kernel in (kernel_size, *block_kernels)):
        raise VoiceInvalid(f"{_key('kernel_size')} and resblock_kernel_sizes must be odd. Restore the file.")
    if any(kernel < scale for kernel, scale in zip(up_kernels, scales, strict=True)):
        raise VoiceInvalid(f"{_key('upsample_kernal_sizes')} must not be below upsample_scales. Restore the file.")
    if channels % (1 << len(scales)):
        raise VoiceInvalid(f"{_key('channels')} must halve evenly {len(scales)} times. Restore the file.")
    config = HifiGanConfig(
        in_channels=_integer(params, "in_channels"),
        channels=channels,
        kernel_size=kernel_size,
        upsample_scales=scales,
        upsample_kernel_sizes=up_kernels,
        resblock_kernel_sizes=block_kernels,
        resblock_dilations=tuple(_integers({"resblock_dilations": row}, "resblock_dilations") for row in dilations),
        negative_slope=float((params.get("nonlinear_activation_params") or {}).get("negative_slope", 0.1)),
        causal=causal,
        num_harmonics=_integer(nsf, "nb_harmonics") + 1 if nsf else 0,
        sample_rate_hz=_integer(nsf, "sampling_rate") if nsf else 16_000,
    )
    odd_scales = [config.source_scale(stage) for stage in range(len(scales)) if config.source_scale(stage) % 2]
    if nsf and not causal and any(scale > 1 for scale in odd_scales):
        raise VoiceInvalid(f"{_key('upsample_scales')} gives an excitation of odd stride. Choose another voice.")
    return config


def fold_weight_norm(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Replaces each pair weight_g, weight_v by the weight it stands for: g v / |v|.

    Args:
        state: Tensors by their published names; the norm goes over all axes but the first.

    Returns:
        Tensors by the names of the network; what has no weight norm stays.

    Source: Salimans and Kingma 2016, Weight normalization, equation 2.
    """
    folded: dict[str, Tensor] = {}
    for name, tensor in state.items():
        module, _, parameter = name.rpartition(".")
        if parameter == "weight_v" and f"{module}.weight_g" in state:
            norm = torch.linalg.vector_norm(tensor, dim=tuple(range(1, tensor.ndim)), keepdim=True)
            folded[f"{module}.weight"] = tensor * (state[f"{module}.weight_g"] / norm)
        elif parameter != "weight_g" or f"{module}.weight_v" not in state:
            folded[name] = tensor
    return folded


def published_shapes(network: HifiGan) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the checkpoint that fits a network: every weight is a pair weight_g, weight_v."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, tensor in network.state_dict().items():
        if name.endswith(".weight"):
            shapes[f"{name}_g"] = (tensor.shape[0], *[1] * (tensor.ndim - 1))
            shapes[f"{name}_v"] = tuple(tensor.shape)
        else:
            shapes[name] = tuple(tensor.shape)
    return shapes


def build_generator(params: Mapping[str, Any], state: Mapping[str, Tensor], path: Path = Path("checkpoint")) -> HifiGan:
    """The network with a checkpoint's tensors, weight norm folded, frozen for inference.

    Args:
        params: Model.Generator.params of voc/config.yaml.
        state: float32 tensors by their published names; every name must fit, none may be left.
        path: Of the checkpoint, for messages.

    Returns:
        The network in eval mode, on the CPU.

    Raises:
        VoiceInvalid: Names or shapes differ from the configuration.
    """
    config = config_of(params)
    with torch.device("meta"):  # no time for random weights
        network = HifiGan(config)
    is_folded = not any(name.endswith((".weight_g", ".weight_v")) for name in state)
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    expected = shapes if is_folded else published_shapes(network)
    missing = sorted(expected.keys() - state.keys())
    unexpected = sorted(state.keys() - expected.keys())
    mismatched = [
        f"{name}: {list(tensor.shape)} in the file, {list(expected[name])} expected"
        for name, tensor in state.items()
        if name in expected and tuple(tensor.shape) != expected[name]
    ]
    if missing or unexpected or mismatched:
        raise explain_mismatch(path, missing, unexpected, mismatched)
    network.load_state_dict(fold_weight_norm(state), strict=True, assign=True)
    return network.requires_grad_(False).eval()


def load_generator(folder: VoiceFolder) -> HifiGan:
    """Reads a voice's generator.

    Args:
        folder: The voice.

    Returns:
        The network in eval mode, on the CPU.

    Raises:
        VoiceInvalid: The checkpoint cannot be read or does not fit its configuration; names the file.
    """
    state = read_tensors(folder.vocoder_checkpoint, "model", "generator")
    return build_generator(folder.vocoder_params, state, folder.vocoder_checkpoint)


def _key(key: str) -> str:
    return f"Model.Generator.params.{key} of voc/config.yaml"


def _integer(params: Mapping[str, Any], key: str) -> int:
    value = params.get(key)
    if type(value) is not int or value < 1:
        raise VoiceInvalid(f"{_key(key)} is {value!r}, not a positive whole number. Restore the file.", key)
    return value


def _integers(params: Mapping[str, Any], key: str, length: int | None = None) -> tuple[int, ...]:
    values = params.get(key)
    is_list = isinstance(values, list | tuple) and len(values) > 0
    if not is_list or not all(type(value) is int and value >= 1 for value in values or ()):
        raise VoiceInvalid(f"{_key(key)} is {values!r}, not a list of positive whole numbers. Restore the file.", key)
    numbers = tuple(values or ())
    if length is not None and len(numbers) != length:
        raise VoiceInvalid(f"{_key(key)} needs {length} numbers, has {len(numbers)}. Restore the file.", key)
    return numbers
