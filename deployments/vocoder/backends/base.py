"""What every runtime of the generator offers."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from deployments.vocoder.hifigan import HifiGan


class Backend(Protocol):
    """A generator ready to run. Safe to call from several threads."""

    name: str

    def run(self, mel_BMF: Tensor, excitation_B1S: Tensor | None) -> Tensor:
        """Makes the waveforms of windows of one length.

        Args:
            mel_BMF: float32, on the backend's device.
            excitation_B1S: float32, on the backend's device; None for voices without a source.

        Returns:
            wave_BS, float32.
        """


class EagerBackend:
    """Plain torch: any length, any device; what all others are compared with."""

    name = "torch"

    def __init__(self, generator: HifiGan) -> None:
        self._generator = generator

    def run(self, mel_BMF: Tensor, excitation_B1S: Tensor | None) -> Tensor:
        """See Backend."""
        with torch.inference_mode():
            return self._generator(mel_BMF, excitation_B1S)  # type: ignore[no-any-return]
