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
        end: Frames of the second one.
        excitation_B1S: None for voices without a source.
        wave_BS: What eager torch makes of them in float32, zeros after the end.
    """

    mel_BMF: Tensor
    mask_B1F: Tensor
    end: int
    excitation_B1S: Tensor | None
    wave_BS: Tensor

    def difference(self, backend: Backend) -> float:
        """The largest difference from eager torch; infinite where the wave is not finite."""
        hop = self.wave_BS.shape[1] // self.mel_BMF.shape[2]
        if backend.any_length:
            lengths = (self.mel_BMF.shape[2], self.end)
            waves = [self._alone(backend, row, length, hop) for row, length in enumerate(lengths)]
        else:
            wave_BS = backend.run(self.mel_BMF, self.mask_B1F, self.excitation_B1S)
            waves = [wave_BS[0], wave_BS[1, : self.end * hop]]
        pairs = zip(waves, self.wave_BS, strict=True)
        largest = max(
            float((wave_S.to(right_S.device) - right_S[: len(wave_S)]).abs().max()) for wave_S, right_S in pairs
        )
        return largest if all(bool(torch.isfinite(wave_S).all()) for wave_S in waves) else float("inf")

    def _alone(self, backend: Backend, row: int, length: int, hop: int) -> Tensor:
        excitation_B1S = self.excitation_B1S
        if excitation_B1S is not None:
            excitation_B1S = excitation_B1S[row : row + 1, :, : length * hop]
        return backend.run(self.mel_BMF[row : row + 1, :, :length], None, excitation_B1S)[0]


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
        wave_BS = EagerBackend(generator, 2, any_length=False).run(mel_BMF, mask_B1F, excitation_B1S)
    return Probe(mel_BMF, mask_B1F, end, excitation_B1S, wave_BS)
