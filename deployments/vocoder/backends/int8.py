"""8 bit integers for OpenVINO: what each convolution reads and its weights, rounded to 256 steps.

Sums stay exact in 32 bits; the first and last convolution and the excitation stay float32, as the ear is most sensitive
to them and they cost little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from deployments.vocoder.backends.fused import TorchOperations
from deployments.vocoder.backends.openvino import OpenVinoOperations
from deployments.vocoder.plan import Convolution, Plan, waveform

STEPS_SIGNED = 255  # weights: symmetric, without -128
STEPS = 256


class RangeRecorder(TorchOperations):
    """Runs the plan and notes the largest value that each convolution reads."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.largest: dict[int, float] = {}

    def convolution(self, x: Tensor, layer: Convolution) -> Tensor:
        """See plan.Operations."""
        self.largest[id(layer)] = max(self.largest.get(id(layer), 0.0), float(x.abs().max()))
        return super().convolution(x, layer)


class QuantizedOperations(OpenVinoOperations):
    """See plan.Operations.

    Args:
        largest: Of RangeRecorder.
        exact: Layers that stay float32, by id.
    """

    def __init__(self, largest: dict[int, float], exact: set[int]) -> None:
        super().__init__()
        self._largest = largest
        self._exact = exact

    def convolution(self, x: Any, layer: Convolution) -> Any:
        """See plan.Operations."""
        if id(layer) in self._exact:
            return super().convolution(x, layer)
        end = np.float32(self._largest[id(layer)])
        rounded = self._op.fake_quantize(x, -end, end, -end, end, STEPS)
        weight_end = np.abs(layer.weight_OIK).max(axis=(1, 2), keepdims=True) + np.float32(1e-12)
        weight = self._op.fake_quantize(
            self._op.constant(layer.weight_OIK), -weight_end, weight_end, -weight_end, weight_end, STEPS_SIGNED
        )
        made = self._op.convolution(
            rounded, weight, [layer.stride], [layer.pad_left], [layer.pad_right], [layer.dilation]
        )
        return self._op.add(made, layer.bias_O.reshape(1, -1, 1))


def quantized_operations(plan: Plan, mel_BMF: Tensor, excitation_B1S: Tensor | None) -> QuantizedOperations:
    """Measures the ranges of a plan on an example.

    Args:
        plan: Of the generator.
        mel_BMF: Like those to come.
        excitation_B1S: Its excitation, None for voices without a source.
    """
    recorder = RangeRecorder(plan)
    with torch.inference_mode():
        waveform(recorder, plan, mel_BMF, torch.ones_like(mel_BMF[:, :1]), excitation_B1S)
    exact = {id(plan.first), id(plan.last), *(id(stage.source) for stage in plan.stages)}
    return QuantizedOperations(recorder.largest, exact)
