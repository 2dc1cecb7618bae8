"""Sambert's text encoder.

Shapes: B batch, T tokens, E embedding width, D width, P text width.
"""

from __future__ import annotations

from torch import Tensor, nn

from deployments.acoustic.attention import LAYER_NORM_EPS, FeedForward, PositionTable, SelfAttention
from deployments.acoustic.sizes import SambertSizes


class EncoderBlock(nn.Module):
    """Self attention and feed-forward.

    Args:
        in_width: Width of the input.
        width: Width of the output.
        num_heads: Heads of the attention.
        inner_width: Inner width of the feed-forward.
    """

    def __init__(self, in_width: int, width: int, num_heads: int, inner_width: int) -> None:
        super().__init__()
        self.slf_attn = SelfAttention(in_width, width, num_heads)
        self.pos_ffn = FeedForward(width, inner_width, kernel_size=3)

    def forward(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """[B, T, in_width] to [B, T, width]; rows of pads hold no meaning."""
        out: Tensor = self.pos_ffn(self.slf_attn(x_BTD, mask_BT), mask_BT)
        return out


class LinguisticEncoder(nn.Module):
    """A stack of encoder blocks on embedded symbols with positions.

    Args:
        sizes: Of the network.
    """

    def __init__(self, sizes: SambertSizes) -> None:
        super().__init__()
        width = sizes.encoder_width
        self.scale = width**0.5
        self.position_enc = PositionTable(sizes.positions, sizes.embedding)
        self.fft = nn.ModuleList(
            EncoderBlock(sizes.embedding if index == 0 else width, width, sizes.encoder_heads, sizes.encoder_inner)
            for index in range(sizes.encoder_layers)
        )
        self.ln = nn.LayerNorm(width, eps=LAYER_NORM_EPS)

    def forward(self, x_BTE: Tensor, mask_BT: Tensor) -> Tensor:
        """[B, T, E] to [B, T, D]; rows of pads hold no meaning."""
        x_BTD = x_BTE * self.scale + self.position_enc(x_BTE.shape[1])
        for block in self.fft:
            x_BTD = block(x_BTD, mask_BT)
        out: Tensor = self.ln(x_BTD)
        return out


class TextEncoder(nn.Module):
    """Four embeddings in one sum, the linguistic encoder, a projection.

    Args:
        sizes: Of the network.
    """

    def __init__(self, sizes: SambertSizes) -> None:
        super().__init__()
        self.sy_emb = nn.Embedding(sizes.phones, sizes.embedding)
        self.tone_emb = nn.Embedding(sizes.tones, sizes.embedding)
        self.syllable_flag_emb = nn.Embedding(sizes.syllable_flags, sizes.embedding)
        self.ws_emb = nn.Embedding(sizes.word_segments, sizes.embedding)
        self.ling_enc: nn.Module = LinguisticEncoder(sizes)
        self.ling_proj = nn.Linear(sizes.encoder_width, sizes.text, bias=False)

    def forward(self, ling_BT4: Tensor, mask_BT: Tensor) -> Tensor:
        """[B, T, 4] indices (phone, tone, syllable flag, word segment) to [B, T, P]; pads hold no meaning."""
        phone, tone, syllable_flag, word_segment = ling_BT4.unbind(2)
        x_BTE = self.sy_emb(phone) + self.tone_emb(tone) + self.syllable_flag_emb(syllable_flag)
        text_BTP: Tensor = self.ling_proj(self.ling_enc(x_BTE + self.ws_emb(word_segment), mask_BT))
        return text_BTP
