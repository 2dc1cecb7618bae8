"""OpenVINO: on x86 CPUs the fastest runtime measured.

Shapes may vary, but each new window length costs the compilation of its kernels once; the few fixed lengths make that a
matter of start-up.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from deployments.vocoder.plan import Convolution, Plan, waveform

if TYPE_CHECKING:
    from openvino import CompiledModel, Model

# Importing openvino reports usage over the network when this package, a dependency of it, can be imported.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "int8": "f32"}  # of what is not quantized


class OpenVinoOperations:
    """See plan.Operations; builds nodes of an OpenVINO model."""

    def __init__(self) -> None:
        from openvino import opset13

        self._op: Any = opset13

    def convolution(self, x: Any, layer: Convolution) -> Any:
        """See plan.Operations."""
        made = self._op.convolution(
            x, layer.weight_OIK, [layer.stride], [layer.pad_left], [layer.pad_right], [layer.dilation]
        )
        return self._op.add(made, layer.bias_O.reshape(1, -1, 1))

    def leaky_relu(self, x: Any, slope: float) -> Any:
        """See plan.Operations."""
        return self._op.prelu(x, np.array([slope], dtype=np.float32))

    def sin(self, x: Any) -> Any:
        """See plan.Operations."""
        return self._op.sin(x)

    def tanh(self, x: Any) -> Any:
        """See plan.Operations."""
        return self._op.tanh(x)

    def add(self, x: Any, y: Any) -> Any:
        """See plan.Operations."""
        return self._op.add(x, y)

    def multiply(self, x: Any, mask: Any) -> Any:
        """See plan.Operations."""
        return self._op.multiply(x, mask)

    def scale(self, x: Any, factor: float) -> Any:
        """See plan.Operations."""
        return self._op.multiply(x, np.float32(factor))

    def interleave(self, x: Any, scale: int, channels: int) -> Any:
        """See plan.Operations."""
        return self._op.depth_to_space(x, "blocks_first", scale)

    def repeat(self, mask: Any, scale: int) -> Any:
        """See plan.Operations."""
        tiled = self._op.tile(self._op.unsqueeze(mask, np.array(3)), np.array([1, 1, 1, scale]))
        return self._op.reshape(tiled, np.array([0, 1, -1]), special_zero=True)


def model_of(plan: Plan, operations: OpenVinoOperations) -> Model:
    """The plan as an OpenVINO model for any number and length of windows."""
    from openvino import Model, opset13

    inputs = [
        opset13.parameter([-1, plan.config.in_channels, -1], np.float32, "mel"),
        opset13.parameter([-1, 1, -1], np.float32, "mask"),
    ]
    if plan.config.num_harmonics:
        inputs.append(opset13.parameter([-1, 1, -1], np.float32, "excitation"))
    excitation = inputs[2] if plan.config.num_harmonics else None
    return Model([waveform(operations, plan, inputs[0], inputs[1], excitation)], inputs, "hifigan")


class OpenVinoBackend:
    """Runs the plan on the CPU, one window at a time: one keeps all threads busy.

    Args:
        plan: Of the generator.
        threads: CPU threads.
        precision: "float32", "int8", or where the CPU computes in them "bfloat16" or "float16".
        operations: Builds the model; by default in floating point.
    """

    name = "openvino"
    max_batch = 1
    lanes = 1
    any_length = False

    def __init__(self, plan: Plan, threads: int, precision: str, operations: OpenVinoOperations | None = None) -> None:
        from openvino import Core

        options = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": PRECISIONS[precision],
        }
        self._model: CompiledModel = Core().compile_model(
            model_of(plan, operations or OpenVinoOperations()), "CPU", options
        )
        self._of_thread = threading.local()

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        """See Backend."""
        if not hasattr(self._of_thread, "request"):
            self._of_thread.request = self._model.create_infer_request()
        request = self._of_thread.request
        inputs = [tensor for tensor in (mel_BMF, mask_B1F, excitation_B1S) if tensor is not None]
        waves = []
        for window in range(len(mel_BMF)):
            request.infer([tensor[window : window + 1].contiguous().numpy() for tensor in inputs])
            waves.append(torch.from_numpy(request.get_output_tensor(0).data[0, 0].copy()))
        return torch.stack(waves)
