"""Sambert's predictors of pitch, energy and duration as graphs for onnxruntime.

Shapes: B batch, T tokens, Q width of text, speaker and emotion together, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deployments.acoustic.fsmn import FsmnFeedForward, MemoryBlock
from deployments.acoustic.fsmn_graph import add_memory, add_projection, lstm_weights, reordered
from deployments.acoustic.onnx_graph import Graph, run, session
from deployments.acoustic.variance import DurationPredictor, VariancePredictor


class VariancePredictorGraph(nn.Module):
    """Takes the place of a VariancePredictor on the CPU.

    Args:
        predictor: The network's predictor.
        threads: CPU threads of one call.
    """

    def __init__(self, predictor: VariancePredictor, threads: int) -> None:
        super().__init__()
        self.in_width = predictor.in_width
        self._session = session(_predictor_model(predictor), threads)

    def forward(self, z_BTQ: Tensor, mask_BT: Tensor, length_B: Tensor) -> Tensor:
        """[B, T, Q] to [B, T], 0 on pads."""
        out_BT = run(self._session, z=z_BTQ, mask=mask_BT[..., None].float(), length=length_B.int())[0]
        return out_BT.masked_fill(~mask_BT, 0.0)


class DurationPredictorGraph(nn.Module):
    """Takes the place of a DurationPredictor on the CPU.

    Args:
        predictor: The network's predictor.
        threads: CPU threads of one call.
    """

    def __init__(self, predictor: DurationPredictor, threads: int) -> None:
        super().__init__()
        self._session = session(_duration_model(predictor), threads)

    def forward(self, z_BTQ: Tensor, mask_BT: Tensor) -> Tensor:
        """[B, T, Q] to [B, T], at least 0, and 0 on pads."""
        return run(self._session, z=z_BTQ)[0].masked_fill(~mask_BT, 0.0)


def _predictor_model(predictor: VariancePredictor) -> bytes:
    layers = list(zip(predictor.fsmn.ffn_lst, predictor.fsmn.memory_block_lst, strict=True))
    first = layers[0][0]
    assert isinstance(first, FsmnFeedForward)
    width = first.w_1.in_channels
    graph = Graph("predictor", {"z": ["B", "T", width], "mask": ["B", "T", 1]}, {"length": ["B"]})
    batch, length = graph.sizes("z", 0, 1)
    x = "z"
    for feed_forward, memory in layers:
        assert isinstance(feed_forward, FsmnFeedForward)
        assert isinstance(memory, MemoryBlock)
        projected = add_projection(graph, graph.reshape(x, -1, width), feed_forward)
        out_width = feed_forward.w_2.out_channels
        own = graph("Mul", graph.reshape(projected, batch, length, out_width), "mask")
        back, ahead = memory.padding
        padded = graph("Pad", own, graph.constant([0, back, 0, 0, ahead, 0]))
        out = graph("Mul", graph("Add", add_memory(graph, padded, memory), own), "mask")
        x = graph("Add", out, x) if out_width == width else out
        width = out_width
    weights = [graph.constant(weight) for weight in lstm_weights(predictor.blstm)]
    by_time = graph("Transpose", x, perm=[1, 0, 2])
    hidden = predictor.blstm.hidden_size
    run_T2BD = graph("LSTM", by_time, *weights, "length", direction="bidirectional", hidden_size=hidden)
    rows = graph.reshape(graph("Transpose", run_T2BD, perm=[2, 0, 1, 3]), -1, 2 * hidden)
    out = graph.linear(rows, predictor.fc.weight, predictor.fc.bias)
    return graph.model({"out": graph.reshape(out, batch, length)})


def _duration_model(predictor: DurationPredictor) -> bytes:
    lstm = predictor.lstm
    (in_0, state_0, b_in_0, b_state_0), (in_1, state_1, b_in_1, b_state_1) = lstm.all_weights
    linears = [layer for layer in predictor.prenet.fcs if isinstance(layer, nn.Linear)]
    prenet_width, width = linears[-1].out_features, lstm.hidden_size
    in_width = lstm.input_size - prenet_width
    widths = {"h_0": width, "c_0": width, "h_1": width, "c_1": width, "out": 1, "gates": 4 * width}
    body = Graph("token", {name: ("B", number) for name, number in widths.items()})
    x = "out"
    for linear in linears:
        x = body("Relu", body.linear(x, linear.weight, linear.bias))
    weight = body.constant(reordered(torch.cat([in_0[:, :prenet_width], state_0], dim=1)).t())
    h_0, c_0 = _add_cell(body, body("Gemm", body("Concat", x, "h_0", axis=1), weight, "gates"), "c_0", width)
    joined = body("Concat", h_0, "h_1", axis=1)
    gates = body.linear(joined, reordered(torch.cat([in_1, state_1], dim=1)), reordered(b_in_1 + b_state_1))
    h_1, c_1 = _add_cell(body, gates, "c_1", width)
    out = body("Relu", body.linear(h_1, predictor.fc.weight, predictor.fc.bias))

    graph = Graph("duration", {"z": ["B", "T", in_width]})
    batch, length = graph.sizes("z", 0, 1)
    # The part of the first layer's gates that does not depend on the fed-back value, for all tokens at once.
    rows = graph.reshape(graph("Transpose", "z", perm=[1, 0, 2]), -1, in_width)
    gates = graph.linear(rows, reordered(in_0[:, prenet_width:]), reordered(b_in_0 + b_state_0))
    gates_TBD = graph.reshape(gates, length, batch, 4 * width)
    zero = graph.constant(torch.zeros(1, 1))
    start = graph("Expand", zero, graph("Concat", batch, graph.constant([width]), axis=0))
    start_out = graph("Expand", zero, graph("Concat", batch, graph.constant([1]), axis=0))
    following = {"h_0": h_0, "c_0": c_0, "h_1": h_1, "c_1": c_1}
    carried = {name: (start, value) for name, value in following.items()} | {"out": (start_out, out)}
    out_TB1 = graph.scan(body, carried, {"gates": gates_TBD}, out)
    return graph.model({"out": graph("Transpose", graph("Squeeze", out_TB1, graph.constant([2])), perm=[1, 0])})


def _add_cell(graph: Graph, gates: str, cell: str, width: int) -> tuple[str, str]:
    """One LSTM step from its gates [B, 4D] in the order of reordered(): hidden state and cell."""
    open_gates, candidate = graph.node("Split", gates, graph.constant([3 * width, width]), outputs=2, axis=1)
    sigmoids = graph("Sigmoid", open_gates)
    i, o, f = graph.node("Split", sigmoids, graph.constant([width] * 3), outputs=3, axis=1)
    cell = graph("Add", graph("Mul", f, cell), graph("Mul", i, graph("Tanh", candidate)))
    return graph("Mul", o, graph("Tanh", cell)), cell
