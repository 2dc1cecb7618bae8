"""Graphs for onnxruntime written by hand: a node per call, and a session that runs on a set number of threads.

By hand, because an exporter writes two to three times the nodes that are needed, and each costs about a microsecond in
every decoder step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

OPSET = 18
IR_VERSION = 9
"""The oldest that has what the graphs use, so that any onnxruntime of the last years reads them."""


class Graph:
    """A graph under construction; values are their names.

    Args:
        name: Of the graph; the names of its values begin with it.
        inputs: Name to shape of each float32 input; names stand for sizes that vary.
        integers: The same for int32 inputs.
    """

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Sequence[int | str]],
        integers: Mapping[str, Sequence[int | str]] | None = None,
    ) -> None:
        self._name = name
        self._inputs = [_value(key, shape) for key, shape in inputs.items()]
        self._inputs += [_value(key, shape, TensorProto.INT32) for key, shape in (integers or {}).items()]
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, value: Tensor | NDArray[np.generic] | Sequence[int]) -> str:
        """A constant: a tensor, an array, or whole numbers as int64."""
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        name = f"{self._name} constant {len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """A node with any number of outputs, returned by name."""
        names = [f"{self._name} {operator} {len(self._nodes)} {index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.node(operator, *inputs, **attributes)[0]

    def linear(self, x: str, weight: Tensor, bias: Tensor | None = None) -> str:
        """A linear layer on [rows, width]; weight [outputs, inputs] as torch has it."""
        if bias is None:
            return self("MatMul", x, self.constant(weight.t()))
        return self("Gemm", x, self.constant(weight.t()), self.constant(bias))

    def sizes(self, value: str, *axes: int) -> list[str]:
        """Sizes of some axes of a value, each as a value of shape [1]."""
        shape = self("Shape", value)
        return [self("Gather", shape, self.constant([axis]), axis=0) for axis in axes]

    def reshape(self, value: str, *sizes: int | str) -> str:
        """Another shape; sizes as numbers (0 keeps, -1 is what is left) or as values of shape [1]."""
        if all(isinstance(size, int) for size in sizes):
            return self("Reshape", value, self.constant([size for size in sizes if isinstance(size, int)]))
        parts = [self.constant([size]) if isinstance(size, int) else size for size in sizes]
        return self("Reshape", value, self("Concat", *parts, axis=0))

    def scan(self, body: Graph, carried: Mapping[str, tuple[str, str]], scanned: Mapping[str, str], output: str) -> str:
        """Runs a graph for every step along the first axis of some values.

        Args:
            body: The graph of one step; its inputs are what is carried and then what is scanned.
            carried: Name of the body's input to its value before the first step, and the body's value that becomes the
                next step's.
            scanned: Name of the body's input to what it takes a step of at a time.
            output: A value of the body.

        Returns:
            The body's values of all steps, along a new first axis.
        """
        results = {f"{body._name} next {name}": value for name, (_, value) in carried.items()}
        graph = body._finish(results | {f"{body._name} output": output})
        names = [f"{self._name} Scan {len(self._nodes)} {index}" for index in range(len(carried) + 1)]
        values = [first for first, _ in carried.values()] + [*scanned.values()]
        self._nodes.append(helper.make_node("Scan", values, names, body=graph, num_scan_inputs=len(scanned)))
        return names[-1]

    def model(self, outputs: Mapping[str, str]) -> bytes:
        """The finished model.

        Args:
            outputs: Name of each output to the value it is.
        """
        model = helper.make_model(
            self._finish(outputs), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        serialized: bytes = model.SerializeToString()
        return serialized

    def _finish(self, outputs: Mapping[str, str]) -> onnx.GraphProto:
        # One value may be several outputs, and an output may be used inside: copies keep the names apart.
        copies = [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        results = [_value(name) for name in outputs]
        return helper.make_graph([*self._nodes, *copies], self._name, self._inputs, results, self._constants)


def _value(name: str, shape: Sequence[int | str] | None = None, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, None if shape is None else list(shape))


def session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    """A session on the CPU.

    Args:
        model: A serialized model.
        threads: CPU threads of one call, at least 1; the calling one counts.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that wait in a loop for work take the other stages' time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class Binding:
    """Tensors in the CPU's memory that a session reads and fills at every run.

    Args:
        session: The session.
        inputs: float32, contiguous, by name of the graph's inputs.
        outputs: The same by name of its outputs.
    """

    def __init__(
        self, session: onnxruntime.InferenceSession, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
    ) -> None:
        self._session = session
        self._tensors = (*inputs.values(), *outputs.values())  # they must live as long as their addresses are used
        self._binding = session.io_binding()
        for bind, tensors in ((self._binding.bind_input, inputs), (self._binding.bind_output, outputs)):
            for name, tensor in tensors.items():
                assert tensor.is_contiguous()
                assert tensor.dtype == torch.float32
                bind(name, "cpu", 0, np.float32, list(tensor.shape), tensor.data_ptr())

    def run(self) -> None:
        """One run of the session."""
        self._session.run_with_iobinding(self._binding)


def run(session: onnxruntime.InferenceSession, **inputs: Tensor) -> list[Tensor]:
    """One run on tensors in the CPU's memory; the outputs in order."""
    arrays = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    return [torch.from_numpy(array) for array in arrays]
