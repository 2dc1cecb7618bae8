"""The post-net on utterances that are still being decoded: the numbers of the whole, a piece at a time.

Each memory block looks a few frames ahead, so what it gives lags behind what it is fed, and the next block's by as much
again. All rows of a call may be at different places: what is before an utterance's first frame or behind its last one
is computed like any other and masked.

Shapes: B batch, F frames of this call, M mel width, D width of a layer, I width of its input, A frames a layer lags,
K frames it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from deployments.acoustic.fsmn import FsmnFeedForward, MemoryBlock
from deployments.acoustic.mel_decoder import PostNet


class LayerReach:
    """One layer of the FSMN encoder: what it looks back on and how far it looks ahead.

    Args:
        feed_forward: Its projections.
        memory: Its memory block.

    Attributes:
        in_width: Width of its input.
        width: Width of its output.
        back: Frames before the one it works on.
        lag: Frames behind it.
        kept: Frames that it has to keep, of all that it was fed.
    """

    def __init__(self, feed_forward: FsmnFeedForward, memory: MemoryBlock) -> None:
        self.in_width, self.width = feed_forward.w_1.in_channels, feed_forward.w_2.out_channels
        self.back, ahead = memory.padding
        self.lag = max(0, ahead)
        self.kept = self.back + self.lag


class PostNetKernels(Protocol):
    """The computations of the post-net in some runtime; RunningPostNet does the rest."""

    def layer(self, index: int, x_BFI: Tensor, before_BKD: Tensor, inside_BF1: Tensor) -> tuple[Tensor, Tensor]:
        """One layer without the addition of its input.

        Args:
            index: Of the layer.
            x_BFI: [B, F, I], its next inputs.
            before_BKD: [B, K, D], what it keeps.
            inside_BF1: float32 [B, F, 1], 1 where the utterance is and 0 elsewhere.

        Returns:
            [B, K + F, D], what it keeps and what came to it; and [B, F, D], its output as many frames late as it lags.
        """

    def lstm(
        self, x_BFD: Tensor, length_B: Tensor, hidden_BD: Tensor, cell_BD: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The LSTM run on over length_B frames (int64, on the CPU, each at least 1), and its projection.

        Returns:
            [B, F, M]; hidden state and cell [B, D] after the last frame of each.
        """


class TorchKernels:
    """The computations in torch, on any device.

    Args:
        postnet: The network's post-net.
    """

    def __init__(self, postnet: PostNet) -> None:
        self._postnet = postnet
        self._layers = layers_of(postnet)

    def layer(self, index: int, x_BFI: Tensor, before_BKD: Tensor, inside_BF1: Tensor) -> tuple[Tensor, Tensor]:
        """See PostNetKernels."""
        feed_forward, memory = self._layers[index]
        num, back = x_BFI.shape[1], memory.padding[0]
        joined_BFD = torch.cat([before_BKD, feed_forward(x_BFI) * inside_BF1], dim=1)
        around_BFD = memory.conv_dw(joined_BFD.transpose(1, 2)).transpose(1, 2)
        return joined_BFD, around_BFD[:, :num] + joined_BFD[:, back : back + num]

    def lstm(
        self, x_BFD: Tensor, length_B: Tensor, hidden_BD: Tensor, cell_BD: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See PostNetKernels."""
        packed = pack_padded_sequence(x_BFD, length_B, batch_first=True, enforce_sorted=False)
        run, (hidden_1BD, cell_1BD) = self._postnet.lstm(packed, (hidden_BD[None], cell_BD[None]))
        detail_BFM = self._postnet.fc(pad_packed_sequence(run, batch_first=True)[0])
        return detail_BFM, hidden_1BD[0], cell_1BD[0]


def layers_of(postnet: PostNet) -> list[tuple[FsmnFeedForward, MemoryBlock]]:
    """Projections and memory block of each layer of the FSMN encoder."""
    return [
        (feed_forward, memory)
        for feed_forward, memory in zip(postnet.fsmn.ffn_lst, postnet.fsmn.memory_block_lst, strict=True)
        if isinstance(feed_forward, FsmnFeedForward) and isinstance(memory, MemoryBlock)
    ]


@dataclass(slots=True, kw_only=True)
class PostNetState:
    """How far one utterance has come through the post-net.

    Attributes:
        num_frames: Its length.
        num_fed: Frames it was fed, the zeros behind its end included.
        before_AM: The last frames fed, as many as all layers lag together.
        inputs: [A, I] of each layer: its inputs that wait for what lies ahead of them.
        projected: [K, D] of each layer: what its memory block still looks back on.
        hidden_D: Of the LSTM.
        cell_D: Of the LSTM.
    """

    num_frames: int
    num_fed: int = 0
    before_AM: Tensor
    inputs: list[Tensor]
    projected: list[Tensor]
    hidden_D: Tensor
    cell_D: Tensor


class RunningPostNet:
    """Refines utterances piece by piece; holds weights only, so any number of threads share it.

    Args:
        postnet: The network's post-net.
        kernels: Its computations; None takes torch.
    """

    def __init__(self, postnet: PostNet, kernels: PostNetKernels | None = None) -> None:
        self._postnet = postnet
        self._kernels = kernels or TorchKernels(postnet)
        self._layers = [LayerReach(feed_forward, memory) for feed_forward, memory in layers_of(postnet)]
        self.lookahead = sum(layer.lag for layer in self._layers)

    def start(self, num_frames: int) -> PostNetState:
        """The state of an utterance of so many frames before its first one."""
        weight, width = self._postnet.fc.weight, self._postnet.lstm.hidden_size
        return PostNetState(
            num_frames=num_frames,
            before_AM=weight.new_zeros(self.lookahead, self._postnet.fc.out_features),
            inputs=[weight.new_zeros(layer.lag, layer.in_width) for layer in self._layers],
            projected=[weight.new_zeros(layer.kept, layer.width) for layer in self._layers],
            hidden_D=weight.new_zeros(width),
            cell_D=weight.new_zeros(width),
        )

    def advance(self, states: Sequence[PostNetState], new: Sequence[Tensor]) -> list[Tensor]:
        """Takes more frames of some utterances in.

        Args:
            states: Of the utterances, any at any place; they are moved on.
            new: [n, M] of each, the decoder's next frames, n at least 1. With its last frame an utterance is finished.

        Returns:
            [m, M] of each, the next refined frames: all that do not depend on frames to come.
        """
        fed = [self._with_end(state, mel_FM) for state, mel_FM in zip(states, new, strict=True)]
        x_BFI, firsts = self._through_layers(states, fed)
        spans = []
        for state, mel_FM, first in zip(states, fed, firsts, strict=True):
            spans.append((max(0, -first), min(len(mel_FM), state.num_frames - first)))
            state.num_fed += len(mel_FM)
        refined = [mel_FM[:0] for mel_FM in fed]
        going = [row for row, (start, end) in enumerate(spans) if start < end]
        if going:
            details = self._detail([states[row] for row in going], [x_BFI[row, slice(*spans[row])] for row in going])
        for row, detail_FM in zip(going, details if going else (), strict=True):
            joined_FM = torch.cat([states[row].before_AM, fed[row]])
            refined[row] = joined_FM[slice(*spans[row])] + detail_FM
        for state, mel_FM in zip(states, fed, strict=True):
            state.before_AM = torch.cat([state.before_AM, mel_FM])[len(mel_FM) :]
        return refined

    def _with_end(self, state: PostNetState, mel_FM: Tensor) -> Tensor:
        """The frames, with zeros behind the last one for as long as the layers look ahead."""
        is_last = state.num_fed + len(mel_FM) >= state.num_frames
        return F.pad(mel_FM, (0, 0, 0, self.lookahead)) if is_last else mel_FM

    def _through_layers(self, states: Sequence[PostNetState], fed: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
        """The FSMN encoder's output [B, F, D] and the number of its first frame for each row, less than 0 before 0."""
        x_BFI = pad_sequence(list(fed), batch_first=True)
        num = x_BFI.shape[1]
        firsts = torch.tensor([state.num_fed for state in states])
        length_B1 = torch.tensor([[state.num_frames] for state in states])
        for index, layer in enumerate(self._layers):
            frame_BF = firsts[:, None] + torch.arange(num)
            inside_BF1 = ((frame_BF >= 0) & (frame_BF < length_B1))[..., None].to(x_BFI)
            before_BKD = torch.stack([state.projected[index] for state in states])
            joined_BFD, out_BFD = self._kernels.layer(index, x_BFI, before_BKD, inside_BF1)
            inputs_BFI = torch.cat([torch.stack([state.inputs[index] for state in states]), x_BFI], dim=1)
            for row, (state, mel_FM) in enumerate(zip(states, fed, strict=True)):
                state.inputs[index] = inputs_BFI[row, len(mel_FM) :][: layer.lag]
                state.projected[index] = joined_BFD[row, len(mel_FM) :][: layer.kept]
            firsts = firsts - layer.lag
            x_BFI = out_BFD + inputs_BFI[:, :num] if layer.in_width == layer.width else out_BFD
        return x_BFI, firsts.tolist()

    def _detail(self, states: Sequence[PostNetState], encoded: Sequence[Tensor]) -> list[Tensor]:
        """The LSTM run on and its projection: [n, D] of each utterance to [n, M]."""
        lengths = [len(x_FD) for x_FD in encoded]
        detail_BFM, hidden_BD, cell_BD = self._kernels.lstm(
            pad_sequence(list(encoded), batch_first=True),
            torch.tensor(lengths),
            torch.stack([state.hidden_D for state in states]),
            torch.stack([state.cell_D for state in states]),
        )
        for state, hidden_D, cell_D in zip(states, hidden_BD, cell_BD, strict=True):
            state.hidden_D, state.cell_D = hidden_D, cell_D
        return [detail_FM[:length] for detail_FM, length in zip(detail_BFM, lengths, strict=True)]
