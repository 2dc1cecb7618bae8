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

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from deployments.acoustic.fsmn import FsmnFeedForward, MemoryBlock
from deployments.acoustic.mel_decoder import PostNet


class _Layer:
    """One layer of the FSMN encoder: what it looks back on and how far it looks ahead."""

    def __init__(self, feed_forward: FsmnFeedForward, memory: MemoryBlock) -> None:
        self.project = feed_forward
        self.in_width, self.width = feed_forward.w_1.in_channels, feed_forward.w_2.out_channels
        self.back, ahead = memory.padding
        self.lag = max(0, ahead)
        self.kept = self.back + self.lag
        self._convolution = memory.conv_dw

    def remember(self, joined_BFD: Tensor, num: int) -> Tensor:
        """The memory block on [B, kept + num, D], which gives [B, num, D]."""
        around_BFD: Tensor = self._convolution(joined_BFD.transpose(1, 2)).transpose(1, 2)
        return around_BFD[:, :num] + joined_BFD[:, self.back :][:, :num]


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
    """

    def __init__(self, postnet: PostNet) -> None:
        self._postnet = postnet
        self._layers = [
            _Layer(feed_forward, memory)
            for feed_forward, memory in zip(postnet.fsmn.ffn_lst, postnet.fsmn.memory_block_lst, strict=True)
            if isinstance(feed_forward, FsmnFeedForward) and isinstance(memory, MemoryBlock)
        ]
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
            outside_BF1 = ((frame_BF < 0) | (frame_BF >= length_B1))[..., None].to(x_BFI.device)
            y_BFD = layer.project(x_BFI).masked_fill(outside_BF1, 0.0)
            inputs_BFI = torch.cat([torch.stack([state.inputs[index] for state in states]), x_BFI], dim=1)
            joined_BFD = torch.cat([torch.stack([state.projected[index] for state in states]), y_BFD], dim=1)
            for row, (state, mel_FM) in enumerate(zip(states, fed, strict=True)):
                state.inputs[index] = inputs_BFI[row, len(mel_FM) :][: layer.lag]
                state.projected[index] = joined_BFD[row, len(mel_FM) :][: layer.kept]
            out_BFD = layer.remember(joined_BFD, num)
            firsts = firsts - layer.lag
            x_BFI = out_BFD + inputs_BFI[:, :num] if layer.in_width == layer.width else out_BFD
        return x_BFI, firsts.tolist()

    def _detail(self, states: Sequence[PostNetState], encoded: Sequence[Tensor]) -> list[Tensor]:
        """The LSTM run on and its projection: [n, D] of each utterance to [n, M]."""
        lengths = torch.tensor([len(x_FD) for x_FD in encoded])
        packed = pack_padded_sequence(
            pad_sequence(list(encoded), batch_first=True), lengths, batch_first=True, enforce_sorted=False
        )
        hidden_1BD = torch.stack([state.hidden_D for state in states])[None]
        cell_1BD = torch.stack([state.cell_D for state in states])[None]
        run, (hidden_1BD, cell_1BD) = self._postnet.lstm(packed, (hidden_1BD, cell_1BD))
        for state, hidden_D, cell_D in zip(states, hidden_1BD[0], cell_1BD[0], strict=True):
            state.hidden_D, state.cell_D = hidden_D, cell_D
        detail_BFM = self._postnet.fc(pad_packed_sequence(run, batch_first=True)[0])
        return [detail_FM[:length] for detail_FM, length in zip(detail_BFM, lengths.tolist(), strict=True)]
