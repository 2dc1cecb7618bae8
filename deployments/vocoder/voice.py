"""One voice ready to be vocoded: network, windows and runtime, from checked mel spectrogram to samples.

Shapes: B batch, M mel bins, F frames, S samples, H harmonics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from deployments.errors import SynthesisFailed
from deployments.vocoder.backends.base import Backend
from deployments.vocoder.hifigan import HifiGan
from deployments.vocoder.source import signed
from deployments.vocoder.windows import Planner, Window
from deployments.voices.folder import VoiceFolder

F0_MINIMUM_HZ = 30.0
VOICING_THRESHOLD = 0.6
FULL_SCALE = 32767.0


@dataclass(frozen=True, slots=True)
class Pitch:
    """What the excitation of an utterance is made of.

    Attributes:
        f0_F: Hz, float32.
        voiced_F: 1 or 0, float32.
        phase_before_FH: float64, cycles; see HarmonicSource.phase_before.
        key: Key of the random draws, int64 bits.
    """

    f0_F: Tensor
    voiced_F: Tensor
    phase_before_FH: Tensor
    key: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """A checked mel spectrogram with what its windows need.

    Attributes:
        mel_MF: float32, without F0 and voicing.
        pitch: None for voices without a source.
        first_frame: Its first frame's place in the whole utterance; 0 but for streamed ones.
    """

    mel_MF: Tensor
    pitch: Pitch | None
    first_frame: int = 0

    @property
    def num_frames(self) -> int:
        """Frames of the utterance."""
        return self.mel_MF.shape[1]

    def span(self, window: Window) -> slice:
        """Where a window lies in the tensors."""
        start = window.start - self.first_frame
        return slice(start, start + window.length)


@dataclass(frozen=True, slots=True)
class VocoderVoice:
    """Everything that turns a voice's mel spectrograms into samples.

    Attributes:
        folder: Where it comes from; its scale and offset of F0 count.
        generator: The network, on `device`.
        planner: Cuts utterances into windows.
        backend: Runs windows.
        device: Of the tensors that go into the backend.
    """

    folder: VoiceFolder
    generator: HifiGan = field(repr=False)
    planner: Planner = field(repr=False)
    backend: Backend
    device: str

    @property
    def mel_width(self) -> int:
        """Columns of a mel spectrogram of this voice."""
        return self.generator.config.in_channels + (2 if self.generator.config.num_harmonics else 0)

    def utterance(self, mel_FM: NDArray[np.float32], noise_key: int) -> Utterance:
        """Checks a mel spectrogram and prepares it.

        Args:
            mel_FM: As in MelSpectrogram.
            noise_key: As in VocoderRequest.

        Raises:
            SynthesisFailed: It is empty, of another width, or holds values that are not finite.
        """
        return self.utterance_from(mel_FM, noise_key, None)[0]

    def utterance_from(
        self, mel_FM: NDArray[np.float32], noise_key: int, carried_H: Tensor | None
    ) -> tuple[Utterance, Tensor | None]:
        """Checks and prepares the next frames of a mel spectrogram.

        Args:
            mel_FM: As in MelSpectrogram.
            noise_key: As in VocoderRequest.
            carried_H: Phase sum before the first frame, float64; None at the start of an utterance.

        Returns:
            The frames, and the phase sum after the last one (None for voices without a source).

        Raises:
            SynthesisFailed: It is empty, of another width, or holds values that are not finite.
        """
        if mel_FM.ndim != 2 or mel_FM.shape[1] != self.mel_width or not len(mel_FM):
            raise SynthesisFailed(
                f"The mel spectrogram for voice {self.folder.name} has shape {mel_FM.shape}, not (frames, "
                f"{self.mel_width}) with at least one frame; use the acoustic model and vocoder of one voice folder."
            )
        if not np.isfinite(mel_FM).all():
            raise SynthesisFailed("The acoustic model made values that are not finite; retry with another text.")
        rows_RF = torch.from_numpy(np.ascontiguousarray(mel_FM.T, dtype=np.float32))
        mel_rows = self.generator.config.in_channels
        if len(rows_RF) == mel_rows:
            return Utterance(rows_RF, None), None
        pitch, carried_H = self._pitch(rows_RF[mel_rows], rows_RF[mel_rows + 1], noise_key, carried_H)
        return Utterance(rows_RF[:mel_rows], pitch), carried_H

    def _pitch(self, f0_F: Tensor, voicing_F: Tensor, noise_key: int, carried_H: Tensor | None) -> tuple[Pitch, Tensor]:
        f0_hz_F = (f0_F * self.folder.f0_scale_hz + self.folder.f0_offset_hz).clamp(min=F0_MINIMUM_HZ)
        voiced_F = (voicing_F >= VOICING_THRESHOLD).to(torch.float32)
        carried_BH = None if carried_H is None else carried_H[None]
        phase_FH = self.generator.source_module.phase_before(f0_hz_F[None], carried_BH)[0]
        return Pitch(f0_hz_F, voiced_F, phase_FH[:-1], signed(noise_key)), phase_FH[-1]

    def synthesize(self, pieces: list[tuple[Utterance, Window]]) -> list[NDArray[np.int16]]:
        """Runs windows of one length as one batch.

        Args:
            pieces: Utterances of this voice, each with the window to run.

        Returns:
            Samples of the frames that each window keeps.

        Raises:
            SynthesisFailed: A wave is not finite.
        """
        mel_BMF = _windows([utterance.mel_MF for utterance, _ in pieces], pieces).to(self.device)
        mask_B1F = None
        if not self.backend.any_length:
            frames = [torch.ones(1, utterance.num_frames) for utterance, _ in pieces]
            mask_B1F = _windows(frames, pieces).to(self.device)
        wave_BS = self.backend.run(mel_BMF, mask_B1F, self._excitation(pieces, mask_B1F))
        if not torch.isfinite(wave_BS).all():
            raise SynthesisFailed("The vocoder made values that are not finite; retry with another text or voice.")
        pcm_BS = (wave_BS.clamp(-1.0, 1.0) * FULL_SCALE).round().to(torch.int16).cpu().numpy()
        hop = self.generator.config.hop_samples
        return [
            pcm_S[(window.keep_start - window.start) * hop : (window.keep_end - window.start) * hop]
            for pcm_S, (_, window) in zip(pcm_BS, pieces, strict=True)
        ]

    def _excitation(self, pieces: list[tuple[Utterance, Window]], mask_B1F: Tensor | None) -> Tensor | None:
        """The excitation of each window at its own place in its utterance, zeros after the end; [B, 1, S]."""
        pitches = [utterance.pitch for utterance, _ in pieces if utterance.pitch is not None]
        if not pitches:
            return None
        hop = self.generator.config.hop_samples
        with torch.inference_mode():
            excitation_B1S: Tensor = self.generator.source_module(
                _windows([pitch.f0_F for pitch in pitches], pieces).to(self.device),
                _windows([pitch.voiced_F for pitch in pitches], pieces).to(self.device),
                _windows([pitch.phase_before_FH.T for pitch in pitches], pieces).transpose(1, 2).to(self.device),
                torch.tensor([window.start * hop for _, window in pieces], device=self.device),
                torch.tensor([pitch.key for pitch in pitches], device=self.device),
            )
            return excitation_B1S if mask_B1F is None else excitation_B1S * mask_B1F.repeat_interleave(hop, dim=2)


def _windows(tensors: Sequence[Tensor], pieces: Sequence[tuple[Utterance, Window]]) -> Tensor:
    """Cuts windows from tensors whose last axis is frames, one tensor per piece; zeros after the end."""
    cut = [tensor[..., utterance.span(window)] for tensor, (utterance, window) in zip(tensors, pieces, strict=True)]
    length = pieces[0][1].length
    return torch.stack([F.pad(tensor, (0, length - tensor.shape[-1])) for tensor in cut])
