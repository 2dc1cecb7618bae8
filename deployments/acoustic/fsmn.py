"""The feed-forward sequential memory network of Sambert's predictors and post-net.

Shapes: B batch, T tokens or frames, D width.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class FsmnFeedForward(nn.Module):
    """Two projections with a ReLU between; kernel-1 convolutions in the checkpoints, linear here.

    Args:
        in_width: Width of the input.
        inner_width: Width between.
        width: Width of the output.
    """

    def __init__(self, in_width: int, inner_width: int, width: int) -> None:
        super().__init__()
        self.w_1 = nn.Conv1d(in_width, inner_width, 1)
        self.w_2 = nn.Conv1d(inner_width, width, 1, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        """[B, T, in_width] to [B, T, width]."""
        inner = F.linear(x_BTD, self.w_1.weight[..., 0], self.w_1.bias).relu()
        return F.linear(inner, self.w_2.weight[..., 0])


class MemoryBlock(nn.Module):
    """A learned weighting of the neighbourhood, per channel, added to its input.

    Args:
        width: Channels.
        filter_size: Width of the neighbourhood.
        shift: How far it is moved towards the past; what is ahead shrinks by as much.
    """

    def __init__(self, width: int, filter_size: int, shift: int) -> None:
        super().__init__()
        shift = max(shift, 0)
        self.padding = (round((filter_size - 1) / 2) + shift, (filter_size - 1) // 2 - shift)
        self.conv_dw = nn.Conv1d(width, width, filter_size, groups=width, bias=False)

    def forward(self, x_BTD: Tensor, pad_BT1: Tensor) -> Tensor:
        """[B, T, width] to the same; pads count as zeros and become zeros."""
        x_BTD = x_BTD.masked_fill(pad_BT1, 0.0)
        around_BTD = self.conv_dw(F.pad(x_BTD.transpose(1, 2), self.padding)).transpose(1, 2)
        out_BTD: Tensor = (around_BTD + x_BTD).masked_fill(pad_BT1, 0.0)
        return out_BTD


class FsmnEncoder(nn.Module):
    """Layers of projection and memory block; a layer's input is added where the widths agree.

    Args:
        in_width: Width of the input.
        inner_width: Inner width of the projections.
        width: Width of the output.
        num_layers: Layers.
        filter_size: Of the memory blocks.
        shift: Of the memory blocks.

    Source:
        Deep-FSMN, Zhang et al. 2018, section 2.
    """

    def __init__(
        self, in_width: int, inner_width: int, width: int, num_layers: int, filter_size: int, shift: int
    ) -> None:
        super().__init__()
        widths = [in_width] + [width] * (num_layers - 1)
        self.ffn_lst = nn.ModuleList(FsmnFeedForward(layer_in, inner_width, width) for layer_in in widths)
        self.memory_block_lst = nn.ModuleList(MemoryBlock(width, filter_size, shift) for _ in widths)

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Encodes a padded batch.

        Args:
            x_BTD: [B, T, in_width].
            mask_BT: bool [B, T], True where the item is.

        Returns:
            [B, T, width], zero on pads (where the last layer adds no unmasked input).
        """
        pad_BT1 = ~mask_BT[..., None]
        for feed_forward, memory in zip(self.ffn_lst, self.memory_block_lst, strict=True):
            out_BTD = memory(feed_forward(x_BTD), pad_BT1)
            x_BTD = out_BTD + x_BTD if out_BTD.shape == x_BTD.shape else out_BTD
        return x_BTD
