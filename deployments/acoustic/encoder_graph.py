"""Sambert's linguistic encoder as a graph for onnxruntime: the same numbers in half the time on a CPU.

Shapes: B batch, T tokens, E embedding width, D width, H heads, K width of one head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deployments.acoustic.attention import LAYER_NORM_EPS, FeedForward, SelfAttention
from deployments.acoustic.encoder import EncoderBlock, LinguisticEncoder
from deployments.acoustic.onnx_graph import Graph, run, session

NEVER = float("-inf")


class LinguisticEncoderGraph(nn.Module):
    """Takes the place of a LinguisticEncoder on the CPU.

    Args:
        encoder: The network's encoder.
        threads: CPU threads of one call.
    """

    def __init__(self, encoder: LinguisticEncoder, threads: int) -> None:
        super().__init__()
        self._scale = encoder.scale
        self._positions = encoder.position_enc
        self._session = session(_model(encoder), threads)

    def forward(self, x_BTE: Tensor, mask_BT: Tensor) -> Tensor:
        """[B, T, E] to [B, T, D]; rows of pads hold no meaning."""
        x_BTE = x_BTE * self._scale + self._positions(x_BTE.shape[1])
        bias_B11T = torch.zeros(mask_BT.shape).masked_fill_(~mask_BT, NEVER)[:, None, None]
        return run(self._session, x=x_BTE, mask=mask_BT[..., None].float(), bias=bias_B11T)[0]


class _Blocks:
    """Adds blocks to a graph; rows of all items lie one after another."""

    def __init__(self, graph: Graph, width: int) -> None:
        self._graph = graph
        self._width = width
        self._batch, self._length = graph.sizes("x", 0, 1)
        self._first = graph.constant([0])

    def norm(self, x: str, norm: nn.LayerNorm) -> str:
        graph = self._graph
        scale, offset = graph.constant(norm.weight), graph.constant(norm.bias)
        return graph("LayerNormalization", x, scale, offset, axis=-1, epsilon=LAYER_NORM_EPS)

    def by_item(self, x: str, *sizes: int) -> str:
        """[B T, ...] to [B, T, ...]."""
        return self._graph.reshape(x, self._batch, self._length, *sizes)

    def attend(self, x: str, attention: SelfAttention) -> str:
        """Self attention without its residual."""
        graph, heads = self._graph, attention.num_heads
        scale = torch.ones(3 * self._width)
        scale[: self._width] = (self._width // heads) ** -0.5
        weight, bias = attention.w_qkv.weight * scale[:, None], attention.w_qkv.bias * scale
        qkv = graph.linear(self.norm(x, attention.layer_norm), weight, bias)
        by_part = graph("Transpose", self.by_item(qkv, 3, heads, -1), perm=[2, 0, 3, 1, 4])
        parts = graph.node("Split", by_part, graph.constant([1, 1, 1]), outputs=3, axis=0)
        query, key, value = (graph("Squeeze", part, self._first) for part in parts)
        scores = graph("MatMul", query, graph("Transpose", key, perm=[0, 1, 3, 2]))
        weights = graph("Softmax", graph("Add", scores, "bias"), axis=-1)
        attended = graph("Transpose", graph("MatMul", weights, value), perm=[0, 2, 1, 3])
        return graph.linear(graph.reshape(attended, -1, self._width), attention.fc.weight, attention.fc.bias)

    def feed_forward(self, x: str, layer: FeedForward) -> str:
        """Feed-forward without its residual; its convolution is a product with each token beside its neighbours."""
        graph = self._graph
        (kernel,) = layer.w_1.kernel_size
        assert layer.w_1.bias is not None
        assert layer.w_2.bias is not None
        normed = graph("Mul", self.by_item(self.norm(x, layer.layer_norm), self._width), "mask")
        rim = graph.constant([0, kernel // 2, 0, 0, kernel // 2, 0])
        padded = graph("Pad", normed, rim)
        shifted = [
            graph("Slice", padded, graph.constant([first]), graph.constant([last]), graph.constant([1]))
            for first, last in ((tap, tap - kernel + 1 or 2**31 - 1) for tap in range(kernel))
        ]
        around = graph.reshape(graph("Concat", *shifted, axis=2), -1, kernel * self._width)
        weight = layer.w_1.weight.transpose(1, 2).flatten(1)
        inner = graph("Relu", graph.linear(around, weight, layer.w_1.bias))
        return graph.linear(inner, layer.w_2.weight[..., 0], layer.w_2.bias)


def _model(encoder: LinguisticEncoder) -> bytes:
    blocks = [block for block in encoder.fft if isinstance(block, EncoderBlock)]
    in_width, width = blocks[0].slf_attn.w_qkv.in_features, blocks[0].slf_attn.fc.out_features
    graph = Graph("encoder", {"x": ["B", "T", in_width], "mask": ["B", "T", 1], "bias": ["B", 1, 1, "T"]})
    add = _Blocks(graph, width)
    x = graph.reshape("x", -1, in_width)
    for block in blocks:
        attended = add.attend(x, block.slf_attn)
        x = graph("Add", x, attended) if block.slf_attn.w_qkv.in_features == width else attended
        x = graph("Add", x, add.feed_forward(x, block.pos_ffn))
    return graph.model({"encoded": add.by_item(add.norm(x, encoder.ln), width)})
