"""The HifiGan generator: mel spectrogram to waveform, causal or not, with or without a harmonic source (NSF).

Shapes: B batch, M mel bins, F frames, C channels, T time steps of the stage at hand, S samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deployments.vocoder.source import HarmonicSource

FINAL_SLOPE = 0.01  # of the last LeakyReLU; published checkpoints were trained with torch's default there


@dataclass(frozen=True, slots=True, kw_only=True)
class HifiGanConfig:
    """Sizes of a generator.

    Attributes:
        in_channels: Mel bins, without the two rows of an NSF voice.
        channels: Width after the first convolution; halves with each stage.
        kernel_size: Of the first and last convolution and of those after nearest upsampling; odd.
        upsample_scales: Samples made of one, per stage.
        upsample_kernel_sizes: Of the transposed convolutions, per stage.
        resblock_kernel_sizes: Of the parallel residual blocks of a stage; odd.
        resblock_dilations: Dilations of each of them.
        negative_slope: Of every LeakyReLU but the last.
        causal: Whether convolutions look back only.
        num_harmonics: Sines of the excitation, the fundamental included; 0 for a voice without one.
        sample_rate_hz: Of the waveform; the excitation's phase depends on it.
    """

    in_channels: int
    channels: int
    kernel_size: int
    upsample_scales: tuple[int, ...]
    upsample_kernel_sizes: tuple[int, ...]
    resblock_kernel_sizes: tuple[int, ...]
    resblock_dilations: tuple[tuple[int, ...], ...]
    negative_slope: float
    causal: bool
    num_harmonics: int = 0
    sample_rate_hz: int = 16_000

    @property
    def hop_samples(self) -> int:
        """Samples per frame."""
        return math.prod(self.upsample_scales)

    def source_scale(self, stage: int) -> int:
        """Samples per time step of a stage's output."""
        return math.prod(self.upsample_scales[stage + 1 :])


class Convolution(nn.Module):
    """A convolution that keeps the length: zeros on both sides, or on the left only when causal."""

    def __init__(self, c_in: int, c_out: int, kernel: int, *, dilation: int = 1, causal: bool = False) -> None:
        super().__init__()
        self.left_pad = (kernel - 1) * dilation if causal else 0
        same = 0 if causal else (kernel - 1) // 2 * dilation
        self.conv1d = nn.Conv1d(c_in, c_out, kernel, dilation=dilation, padding=same)

    def forward(self, x_BCT: Tensor) -> Tensor:
        """Same length as the input, other width."""
        return self.conv1d(F.pad(x_BCT, (self.left_pad, 0)) if self.left_pad else x_BCT)  # type: ignore[no-any-return]


class SourceConvolution(nn.Module):
    """Brings the excitation down to the rate of a stage."""

    def __init__(self, c_out: int, scale: int, *, causal: bool) -> None:
        super().__init__()
        kernel = 1 if scale == 1 else 2 * scale
        self.left_pad = kernel - 1 if causal else 0
        self.conv1d = nn.Conv1d(1, c_out, kernel, stride=scale, padding=0 if causal or scale == 1 else scale // 2)

    def forward(self, excitation_B1S: Tensor) -> Tensor:
        """One step per `scale` samples."""
        padded_B1S = F.pad(excitation_B1S, (self.left_pad, 0)) if self.left_pad else excitation_B1S
        return self.conv1d(padded_B1S)  # type: ignore[no-any-return]


class TransposedConvolution(nn.Module):
    """A transposed convolution that makes at least `scale` steps of one; the caller cuts what is over."""

    def __init__(self, c_in: int, c_out: int, kernel: int, scale: int, *, causal: bool) -> None:
        super().__init__()
        padding = 0 if causal else (kernel - scale) // 2
        self.deconv = nn.ConvTranspose1d(c_in, c_out, kernel, stride=scale, padding=padding)

    def forward(self, x_BCT: Tensor) -> Tensor:
        """At least `scale` steps per step of the input."""
        return self.deconv(x_BCT)  # type: ignore[no-any-return]


class ResidualBlock(nn.Module):
    """For each dilation: LeakyReLU, dilated convolution, LeakyReLU, plain convolution, added to the input."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...], slope: float, *, causal: bool) -> None:
        super().__init__()
        self.slope = slope
        self.convs1 = nn.ModuleList(
            Convolution(channels, channels, kernel, dilation=dilation, causal=causal) for dilation in dilations
        )
        self.convs2 = nn.ModuleList(Convolution(channels, channels, kernel, causal=causal) for _ in dilations)

    def forward(self, x_BCT: Tensor) -> Tensor:
        """Same shape as the input."""
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            x_BCT = x_BCT + plain(F.leaky_relu(dilated(F.leaky_relu(x_BCT, self.slope)), self.slope))
        return x_BCT


class HifiGan(nn.Module):
    """The generator. Attribute names are those of the published checkpoints, with weight norm already folded.

    Args:
        config: Sizes.

    Source: Kong et al. 2020, HiFi-GAN, section 2.2, with a nearest-upsampled path beside each transposed convolution
        and, in NSF voices, the source-filter excitation of Wang et al. 2019, section II.
    """

    def __init__(self, config: HifiGanConfig) -> None:
        super().__init__()
        self.config = config
        causal, slope, kernel = config.causal, config.negative_slope, config.kernel_size
        self.conv_pre = Convolution(config.in_channels, config.channels, kernel, causal=causal)
        self.transpose_upsamples = nn.ModuleList()
        self.repeat_upsamples = nn.ModuleList()
        self.conv_blocks = nn.ModuleList()
        if config.num_harmonics:
            self.source_module = HarmonicSource(config.num_harmonics, config.sample_rate_hz, config.hop_samples)
            self.source_downs = nn.ModuleList()
        width = config.channels
        for stage, scale in enumerate(config.upsample_scales):
            c_in, width = width, width // 2
            up_kernel = config.upsample_kernel_sizes[stage]
            self.transpose_upsamples.append(
                nn.Sequential(nn.LeakyReLU(slope), TransposedConvolution(c_in, width, up_kernel, scale, causal=causal))
            )
            self.repeat_upsamples.append(
                nn.Sequential(
                    nn.Upsample(scale_factor=scale, mode="nearest"),
                    nn.LeakyReLU(slope),
                    Convolution(c_in, width, kernel, causal=causal),
                )
            )
            if config.num_harmonics:
                self.source_downs.append(SourceConvolution(width, config.source_scale(stage), causal=causal))
            for block_kernel, dilations in zip(config.resblock_kernel_sizes, config.resblock_dilations, strict=True):
                self.conv_blocks.append(ResidualBlock(width, block_kernel, dilations, slope, causal=causal))
        self.conv_post = Convolution(width, 1, kernel, causal=causal)

    def forward(self, mel_BMF: Tensor, excitation_B1S: Tensor | None = None) -> Tensor:
        """Makes the waveform of a piece whose both ends are taken for the ends of the utterance.

        Args:
            mel_BMF: Mel spectrogram, float32.
            excitation_B1S: From `source_module`, float32, S = F x hop; None for a voice without a source.

        Returns:
            wave_BS in [-1, 1].
        """
        num_blocks = len(self.config.resblock_kernel_sizes)
        x_BCT = self.conv_pre(mel_BMF)
        for stage, (repeat, transpose) in enumerate(zip(self.repeat_upsamples, self.transpose_upsamples, strict=True)):
            x_BCT = torch.sin(x_BCT) + x_BCT
            repeated_BCT = repeat(x_BCT)
            # A transposed convolution with an odd kernel excess, or a causal one, makes a few steps too many.
            x_BCT = repeated_BCT + transpose(x_BCT)[:, :, : repeated_BCT.shape[2]]
            if excitation_B1S is not None:
                x_BCT = x_BCT + self.source_downs[stage](excitation_B1S)
            blocks = self.conv_blocks[stage * num_blocks : (stage + 1) * num_blocks]
            summed_BCT = blocks[0](x_BCT)
            for block in blocks[1:]:
                summed_BCT = summed_BCT + block(x_BCT)
            x_BCT = summed_BCT / num_blocks
        return torch.tanh(self.conv_post(F.leaky_relu(x_BCT, FINAL_SLOPE))).squeeze(1)
