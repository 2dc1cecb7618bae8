"""onnxruntime: CPU, CUDA and TensorRT from one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deployments.vocoder.plan import Convolution, Plan, waveform

OPSET = 20  # of every operator below; understood by onnxruntime 1.17 and later
IR_VERSION = 9


class OnnxOperations:
    """See plan.Operations; collects nodes of an ONNX graph. Values are names of [B, C, 1, T].

    The axis of 1 makes onnxruntime keep the channels of most layers in blocks, as it does for images only.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def _constant(self, array: NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def convolution(self, x: str, layer: Convolution) -> str:
        """See plan.Operations."""
        return self._node(
            "Conv",
            x,
            self._constant(layer.weight_OIK[:, :, None]),
            self._constant(layer.bias_O),
            dilations=[1, layer.dilation],
            strides=[1, layer.stride],
            pads=[0, layer.pad_left, 0, layer.pad_right],
        )

    def leaky_relu(self, x: str, slope: float) -> str:
        """See plan.Operations."""
        return self._node("LeakyRelu", x, alpha=slope)

    def sin(self, x: str) -> str:
        """See plan.Operations."""
        return self._node("Sin", x)

    def tanh(self, x: str) -> str:
        """See plan.Operations."""
        return self._node("Tanh", x)

    def add(self, x: str, y: str) -> str:
        """See plan.Operations."""
        return self._node("Add", x, y)

    def multiply(self, x: str, mask: str) -> str:
        """See plan.Operations."""
        return self._node("Mul", x, mask)

    def scale(self, x: str, factor: float) -> str:
        """See plan.Operations."""
        return self._node("Mul", x, self._constant(np.array(factor, dtype=np.float32)))

    def interleave(self, x: str, scale: int, channels: int) -> str:
        """See plan.Operations."""
        apart = self._node("Reshape", x, self._constant(np.array([0, scale, channels, -1])))
        moved = self._node("Transpose", apart, perm=[0, 2, 3, 1])
        return self._node("Reshape", moved, self._constant(np.array([0, channels, 1, -1])))

    def image(self, x: str) -> str:
        """[B, C, T] to [B, C, 1, T]."""
        return self._node("Unsqueeze", x, self._constant(np.array([2])))

    def flat(self, x: str) -> str:
        """[B, C, 1, T] to [B, C, T]."""
        return self._node("Squeeze", x, self._constant(np.array([2])))

    def repeat(self, mask: str, scale: int) -> str:
        """See plan.Operations."""
        tiled = self._node(
            "Tile",
            self._node("Unsqueeze", mask, self._constant(np.array([4]))),
            self._constant(np.array([1, 1, 1, 1, scale])),
        )
        return self._node("Reshape", tiled, self._constant(np.array([0, 1, 1, -1])))


def model_of(plan: Plan, *, is_masked: bool) -> bytes:
    """The plan as a serialised ONNX model for any number and length of windows, with or without a mask."""
    from onnx import TensorProto, helper

    operations = OnnxOperations()
    shapes: dict[str, list[str | int | None]] = {"mel": ["B", plan.config.in_channels, "F"]}
    if is_masked:
        shapes["mask"] = ["B", 1, "F"]
    if plan.config.num_harmonics:
        shapes["excitation"] = ["B", 1, "S"]
    images = {name: operations.image(name) for name in shapes}
    wave = operations.flat(waveform(operations, plan, images["mel"], images.get("mask"), images.get("excitation")))
    graph = helper.make_graph(
        operations.nodes,
        "hifigan",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(wave, TensorProto.FLOAT, ["B", 1, "S"])],
        operations.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialised: bytes = model.SerializeToString()
    return serialised


class OnnxRuntimeBackend:
    """Runs the plan with the first of the providers that the installed package and the device offer.

    Args:
        plan: Of the generator.
        device: Of torch.
        threads: CPU threads: as many lanes.
        precision: "float32", or with TensorRT "float16".
        lengths: Window lengths, for TensorRT's profile.
        max_batch: Windows per run on a GPU.
        engines: Folder for TensorRT's engines, which take minutes to build.
    """

    name = "onnxruntime"

    def __init__(
        self,
        plan: Plan,
        device: str,
        threads: int,
        precision: str,
        lengths: Sequence[int],
        max_batch: int,
        engines: Path,
    ) -> None:
        import onnxruntime

        self._device = torch.device(device)
        self.any_length = self._device.type == "cpu"
        self.max_batch = 1 if self.any_length else max_batch
        options = onnxruntime.SessionOptions()
        # On a CPU one thread per run and several runs at once take less time than several threads per run.
        self.lanes = threads if self.any_length else 1
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.enable_mem_pattern = not self.any_length  # one pattern is kept for each length that ever came
        # Threads that wait for work by spinning would take the cores from the other stages.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        available = set(onnxruntime.get_available_providers())
        wanted = providers_for(plan, device, precision, lengths, max_batch, engines)
        providers = [(name, settings) for name, settings in wanted if name in available]
        if not providers:
            raise RuntimeError(
                f"onnxruntime offers {', '.join(sorted(available))}; none of them fits {device}, {precision}"
            )
        self._session = onnxruntime.InferenceSession(
            model_of(plan, is_masked=not self.any_length), options, providers=providers
        )
        got = self._session.get_providers()[0]
        if got not in dict(providers):  # its libraries did not load, and onnxruntime went on without it
            raise RuntimeError(f"onnxruntime could not load {' or '.join(dict(providers))} and offers {got}")
        self._hop = plan.config.hop_samples

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        """See Backend."""
        named = {"mel": mel_BMF, "mask": mask_B1F, "excitation": excitation_B1S}
        # The binding holds addresses only, so contiguous copies must live until the run is over.
        inputs = {name: tensor.contiguous() for name, tensor in named.items() if tensor is not None}
        wave_B1S = mel_BMF.new_empty(len(mel_BMF), 1, mel_BMF.shape[2] * self._hop)
        binding = self._session.io_binding()
        for name, tensor in inputs.items():
            binding.bind_input(name, *self._place(tensor))
        binding.bind_output(self._session.get_outputs()[0].name, *self._place(wave_B1S))
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        self._session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return wave_B1S.squeeze(1)

    def _place(self, tensor: Tensor) -> tuple[str, int, Any, list[int], int]:
        return self._device.type, self._device.index or 0, np.float32, list(tensor.shape), tensor.data_ptr()


def providers_for(
    plan: Plan, device: str, precision: str, lengths: Sequence[int], max_batch: int, engines: Path
) -> list[tuple[str, dict[str, Any]]]:
    """Execution providers that fit, the best first, with their options.

    Returns:
        Names and options; empty where none computes in this precision on this device.
    """
    if torch.device(device).type == "cpu":
        return [("CPUExecutionProvider", {})] if precision == "float32" else []
    place = {"device_id": str(torch.device(device).index or 0)}
    shapes = {"min": (1, min(lengths)), "opt": (1, max(lengths)), "max": (max_batch, max(lengths))}
    tensorrt = {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(engines),
        "trt_fp16_enable": "1" if precision == "float16" else "0",
        **{f"trt_profile_{name}_shapes": _profile(plan, *shape) for name, shape in shapes.items()},
    }
    providers = [("TensorrtExecutionProvider", {**place, **tensorrt})] if precision in ("float32", "float16") else []
    if precision == "float32":
        # TensorFloat-32 would be off by more than the bound that float32 promises.
        providers.append(("CUDAExecutionProvider", {**place, "use_tf32": "0"}))
    return providers


def _profile(plan: Plan, batch: int, frames: int) -> str:
    shapes = [f"mel:{batch}x{plan.config.in_channels}x{frames}", f"mask:{batch}x1x{frames}"]
    if plan.config.num_harmonics:
        shapes.append(f"excitation:{batch}x1x{frames * plan.config.hop_samples}")
    return ",".join(shapes)
