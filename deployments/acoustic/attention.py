"""Attention, feed-forward and positions, the blocks of Sambert's encoder and decoder.

Shapes: B batch, T tokens or steps, D width, E embedding width, H heads, K width of one head, C memory width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LAYER_NORM_EPS = 1e-6


def sinusoids(first: int, last: int, width: int) -> Tensor:
    """Position vectors: sines in the first half of the width, cosines in the second.

    Args:
        first: First position; positions count from 1.
        last: Last position, included.
        width: Width of a vector, even.

    Returns:
        float32 [last - first + 1, width], computed in float64.

    Source:
        Vaswani et al. 2017, section 3.5, in the layout of the published checkpoints.
    """
    half = width // 2
    rate = torch.exp(
        -torch.arange(half, dtype=torch.float64) * (torch.log(torch.tensor(10000.0).double()) / (half - 1))
    )
    angle = torch.arange(first, last + 1, dtype=torch.float64)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


def split_heads(x_BTD: Tensor, num_heads: int) -> Tensor:
    """[B, T, D] to [B, H, T, K]."""
    return x_BTD.view(*x_BTD.shape[:2], num_heads, -1).transpose(1, 2)


class PositionTable(nn.Module):
    """Position vectors, stored for the first positions and computed beyond.

    Args:
        num_positions: Rows of the stored table.
        width: Width of a vector.
    """

    def __init__(self, num_positions: int, width: int) -> None:
        super().__init__()
        self.position_enc = nn.Parameter(torch.empty(1, num_positions, width), requires_grad=False)

    def forward(self, num_tokens: int) -> Tensor:
        """Vectors of the positions 1 to num_tokens, [1, T, E]."""
        _, stored, width = self.position_enc.shape
        if num_tokens <= stored:
            return self.position_enc[:, :num_tokens]
        beyond = sinusoids(stored + 1, num_tokens, width).to(self.position_enc)
        return torch.cat([self.position_enc, beyond[None]], dim=1)


class SelfAttention(nn.Module):
    """Pre-norm multi-head self attention; the residual joins where the widths agree.

    Args:
        in_width: Width of the input.
        width: Width of queries, keys, values and output.
        num_heads: Heads; each has width / num_heads.

    Source:
        Vaswani et al. 2017, section 3.2.
    """

    def __init__(self, in_width: int, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.layer_norm = nn.LayerNorm(in_width, eps=LAYER_NORM_EPS)
        self.w_qkv = nn.Linear(in_width, 3 * width)
        self.fc = nn.Linear(width, width)

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Attends over the true tokens of each item.

        Args:
            x_BTD: [B, T, in_width].
            mask_BT: bool [B, T], True on true tokens.

        Returns:
            [B, T, width]; rows of pads hold no meaning.
        """
        qkv_BTD = self.w_qkv(self.layer_norm(x_BTD))
        q_BHTK, k_BHTK, v_BHTK = (split_heads(part, self.num_heads) for part in qkv_BTD.chunk(3, dim=2))
        attended_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, attn_mask=mask_BT[:, None, None, :])
        out_BTD: Tensor = self.fc(attended_BHTK.transpose(1, 2).flatten(2))
        return out_BTD + x_BTD if out_BTD.shape == x_BTD.shape else out_BTD


class FeedForward(nn.Module):
    """Pre-norm position-wise feed-forward of two convolutions, the first of which may look at its neighbours.

    Args:
        width: Width of input and output.
        inner_width: Width between.
        kernel_size: Of the first convolution, odd; the second one's is 1.

    Source:
        FastSpeech, Ren et al. 2019, section 3.1.
    """

    def __init__(self, width: int, inner_width: int, kernel_size: int) -> None:
        super().__init__()
        self.w_1 = nn.Conv1d(width, inner_width, kernel_size, padding=kernel_size // 2)
        self.w_2 = nn.Conv1d(inner_width, width, 1)
        self.layer_norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Adds the feed-forward to its input.

        Args:
            x_BTD: [B, T, width].
            mask_BT: bool [B, T], True on true tokens.

        Returns:
            [B, T, width]; rows of pads hold no meaning.
        """
        # The norm turns a zero row into its bias, so pads are zeroed after it: the convolution must not see them.
        normed_BTD = self.layer_norm(x_BTD).masked_fill(~mask_BT[..., None], 0.0)
        inner_BDT = self.w_1(normed_BTD.transpose(1, 2)).relu()
        out_BTD: Tensor = x_BTD + self.w_2(inner_BDT).transpose(1, 2)
        return out_BTD


class BandAttention(nn.Module):
    """Attention of a decoder step to a band of earlier steps and to a band of memory ahead, with the same queries.

    Args:
        width: Width of the decoder.
        memory_width: Width of the memory.
        num_heads: Heads.

    Source:
        RobuTrans, Li et al. 2020, and the pseudo non-causal attention of the published checkpoints.
    """

    def __init__(self, width: int, memory_width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.layer_norm = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.w_x_qkv = nn.Linear(width, 3 * width)
        self.fc_x = nn.Linear(width, width)
        self.w_h_kv = nn.Linear(memory_width, 2 * width)
        self.fc_h = nn.Linear(width, width)

    def forward(self, x_BTD: Tensor, memory_BTC: Tensor, band_width: int) -> Tensor:
        """All steps at once, as in training; the step decoder computes the same one step at a time.

        Args:
            x_BTD: [B, T, width], the steps so far.
            memory_BTC: [B, T' >= T, memory_width].
            band_width: Step t attends to the steps [t - w, t] and to the memory [t, t + w].

        Returns:
            [B, T, width].
        """
        num_steps, num_memory = x_BTD.shape[1], memory_BTC.shape[1]
        qkv_BTD = self.w_x_qkv(self.layer_norm(x_BTD))
        q, k_x, v_x = (split_heads(part, self.num_heads) for part in qkv_BTD.chunk(3, dim=2))
        k_h, v_h = (split_heads(part, self.num_heads) for part in self.w_h_kv(memory_BTC).chunk(2, dim=2))
        ahead = torch.arange(num_memory, device=x_BTD.device) - torch.arange(num_steps, device=x_BTD.device)[:, None]
        near_x = (ahead <= 0) & (ahead >= -band_width)
        near_h = (ahead >= 0) & (ahead <= band_width)
        out_x = F.scaled_dot_product_attention(q, k_x, v_x, attn_mask=near_x[:, :num_steps])
        out_h = F.scaled_dot_product_attention(q, k_h, v_h, attn_mask=near_h)
        joined: Tensor = self.fc_x(out_x.transpose(1, 2).flatten(2)) + self.fc_h(out_h.transpose(1, 2).flatten(2))
        return x_BTD + joined
