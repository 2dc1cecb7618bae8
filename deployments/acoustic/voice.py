"""One voice as the engine uses it: requests in, padded tokens and memory out.

Shapes: B batch, T tokens, F frames, M mel width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from deployments.acoustic.checkpoint import load_sambert
from deployments.acoustic.fused import FusedDecoder
from deployments.acoustic.running_postnet import RunningPostNet
from deployments.acoustic.runtime import choose_runtime
from deployments.acoustic.sambert import Encoded, Sambert, Tokens
from deployments.errors import InvalidRequest
from deployments.messages import AcousticRequest
from deployments.voices.folder import VoiceFolder
from deployments.voices.symbols import SymbolIds

NEUTRAL = "emotion_neutral"
NO_EMOTION = "emotion_none"
SEMITONES_PER_OCTAVE = 12
PITCH_MEAN_IN_STDS = 4.0
"""Voices without NSF do not tell how their pitch was normalised. Published speakers have a mean F0 of about four
standard deviations, so that is how far 0 Hz lies below their predictor's 0; a shift is right to a semitone or so."""


class AcousticVoice:
    """The network of one voice with what its folder says about symbols and pitch. Holds no state of any request.

    Args:
        folder: The voice.
        device: Where it runs.
        backend: See choose_runtime.
        threads: CPU threads of onnxruntime.
    """

    def __init__(self, folder: VoiceFolder, device: str, backend: str = "auto", threads: int = 1) -> None:
        self.name = folder.name
        self.device = torch.device(device)
        self.network: Sambert = load_sambert(folder).to(self.device)
        with torch.inference_mode():
            self.fused = FusedDecoder(self.network.mel_decoder.mel_dec)
        self.runtime = choose_runtime(self.network, self.fused, backend, threads)
        self.postnet = RunningPostNet(self.network.mel_postnet, self.runtime.kernels)
        self._symbols = folder.symbols
        emotions = folder.symbols.emotion
        self._no_emotion = emotions.index(NO_EMOTION) if NO_EMOTION in emotions else -1
        neutral = emotions.index(NEUTRAL) if NEUTRAL in emotions else None
        rows = self.network.emo_tokenizer.num_embeddings
        self._neutral = neutral if neutral is not None and neutral < rows else None
        in_range = folder.is_nsf and folder.f0_scale_hz > 0
        self._pitch_zero = -folder.f0_offset_hz / folder.f0_scale_hz if in_range else -PITCH_MEAN_IN_STDS

    def parse(self, request: AcousticRequest) -> SymbolIds:
        """Indices of a request's symbols.

        Raises:
            InvalidRequest: A symbol is malformed or the voice has none such, or the voice has no neutral emotion to
                measure the intensity from.
        """
        ids = self._symbols.parse(request.symbols)
        text = self.network.text_encoder
        tables = [text.sy_emb, text.tone_emb, text.syllable_flag_emb, text.ws_emb, self.network.emo_tokenizer]
        columns = [*ids.ling_T4.T, ids.emotion_T]
        if self.network.spk_tokenizer is not None:
            tables.append(self.network.spk_tokenizer)
            columns.append(ids.speaker_T)
        for table, column in zip(tables, columns, strict=True):
            if column.max() >= table.num_embeddings:
                item = request.symbols.split()[int(column.argmax())]
                raise InvalidRequest(
                    f"Voice {self.name} was not trained on a symbol of {item}; use another.", "symbols"
                )
        if request.emotion_intensity != 1 and self._neutral is None:
            raise InvalidRequest(
                f"Voice {self.name} has no neutral emotion to start from; leave emotion_intensity at 1.",
                "emotion_intensity",
            )
        return ids

    def tokens(self, requests: Sequence[AcousticRequest], parsed: Sequence[SymbolIds]) -> Tokens:
        """Requests as one padded batch.

        Args:
            requests: Of this voice.
            parsed: Their symbols.

        Returns:
            The batch on the voice's device.
        """
        emotions = [torch.from_numpy(ids.emotion_T) for ids in parsed]
        emotion_BT = self._padded(emotions)
        intensity_B1 = self._column([request.emotion_intensity for request in requests])[:, None]
        # Breaks carry no emotion that could be more or less of itself.
        is_none_BT = emotion_BT == self._no_emotion
        return Tokens(
            ling_BT4=self._padded([torch.from_numpy(ids.ling_T4) for ids in parsed]),
            emotion_BT=emotion_BT,
            speaker_BT=self._padded([torch.from_numpy(ids.speaker_T) for ids in parsed]),
            length_B=torch.tensor([len(emotion_T) for emotion_T in emotions]),
            speed_B=self._column([request.speed for request in requests]),
            pitch_ratio_B=self._column([2 ** (request.pitch / SEMITONES_PER_OCTAVE) for request in requests]),
            emotion_scale_BT=torch.where(is_none_BT, 1.0, intensity_B1),
            pitch_zero=self._pitch_zero,
            neutral=self._neutral or 0,
        )

    def encode(self, requests: Sequence[AcousticRequest], parsed: Sequence[SymbolIds]) -> Encoded:
        """Everything before the decoder; see Sambert.encode."""
        return self.network.encode(self.tokens(requests, parsed))

    def _padded(self, rows: list[Tensor]) -> Tensor:
        return pad_sequence(rows, batch_first=True).to(self.device)

    def _column(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=self.device)
