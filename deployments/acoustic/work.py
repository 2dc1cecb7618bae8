"""One request on its way through the acoustic model: what is known of it, and in which pieces it is handed over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deployments.acoustic.decoder import Utterance
from deployments.acoustic.running_postnet import PostNetState
from deployments.acoustic.voice import AcousticVoice
from deployments.errors import SynthesisFailed
from deployments.messages import AcousticRequest, MelChunk, MelSpectrogram
from deployments.settings import AcousticSettings
from deployments.ticket import Ticket
from deployments.voices.symbols import SymbolIds

AcousticTicket = Ticket[AcousticRequest, MelSpectrogram]


class Work:
    """One ticket on its way.

    Args:
        ticket: Who waits for it.
        ids: Its symbols.
        voice: Its voice.
        settings: Sizes of the pieces.

    Attributes:
        frames_T: int32, frames of each symbol; zeros until it is encoded.
        utterance: Its place in the decoder, once encoded.
        postnet: Its place in the post-net, once encoded.
    """

    __slots__ = (
        "_chunk_frames",
        "_max_chunk_frames",
        "_num_pieces_sent",
        "_num_refined",
        "_num_sent",
        "_refined",
        "frames_T",
        "ids",
        "postnet",
        "ticket",
        "utterance",
        "voice",
    )

    def __init__(
        self, ticket: AcousticTicket, ids: SymbolIds, voice: AcousticVoice, settings: AcousticSettings
    ) -> None:
        self.ticket = ticket
        self.ids = ids
        self.voice = voice
        self.frames_T: NDArray[np.int32] = np.zeros(len(ids.emotion_T), dtype=np.int32)
        self.utterance: Utterance | None = None
        self.postnet: PostNetState | None = None
        self._max_chunk_frames = self._chunk_frames = settings.chunk_frames
        if ticket.item.stream:
            self._chunk_frames = min(settings.first_chunk_frames, settings.chunk_frames)
        self._refined: list[NDArray[np.float32]] = []
        self._num_refined = 0
        self._num_sent = 0
        self._num_pieces_sent = 0

    @property
    def num_tokens(self) -> int:
        """Length in symbols."""
        return len(self.frames_T)

    @property
    def num_frames(self) -> int:
        """Length in frames, once encoded."""
        return int(self.frames_T.sum())

    @property
    def is_finished(self) -> bool:
        """Whether all its frames are refined."""
        return self._num_refined == self.num_frames

    def begin(self, utterance: Utterance) -> None:
        """Takes its place in the decoder and in the post-net."""
        self.utterance = utterance
        self.postnet = self.voice.postnet.start(self.num_frames)

    def num_pending(self, num_decoded: int) -> int:
        """Frames for the post-net, of so many decoded ones."""
        assert self.postnet is not None
        return min(num_decoded, self.postnet.num_frames) - self.postnet.num_fed

    def is_due(self, num_decoded: int) -> bool:
        """Whether the post-net can complete the next piece, of so many decoded frames."""
        assert self.postnet is not None
        begun = self._num_sent if self.ticket.item.stream else self._num_refined
        enough = begun + self._chunk_frames + self.voice.postnet.lookahead
        return num_decoded >= min(enough, self.postnet.num_frames) and self.num_pending(num_decoded) > 0

    def add(self, mel_FM: NDArray[np.float32]) -> None:
        """Takes the next refined frames; hands over the piece that they complete, and the whole after the last one."""
        if not np.isfinite(mel_FM).all():
            self.ticket.fail(SynthesisFailed("The mel spectrogram holds no numbers; use another text or voice."))
            return
        self._refined.append(mel_FM)
        self._num_refined += len(mel_FM)
        enough = self._num_refined - self._num_sent >= self._chunk_frames
        if self.is_finished or (self.ticket.item.stream and enough):
            self._push()
        if self.is_finished:
            ticket = self.ticket
            whole_FM = np.concatenate(self._refined)
            ticket.resolve(
                MelSpectrogram(mel_FM=whole_FM, frames_T=self.frames_T, queue_s=ticket.queue_s, model_s=ticket.model_s)
            )

    def _push(self) -> None:
        ticket = self.ticket
        chunk = MelChunk(
            first_frame=self._num_sent,
            mel_FM=np.concatenate(self._refined[self._num_pieces_sent :]),
            is_last=self.is_finished,
            frames_T=None if self._num_sent else self.frames_T,
            queue_s=ticket.queue_s,
            model_s=ticket.model_s,
        )
        self._num_sent, self._num_pieces_sent = self._num_refined, len(self._refined)
        self._chunk_frames = min(2 * self._chunk_frames, self._max_chunk_frames)
        ticket.push(chunk)
