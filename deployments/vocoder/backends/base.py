"""What every runtime of the generator offers."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Backend(Protocol):
    """A generator ready to run. Safe to call from several threads.

    Attributes:
        name: As the setting vocoder.backend names it.
        max_batch: Windows that are worth running together; on a CPU one window keeps all threads busy.
        lanes: Runs that are worth making at the same time, each on a thread of the caller's.
        any_length: Whether a length not seen before costs nothing; else windows should have few lengths, and all come
            with a mask.
    """

    name: str
    max_batch: int
    lanes: int
    any_length: bool

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        """Makes the waveforms of windows of one length.

        Args:
            mel_BMF: float32, on the backend's device; zeros after the end of an utterance.
            mask_B1F: float32; 1 for frames of the utterance, 0 after its end; None where all windows are full.
            excitation_B1S: float32, zeros after the end; None for voices without a source.

        Returns:
            wave_BS, float32; what comes after the end of an utterance means nothing.
        """
