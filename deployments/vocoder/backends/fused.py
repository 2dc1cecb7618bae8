"""The plan of the generator in torch: what the traced and compiled runtimes are made from."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployments.vocoder.plan import Convolution, Plan, waveform


class TorchOperations(nn.Module):
    """See plan.Operations. Holds every layer's weights as buffers, so that they move and convert with the module."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._places: dict[int, int] = {}
        for layer in layers_of(plan):
            place = self._places[id(layer)] = len(self._places)
            self.register_buffer(f"weight_{place}", torch.from_numpy(layer.weight_OIK.copy()))
            self.register_buffer(f"bias_{place}", torch.from_numpy(layer.bias_O.copy()))

    def convolution(self, x: Tensor, layer: Convolution) -> Tensor:
        """See plan.Operations."""
        place = self._places[id(layer)]
        weight, bias = self.get_buffer(f"weight_{place}"), self.get_buffer(f"bias_{place}")
        both = min(layer.pad_left, layer.pad_right)
        if layer.pad_left != layer.pad_right:
            x = F.pad(x, (layer.pad_left - both, layer.pad_right - both))
        return F.conv1d(x, weight, bias, stride=layer.stride, padding=both, dilation=layer.dilation)

    def leaky_relu(self, x: Tensor, slope: float) -> Tensor:
        """See plan.Operations."""
        return F.leaky_relu(x, slope)

    def sin(self, x: Tensor) -> Tensor:
        """See plan.Operations."""
        return torch.sin(x)

    def tanh(self, x: Tensor) -> Tensor:
        """See plan.Operations."""
        return torch.tanh(x)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """See plan.Operations."""
        return x + y

    def multiply(self, x: Tensor, mask: Tensor) -> Tensor:
        """See plan.Operations."""
        return x * mask

    def scale(self, x: Tensor, factor: float) -> Tensor:
        """See plan.Operations."""
        return x * factor

    def interleave(self, x: Tensor, scale: int, channels: int) -> Tensor:
        """See plan.Operations."""
        return x.reshape(x.shape[0], scale, channels, x.shape[2]).permute(0, 2, 3, 1).flatten(2)

    def repeat(self, mask: Tensor, scale: int) -> Tensor:
        """See plan.Operations."""
        return mask[..., None].expand(-1, -1, -1, scale).flatten(2)


class FusedHifiGan(nn.Module):
    """The plan as a module.

    Args:
        plan: Of a generator.
        is_masked: Whether windows come with a mask.
    """

    def __init__(self, plan: Plan, *, is_masked: bool) -> None:
        super().__init__()
        self._plan = plan
        self._is_masked = is_masked
        self._operations = TorchOperations(plan)

    def forward(self, mel_BMF: Tensor, *others: Tensor) -> Tensor:
        """See plan.waveform; returns wave_BS.

        Args:
            mel_BMF: float32.
            others: mask_B1F where windows may be less than full, then excitation_B1S in voices with a source.
        """
        mask_B1F = others[0] if self._is_masked else None
        excitation_B1S = others[-1] if self._plan.config.num_harmonics else None
        return waveform(self._operations, self._plan, mel_BMF, mask_B1F, excitation_B1S).squeeze(1)


def layers_of(plan: Plan) -> list[Convolution]:
    """Every convolution of a plan, in order."""
    layers = [plan.first]
    for stage in plan.stages:
        layers += [stage.upsample, *([stage.source] if stage.source is not None else [])]
        layers += [layer for block in stage.blocks for pair in block for layer in pair]
    return [*layers, plan.last]


class TracedBackend:
    """The plan traced and frozen by TorchScript: constants folded, some operations fused, no Python between them.

    Args:
        plan: Of the generator.
        device: Of torch.
        precision: "float32", "bfloat16" or "float16".
        max_batch: See Backend.
        any_length: See Backend.
    """

    name = "torchscript"
    lanes = 1

    def __init__(self, plan: Plan, device: str, precision: str, max_batch: int, *, any_length: bool) -> None:
        self.max_batch = max_batch
        self.any_length = any_length
        self._dtype = dtype_of(precision)
        module = FusedHifiGan(plan, is_masked=not any_length).to(device, self._dtype).eval()
        with warnings.catch_warnings(), torch.no_grad():
            # torch calls TorchScript deprecated, but its successor needs a C++ compiler on the serving machine.
            warnings.simplefilter("ignore", DeprecationWarning)
            example = [tensor for tensor in example_inputs(plan, device, self._dtype) if tensor is not None]
            if any_length:
                del example[1]
            trace: Any = torch.jit.trace
            self._traced = torch.jit.freeze(trace(module, tuple(example), check_trace=False))

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        """See Backend."""
        with torch.inference_mode():
            return run_in(self._traced, self._dtype, mel_BMF, mask_B1F, excitation_B1S)


class CompiledBackend:
    """The plan through torch.compile, replayed as one CUDA graph per number and length of windows.

    Batches are filled up to the next power of two, so that few graphs exist.

    Args:
        plan: Of the generator.
        device: A CUDA device.
        precision: "float32", "bfloat16" or "float16".
        max_batch: See Backend.
    """

    name = "compile"
    lanes = 1
    any_length = False

    def __init__(self, plan: Plan, device: str, precision: str, max_batch: int) -> None:
        self.max_batch = max_batch
        self._dtype = dtype_of(precision)
        module = FusedHifiGan(plan, is_masked=True).to(device, self._dtype).eval()
        self._compiled: Any = torch.compile(module, mode="reduce-overhead", dynamic=True)
        # CUDA graphs belong to the memory pool of one run at a time.
        self._one_at_a_time = threading.Lock()

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        """See Backend."""
        batch = len(mel_BMF)
        missing = (1 << (batch - 1).bit_length()) - batch
        tensors = [tensor for tensor in (mel_BMF, mask_B1F, excitation_B1S) if tensor is not None]
        filled = [F.pad(tensor, (0, 0, 0, 0, 0, missing)) for tensor in tensors]
        with self._one_at_a_time, torch.inference_mode():
            # The next replay overwrites the output, hence the copy.
            return run_in(self._compiled, self._dtype, *filled)[:batch].clone()


def run_in(module: Any, dtype: torch.dtype, *inputs: Tensor | None) -> Tensor:
    """Runs a module in a precision, float32 outside."""
    wave_BS: Tensor = module(*(tensor.to(dtype) for tensor in inputs if tensor is not None))
    return wave_BS.float()


def dtype_of(precision: str) -> torch.dtype:
    """Torch's name of a precision."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]


def example_inputs(plan: Plan, device: str, dtype: torch.dtype, frames: int = 16) -> tuple[Tensor, ...]:
    """Inputs of the right shapes, for tracing."""
    mel_BMF = torch.zeros(1, plan.config.in_channels, frames, device=device, dtype=dtype)
    mask_B1F = torch.ones(1, 1, frames, device=device, dtype=dtype)
    if not plan.config.num_harmonics:
        return mel_BMF, mask_B1F
    return mel_BMF, mask_B1F, mel_BMF.new_zeros(1, 1, frames * plan.config.hop_samples)
