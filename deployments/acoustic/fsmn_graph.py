"""Parts of graphs for onnxruntime that predictors and post-net share: FSMN layers and LSTMs.

Shapes: B batch, T tokens or frames, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deployments.acoustic.fsmn import FsmnFeedForward, MemoryBlock
from deployments.acoustic.onnx_graph import Graph


def add_projection(graph: Graph, x: str, layer: FsmnFeedForward) -> str:
    """[rows, in_width] to [rows, width]."""
    assert layer.w_1.bias is not None
    inner = graph("Relu", graph.linear(x, layer.w_1.weight[..., 0], layer.w_1.bias))
    return graph.linear(inner, layer.w_2.weight[..., 0])


def add_memory(graph: Graph, x: str, memory: MemoryBlock) -> str:
    """The weighting of the neighbourhood alone, without padding: [B, T + filter_size - 1, D] to [B, T, D].

    A two-dimensional convolution, since onnxruntime has a fast one of single channels only for that.
    """
    axis = graph.constant([3])
    channels = graph("Unsqueeze", graph("Transpose", x, perm=[0, 2, 1]), axis)
    weight = graph.constant(memory.conv_dw.weight[..., None])
    around = graph("Conv", channels, weight, group=memory.conv_dw.groups)
    return graph("Transpose", graph("Squeeze", around, axis), perm=[0, 2, 1])


def lstm_weights(lstm: nn.LSTM) -> tuple[Tensor, Tensor, Tensor]:
    """Of one layer with Z directions: weights of the inputs [Z, 4D, I] and of the state [Z, 4D, D], biases [Z, 8D]."""
    w_in, w_state, b_in, b_state = zip(*lstm.all_weights, strict=True)
    biases = [torch.cat([reordered(one), reordered(other)]) for one, other in zip(b_in, b_state, strict=True)]
    return torch.stack([*map(reordered, w_in)]), torch.stack([*map(reordered, w_state)]), torch.stack(biases)


def reordered(gates: Tensor) -> Tensor:
    """Rows of gates from torch's order input, forget, cell, output to input, output, forget, cell."""
    i, f, g, o = gates.chunk(4)
    return torch.cat([i, o, f, g])
