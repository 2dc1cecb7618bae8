"""The decoder step of FusedDecoder as a graph for onnxruntime: the same numbers in a third of the time on a CPU.

Shapes as in fused.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from deployments.acoustic.attention import LAYER_NORM_EPS
from deployments.acoustic.fused import FusedBlock, FusedDecoder, StepBuffers
from deployments.acoustic.onnx_graph import Binding, Graph, session


class StepGraph:
    """Makes decoder steps with onnxruntime; holds weights only, so threads may share it.

    Args:
        fused: The decoder, on the CPU.
        threads: CPU threads of one step.
    """

    def __init__(self, fused: FusedDecoder, threads: int) -> None:
        self._fused = fused
        self._session = session(_step_model(fused), threads)

    def bind(self, buffers: StepBuffers) -> Callable[[], None]:
        """What makes one step on these buffers."""
        inputs = {"before": buffers.before_BP, "memory": buffers.memory_BD, "bias": buffers.bias}
        outputs = {"out": buffers.out}
        for layer in range(self._fused.num_layers):
            for index, kind in enumerate(("keys", "values")):
                inputs[f"own_{kind}_{layer}"] = buffers.own[layer, index]
                inputs[f"ahead_{kind}_{layer}"] = buffers.ahead[layer, index]
            outputs[f"new_{layer}"] = buffers.new[layer]
        binding = Binding(self._session, inputs, outputs)
        made = buffers.out.numpy()

        def step() -> None:
            binding.run()
            # The graph's softmax takes no maximum off: torch tells what is out of its range from what is no number.
            if not np.isfinite(made).all():
                self._fused(buffers)

        return step


def _step_model(fused: FusedDecoder) -> bytes:
    """The graph. Axes: [W or V, B, D] for what lies in reach, [B, D] for the rest."""
    width, num_heads = fused.width, fused.num_heads
    inputs: dict[str, list[int | str]] = {
        "before": ["B", fused.start_P.shape[0]],
        "memory": ["B", width],
        "bias": ["V", "B", 2 * num_heads],
    }
    for layer in range(fused.num_layers):
        for kind in ("keys", "values"):
            inputs[f"own_{kind}_{layer}"] = ["W", "B", width]
            inputs[f"ahead_{kind}_{layer}"] = ["V", "B", width]
    graph = Graph("decoder step", inputs)
    attention = _BandAttention(graph, width, num_heads)
    normed = _Norm(graph, width)
    hidden = graph("Relu", "before")
    for linear in fused.prenet:
        assert isinstance(linear, torch.nn.Linear)
        hidden = graph("Relu", graph.linear(hidden, linear.weight, linear.bias))
    x = graph("Gemm", hidden, graph.constant(fused.w_in.t()), "memory")
    outputs: dict[str, str] = {}
    for index, block in enumerate(fused.blocks):
        assert isinstance(block, FusedBlock)
        attended, outputs[f"new_{index}"] = attention(graph.linear(normed(x), block.w_qkv, block.b_qkv), index)
        x = graph("Add", x, graph.linear(attended, block.w_out, block.b_out))
        inner = graph("Relu", graph.linear(normed(x), block.w_1, block.b_1))
        x = graph("Add", x, graph.linear(inner, block.w_2, block.b_2))
    outputs["out"] = graph.linear(normed(x), fused.w_out, fused.b_out)
    return graph.model(outputs)


class _Norm:
    """LayerNorm without scale and offset, which the layer behind it has taken in."""

    def __init__(self, graph: Graph, width: int) -> None:
        self._graph = graph
        self._scale, self._offset = graph.constant(torch.ones(width)), graph.constant(torch.zeros(width))

    def __call__(self, x: str) -> str:
        return self._graph("LayerNormalization", x, self._scale, self._offset, axis=-1, epsilon=LAYER_NORM_EPS)


class _BandAttention:
    """Attention over what is in reach, in the operators that are fast on few columns.

    Sums over the width of a head, and their spreading, are products with a matrix of ones; sums over columns are a
    product with a row of ones. onnxruntime's own softmax and sum along the first axis take ten times as long.
    """

    def __init__(self, graph: Graph, width: int, num_heads: int) -> None:
        self._graph = graph
        heads = torch.eye(2 * num_heads).repeat_interleave(width // num_heads, dim=0)
        self._sum_heads, self._spread_heads = graph.constant(heads), graph.constant(heads.t())
        self._first = graph.constant([0])
        self._split = graph.constant([width] * 3)
        self._by_column, self._by_row = graph.constant([0, -1]), graph.constant([-1, 2 * width])
        ones = graph("Concat", graph.constant([1]), *graph.sizes("bias", 0), axis=0)
        self._sum_columns = graph("Expand", graph.constant(torch.ones(1, 1)), ones)

    def __call__(self, qkv: str, layer: int) -> tuple[str, str]:
        """Queries, keys and values [B, 3D] of a layer to what its heads attend to [B, 2D], and to [1, B, 3D]."""
        graph = self._graph
        new = graph("Unsqueeze", qkv, self._first)
        query, key, value = graph.node("Split", new, self._split, outputs=3, axis=2)
        keys = self._in_reach("keys", layer, key)
        values = self._in_reach("values", layer, value)
        twice = graph("Concat", query, query, axis=2)
        scores = graph("MatMul", graph("Mul", keys, twice), self._sum_heads)
        weights = graph("Exp", graph("Add", scores, "bias"))
        weights = graph("Div", weights, graph("ReduceSum", weights, self._first, keepdims=1))
        weighted = graph("Mul", graph("MatMul", weights, self._spread_heads), values)
        attended = graph("MatMul", self._sum_columns, graph("Reshape", weighted, self._by_column))
        return graph("Reshape", attended, self._by_row), new

    def _in_reach(self, kind: str, layer: int, own: str) -> str:
        """[V, B, 2D]: own steps, this one last, beside memory."""
        graph = self._graph
        return graph("Concat", graph("Concat", f"own_{kind}_{layer}", own, axis=0), f"ahead_{kind}_{layer}", axis=2)
