"""Windows that every runtime is compared and timed with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deployments.vocoder.backends.base import Backend
from deployments.vocoder.backends.eager import EagerBackend
from deployments.vocoder.hifigan import HifiGan


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Windows to compare and time runtimes with.

    Attributes:
        mel_BMF: Two windows; the second one ends early.
        mask_B1F: Of them.
        excitation_B1S: None for voices without a source.
        wave_BS: What eager torch makes of them in float32, zeros after the end.
    """

    mel_BMF: Tensor
    mask_B1F: Tensor
    excitation_B1S: Tensor | None
    wave_BS: Tensor

    def difference(self, backend: Backend) -> float:
        """The largest difference from eager torch; infinite where the wave is not finite."""
        audible_BS = self.mask_B1F[:, 0].repeat_interleave(self.wave_BS.shape[1] // self.mel_BMF.shape[2], dim=1)
        wave_BS = backend.run(self.mel_BMF, self.mask_B1F, self.excitation_B1S)
        largest = float(((wave_BS.to(self.wave_BS.device) - self.wave_BS) * audible_BS).abs().max())
        return largest if largest == largest else float("inf")


def probe_of(generator: HifiGan, frames: int, device: str) -> Probe:
    """Random windows through eager torch.

    Args:
        generator: On the device.
        frames: Length of the windows.
        device: Of torch.
    """
    draws = torch.Generator().manual_seed(0)
    end = max(1, frames * 2 // 3)
    mask_B1F = torch.ones(2, 1, frames)
    mask_B1F[1, :, end:] = 0.0
    mel_BMF = torch.randn(2, generator.config.in_channels, frames, generator=draws) * mask_B1F
    mel_BMF, mask_B1F = mel_BMF.to(device), mask_B1F.to(device)
    excitation_B1S = None
    with torch.inference_mode():
        if generator.config.num_harmonics:
            source = generator.source_module
            f0_BF = 100.0 + 200.0 * torch.rand(2, frames, generator=draws).to(device)
            zeros_B = torch.zeros(2, dtype=torch.int64, device=device)
            made_B1S = source(f0_BF, (f0_BF > 150.0).float(), source.phase_before(f0_BF)[:, :-1], zeros_B, zeros_B)
            excitation_B1S = made_B1S * mask_B1F.repeat_interleave(generator.config.hop_samples, dim=2)
        wave_BS = EagerBackend(generator, 2).run(mel_BMF, mask_B1F, excitation_B1S)
    return Probe(mel_BMF, mask_B1F, excitation_B1S, wave_BS)
