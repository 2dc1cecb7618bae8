"""A mel spectrogram that arrives in pieces: windows as soon as their right context exists, phases carried on.

The samples are those of the whole: excitation and windows are functions of absolute places in the utterance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deployments.vocoder.voice import Pitch, Utterance, VocoderVoice
from deployments.vocoder.windows import Feed, Window


@dataclass(frozen=True, slots=True)
class Piece:
    """One window of a streamed utterance, ready to run.

    Attributes:
        utterance: The frames of the window.
        window: In frames of the whole utterance.
    """

    utterance: Utterance
    window: Window


class MelStream:
    """One utterance in the making. Keeps the frames that windows to come need, and no more.

    Args:
        voice: Of the utterance.
        noise_key: As in VocoderRequest.
    """

    def __init__(self, voice: VocoderVoice, noise_key: int) -> None:
        self._voice = voice
        self._noise_key = noise_key
        self._feed = Feed(voice.planner)
        self._kept: Utterance | None = None
        self._carried_H: Tensor | None = None

    @property
    def num_kept(self) -> int:
        """Frames in memory."""
        return 0 if self._kept is None else self._kept.num_frames

    def push(self, mel_FM: NDArray[np.float32]) -> list[Piece]:
        """Takes the next frames.

        Args:
            mel_FM: As in MelChunk.

        Returns:
            The windows that can run now, in order.

        Raises:
            SynthesisFailed: The frames have another width or hold values that are not finite.
        """
        arrived, self._carried_H = self._voice.utterance_from(mel_FM, self._noise_key, self._carried_H)
        self._kept = arrived if self._kept is None else _joined(self._kept, arrived)
        return self._pieces(self._feed.push(len(mel_FM)))

    def finish(self) -> list[Piece]:
        """Tells that no more frames will come; returns the windows of what is left."""
        return self._pieces(self._feed.finish())

    def _pieces(self, windows: list[Window]) -> list[Piece]:
        if self._kept is None:
            return []
        pieces = [Piece(_cut(self._kept, window.start, window.start + window.length), window) for window in windows]
        end = self._kept.first_frame + self._kept.num_frames
        self._kept = _cut(self._kept, max(self._kept.first_frame, self._feed.first_needed), end)
        return pieces


def _joined(left: Utterance, right: Utterance) -> Utterance:
    mel_MF = torch.cat([left.mel_MF, right.mel_MF], dim=1)
    if left.pitch is None or right.pitch is None:
        return Utterance(mel_MF, None, left.first_frame)
    pitch = Pitch(
        torch.cat([left.pitch.f0_F, right.pitch.f0_F]),
        torch.cat([left.pitch.voiced_F, right.pitch.voiced_F]),
        torch.cat([left.pitch.phase_before_FH, right.pitch.phase_before_FH]),
        left.pitch.key,
    )
    return Utterance(mel_MF, pitch, left.first_frame)


def _cut(utterance: Utterance, start: int, end: int) -> Utterance:
    """The frames from start to end, both counted in the whole utterance."""
    frames = slice(start - utterance.first_frame, end - utterance.first_frame)
    pitch = utterance.pitch
    if pitch is not None:
        pitch = Pitch(pitch.f0_F[frames], pitch.voiced_F[frames], pitch.phase_before_FH[frames], pitch.key)
    return Utterance(utterance.mel_MF[:, frames], pitch, start)
