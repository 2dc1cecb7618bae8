"""Sambert's mel decoder and post-net.

Shapes: B batch, N decoder steps, D decoder width, C memory width, F frames, M mel width, r frames per step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deployments.acoustic.attention import LAYER_NORM_EPS, BandAttention, FeedForward
from deployments.acoustic.fsmn import FsmnEncoder
from deployments.acoustic.variance import Prenet


class DecoderBlock(nn.Module):
    """Band attention and feed-forward.

    Args:
        width: Width of the decoder.
        memory_width: Width of the memory.
        num_heads: Heads of the attention.
        inner_width: Inner width of the feed-forward.
    """

    def __init__(self, width: int, memory_width: int, num_heads: int, inner_width: int) -> None:
        super().__init__()
        self.pnca_attn = BandAttention(width, memory_width, num_heads)
        self.pos_ffn = FeedForward(width, inner_width, kernel_size=1)

    def forward(self, x_BND: Tensor, memory_BNC: Tensor, band_width: int) -> Tensor:
        """[B, N, D] to the same; see BandAttention."""
        x_BND = self.pnca_attn(x_BND, memory_BNC, band_width)
        out: Tensor = self.pos_ffn(x_BND, x_BND.new_ones(x_BND.shape[:2], dtype=torch.bool))
        return out


class BandDecoder(nn.Module):
    """Mel frames of one step from the steps before and the memory around it.

    Args:
        mel_width: Width of a frame.
        prenet_widths: Widths of the layers on the last frame of the step before.
        memory_width: Width of the memory.
        width: Width of the decoder.
        num_layers: Blocks.
        num_heads: Heads of the attention.
        inner_width: Inner width of the feed-forward.
        frames_per_step: r.
    """

    def __init__(
        self,
        mel_width: int,
        prenet_widths: tuple[int, ...],
        memory_width: int,
        width: int,
        num_layers: int,
        num_heads: int,
        inner_width: int,
        frames_per_step: int,
    ) -> None:
        super().__init__()
        self.mel_width = mel_width
        self.frames_per_step = frames_per_step
        self.prenet = Prenet(mel_width, prenet_widths, width)
        self.dec_in_proj = nn.Linear(memory_width + width, width)
        self.pnca = nn.ModuleList(DecoderBlock(width, memory_width, num_heads, inner_width) for _ in range(num_layers))
        self.ln = nn.LayerNorm(width, eps=LAYER_NORM_EPS)
        self.dec_out_proj = nn.Linear(width, frames_per_step * mel_width)

    def forward(self, memory_NC: Tensor, band_width: int) -> Tensor:
        """Decodes one utterance, the whole past anew at every step: short to read, slow to run.

        StepDecoder is the form that serves; the tests hold it to this one.

        Args:
            memory_NC: [N, C].
            band_width: w of this utterance.

        Returns:
            [N r, M], before the post-net.
        """
        num_steps = memory_NC.shape[0]
        memory_BNC = memory_NC[None]
        frames_BFM = memory_NC.new_zeros(1, 1, self.mel_width)  # the frame before the first
        for step in range(num_steps):
            last_BNM = frames_BFM[:, :: self.frames_per_step]
            x_BND = torch.cat([memory_BNC[:, : step + 1], self.prenet(last_BNM)], dim=2)
            x_BND = self.dec_in_proj(x_BND) * self.ln.normalized_shape[0] ** 0.5
            for block in self.pnca:
                x_BND = block(x_BND, memory_BNC, band_width)
            made_BFM = self.dec_out_proj(self.ln(x_BND[:, -1:])).view(1, self.frames_per_step, self.mel_width)
            frames_BFM = torch.cat([frames_BFM, made_BFM], dim=1)
        return frames_BFM[0, 1:]


class MelDecoder(nn.Module):
    """The decoder under the name it has in the checkpoints.

    Args:
        mel_dec: The decoder.
    """

    def __init__(self, mel_dec: BandDecoder) -> None:
        super().__init__()
        self.mel_dec = mel_dec

    def forward(self, memory_NC: Tensor, band_width: int) -> Tensor:
        """See BandDecoder.forward."""
        out: Tensor = self.mel_dec(memory_NC, band_width)
        return out


class PostNet(nn.Module):
    """Adds detail to the decoder's mel spectrogram; it looks a few frames ahead and runs on from the start.

    Args:
        mel_width: Width of a frame.
        inner_width: Inner width of the FSMN encoder.
        memory_width: Width of the FSMN encoder.
        num_layers: Its layers.
        filter_size: Of its memory blocks.
        shift: Of its memory blocks.
        lstm_width: Width of the LSTM.
    """

    def __init__(
        self,
        mel_width: int,
        inner_width: int,
        memory_width: int,
        num_layers: int,
        filter_size: int,
        shift: int,
        lstm_width: int,
    ) -> None:
        super().__init__()
        self.fsmn = FsmnEncoder(mel_width, inner_width, memory_width, num_layers, filter_size, shift)
        self.lstm = nn.LSTM(memory_width, lstm_width, batch_first=True)
        self.fc = nn.Linear(lstm_width, mel_width)

    def forward(self, mel_BFM: Tensor, num_frames_B: Tensor) -> Tensor:
        """Refines a padded batch.

        Args:
            mel_BFM: [B, F, M] of the decoder; what lies beyond an item's length is ignored.
            num_frames_B: int64 [B].

        Returns:
            [B, F, M]; rows beyond an item's length hold no meaning.
        """
        mask_BF = torch.arange(mel_BFM.shape[1], device=mel_BFM.device) < num_frames_B.to(mel_BFM.device)[:, None]
        mel_BFM = mel_BFM.masked_fill(~mask_BF[..., None], 0.0)
        run_BFD, _ = self.lstm(self.fsmn(mel_BFM, mask_BF))
        detail_BFM: Tensor = self.fc(run_BFD)
        return mel_BFM + detail_BFM
