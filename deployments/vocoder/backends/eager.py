"""Plain torch: the network as it is written; what all other runtimes are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from deployments.vocoder.hifigan import HifiGan


class EagerBackend:
    """Runs the network itself; windows that are not full are cut to their utterance.

    Args:
        generator: On its device.
        max_batch: See Backend.
        any_length: See Backend; False makes windows of different utterances alike, so that they run together.
    """

    name = "torch"
    lanes = 1

    def __init__(self, generator: HifiGan, max_batch: int, *, any_length: bool) -> None:
        self._generator = generator
        self.max_batch = max_batch
        self.any_length = any_length

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        """See Backend."""
        if mask_B1F is None:
            mask_B1F = torch.ones_like(mel_BMF[:, :1])
        hop = self._generator.config.hop_samples
        frames_B = mask_B1F.sum(dim=(1, 2)).int()
        wave_BS = mel_BMF.new_zeros(len(mel_BMF), mel_BMF.shape[2] * hop)
        with torch.inference_mode():
            for frames in set(frames_B.tolist()):
                rows = torch.nonzero(frames_B == frames).flatten()
                source_B1S = None if excitation_B1S is None else excitation_B1S[rows, :, : frames * hop]
                wave_BS[rows, : frames * hop] = self._generator(mel_BMF[rows, :, :frames], source_B1S)
        return wave_BS
