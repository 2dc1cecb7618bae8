"""The computations of the post-net as graphs for onnxruntime; see RunningPostNet.

Shapes: B batch, F frames of a call, M mel width, D width of a layer, I width of its input, K frames it keeps.
"""

from __future__ import annotations

from torch import Tensor

from deployments.acoustic.fsmn import FsmnFeedForward, MemoryBlock
from deployments.acoustic.fsmn_graph import add_memory, add_projection, lstm_weights
from deployments.acoustic.mel_decoder import PostNet
from deployments.acoustic.onnx_graph import Graph, run, session
from deployments.acoustic.running_postnet import layers_of


class PostNetGraphs:
    """PostNetKernels on the CPU.

    Args:
        postnet: The network's post-net.
        threads: CPU threads of one call.
    """

    def __init__(self, postnet: PostNet, threads: int) -> None:
        self._layers = [session(_layer_model(*layer), threads) for layer in layers_of(postnet)]
        self._lstm = session(_lstm_model(postnet), threads)

    def layer(self, index: int, x_BFI: Tensor, before_BKD: Tensor, inside_BF1: Tensor) -> tuple[Tensor, Tensor]:
        """See PostNetKernels."""
        joined_BFD, out_BFD = run(self._layers[index], x=x_BFI, before=before_BKD, inside=inside_BF1)
        return joined_BFD, out_BFD

    def lstm(
        self, x_BFD: Tensor, length_B: Tensor, hidden_BD: Tensor, cell_BD: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See PostNetKernels."""
        detail_BFM, hidden_1BD, cell_1BD = run(
            self._lstm, x=x_BFD, length=length_B.int(), hidden=hidden_BD[None], cell=cell_BD[None]
        )
        return detail_BFM, hidden_1BD[0], cell_1BD[0]


def _layer_model(feed_forward: FsmnFeedForward, memory: MemoryBlock) -> bytes:
    in_width, width = feed_forward.w_1.in_channels, feed_forward.w_2.out_channels
    inputs = {"x": ("B", "F", in_width), "before": ("B", "K", width), "inside": ("B", "F", 1)}
    graph = Graph("layer", inputs)
    batch, num = graph.sizes("x", 0, 1)
    projected = add_projection(graph, graph.reshape("x", -1, in_width), feed_forward)
    own = graph("Mul", graph.reshape(projected, batch, num, width), "inside")
    joined = graph("Concat", "before", own, axis=1)
    first, axis = graph.constant([0]), graph.constant([1])
    around = graph("Slice", add_memory(graph, joined, memory), first, num, axis)
    back = graph.constant([memory.padding[0]])
    centre = graph("Slice", joined, back, graph("Add", back, num), axis)
    return graph.model({"joined": joined, "out": graph("Add", around, centre)})


def _lstm_model(postnet: PostNet) -> bytes:
    lstm, hidden = postnet.lstm, postnet.lstm.hidden_size
    inputs: dict[str, tuple[int | str, ...]] = {"x": ("B", "F", lstm.input_size)}
    inputs |= {"hidden": (1, "B", hidden), "cell": (1, "B", hidden)}
    graph = Graph("lstm", inputs, {"length": ("B",)})
    batch, num = graph.sizes("x", 0, 1)
    weights = [graph.constant(weight) for weight in lstm_weights(lstm)]
    by_time = graph("Transpose", "x", perm=[1, 0, 2])
    run_F1BD, last, cell = graph.node(
        "LSTM", by_time, *weights, "length", "hidden", "cell", outputs=3, hidden_size=hidden
    )
    rows = graph.reshape(graph("Transpose", run_F1BD, perm=[2, 0, 1, 3]), -1, hidden)
    detail = graph.reshape(graph.linear(rows, postnet.fc.weight, postnet.fc.bias), batch, num, -1)
    return graph.model({"detail": detail, "last": last, "cell_after": cell})
