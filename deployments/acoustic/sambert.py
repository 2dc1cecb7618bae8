"""Sambert: symbols to mel spectrogram.

Shapes: B batch, T tokens, D width, P text width, N decoder steps of all items one after another,
C memory width, F frames, M mel width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from deployments.acoustic.encoder import TextEncoder
from deployments.acoustic.mel_decoder import BandDecoder, MelDecoder, PostNet
from deployments.acoustic.sizes import SambertSizes
from deployments.acoustic.variance import VarianceAdaptor

MAX_TOKEN_FRAMES = 1_000_000.0
"""Stands for any longer duration and for one that is no number: far beyond what is served, yet safe to add up."""


class Tokens(NamedTuple):
    """A padded batch of symbols, and how each item is to be spoken.

    Attributes:
        ling_BT4: int64 [B, T, 4], indices of phone, tone, syllable flag and word segment.
        emotion_BT: int64 [B, T].
        speaker_BT: int64 [B, T].
        length_B: int64 [B] on the CPU, true numbers of tokens, at least 1.
        speed_B: [B], divides the predicted durations.
        pitch_ratio_B: [B], factor on the predicted pitch.
        emotion_scale_BT: [B, T], place on the line from the neutral embedding (0) through the emotion's own (1).
        pitch_zero: Value of the predicted pitch that stands for 0 Hz.
        neutral: Row of the neutral emotion.
    """

    ling_BT4: Tensor
    emotion_BT: Tensor
    speaker_BT: Tensor
    length_B: Tensor
    speed_B: Tensor
    pitch_ratio_B: Tensor
    emotion_scale_BT: Tensor
    pitch_zero: float = 0.0
    neutral: int = 0

    @classmethod
    def plain(cls, ling_BT4: Tensor, emotion_BT: Tensor, speaker_BT: Tensor, length_B: Tensor) -> Tokens:
        """Tokens spoken as the voice would by itself."""
        ones_BT = torch.ones(emotion_BT.shape, device=emotion_BT.device)
        return cls(ling_BT4, emotion_BT, speaker_BT, length_B, ones_BT[:, 0], ones_BT[:, 0], ones_BT)


class Encoded(NamedTuple):
    """Everything before the decoder.

    Attributes:
        text_BTP: Text with pitch and energy.
        speaker_BTD: Speaker embeddings.
        emotion_BTD: Emotion embeddings.
        repeats_BT: int64 [B, T], frames of each token; their sum is at least 1 for every item.
        band_B: int64 [B], band width of the decoder for each item.
        pitch_BT: Predicted pitch, unshifted.
        energy_BT: Predicted energy.
        log_duration_BT: log(duration in frames + 1) at speed 1.
    """

    text_BTP: Tensor
    speaker_BTD: Tensor
    emotion_BTD: Tensor
    repeats_BT: Tensor
    band_B: Tensor
    pitch_BT: Tensor
    energy_BT: Tensor
    log_duration_BT: Tensor


class Prediction(NamedTuple):
    """A whole pass over a batch; mel spectrograms are padded to the longest.

    Attributes:
        encoded: Everything up to the decoder.
        num_frames_B: int64 [B].
        before_BFM: Mel spectrograms before the post-net; only true frames hold meaning.
        mel_BFM: Mel spectrograms; only true frames hold meaning.
    """

    encoded: Encoded
    num_frames_B: Tensor
    before_BFM: Tensor
    mel_BFM: Tensor


class Sambert(nn.Module):
    """The acoustic model; a call leaves no trace in it, so threads may share it.

    Args:
        sizes: Of the network.

    Source:
        SAM-BERT as published with KAN-TTS; parameter names are those of its checkpoints.
    """

    speaker_vector: Tensor | None

    def __init__(self, sizes: SambertSizes) -> None:
        super().__init__()
        self.frames_per_step = sizes.frames_per_step
        self.text_encoder = TextEncoder(sizes)
        self.spk_tokenizer = None if sizes.speakers is None else nn.Embedding(sizes.speakers, sizes.speaker)
        self.emo_tokenizer = nn.Embedding(sizes.emotions, sizes.emotion)
        # Voices with speaker embedding have one vector instead of a table; it is no part of the checkpoint.
        self.register_buffer("speaker_vector", None, persistent=False)
        self.variance_adaptor = VarianceAdaptor(
            sizes.text,
            sizes.text + sizes.speaker + sizes.emotion,
            (
                sizes.predictor_inner,
                sizes.predictor_memory,
                sizes.predictor_layers,
                sizes.predictor_filter,
                sizes.predictor_shift,
                sizes.predictor_lstm,
            ),
            sizes.duration_prenet,
            sizes.duration_lstm,
        )
        memory_width = sizes.frames_per_step * sizes.text + sizes.speaker + sizes.emotion
        self.mel_decoder = MelDecoder(
            BandDecoder(
                sizes.mel,
                sizes.decoder_prenet,
                memory_width,
                sizes.decoder_width,
                sizes.decoder_layers,
                sizes.decoder_heads,
                sizes.decoder_inner,
                sizes.frames_per_step,
            )
        )
        self.mel_postnet = PostNet(
            sizes.mel,
            sizes.postnet_inner,
            sizes.postnet_memory,
            sizes.postnet_layers,
            sizes.postnet_filter,
            sizes.postnet_shift,
            sizes.postnet_lstm,
        )

    def encode(self, tokens: Tokens) -> Encoded:
        """Everything before the decoder, exact for each item of a padded batch.

        Args:
            tokens: The batch.

        Returns:
            Features, durations and band widths. An item whose durations all round to 0 gets one frame; a duration that
            is no number or beyond MAX_TOKEN_FRAMES becomes that many frames, for the caller to refuse.
        """
        mask_BT = torch.arange(tokens.emotion_BT.shape[1]) < tokens.length_B[:, None]
        mask_BT = mask_BT.to(tokens.emotion_BT.device)
        text_BTP = self.text_encoder(tokens.ling_BT4, mask_BT)
        speaker_BTD, emotion_BTD = self._speaker(tokens.speaker_BT), self._emotion(tokens)
        voice_BTD = torch.cat([speaker_BTD, emotion_BTD], dim=2)
        text_BTP, pitch_BT, energy_BT, log_duration_BT = self.variance_adaptor(
            text_BTP, voice_BTD, mask_BT, tokens.length_B, tokens.pitch_ratio_B, tokens.pitch_zero
        )
        duration_BT = (log_duration_BT.exp() - 1) / tokens.speed_B[:, None]
        duration_BT = duration_BT.nan_to_num(MAX_TOKEN_FRAMES).clamp(max=MAX_TOKEN_FRAMES)
        repeats_BT = (duration_BT + 0.5).floor().long()
        longest_B1 = duration_BT.argmax(1, keepdim=True)
        repeats_BT = repeats_BT.scatter_add(1, longest_B1, (repeats_BT.sum(1, keepdim=True) == 0).long())
        band_B = (duration_BT.amax(1) / self.frames_per_step + 0.5).floor().long()
        return Encoded(text_BTP, speaker_BTD, emotion_BTD, repeats_BT, band_B, pitch_BT, energy_BT, log_duration_BT)

    def unroll(self, encoded: Encoded) -> tuple[Tensor, ...]:
        """The memory that the decoder reads.

        Args:
            encoded: Of encode; items with no frames are left out.

        Returns:
            [N, C] for each item, N 0 for one without frames.
        """
        memory_NC, steps_B = self.variance_adaptor.regulate(
            encoded.text_BTP, encoded.speaker_BTD, encoded.emotion_BTD, encoded.repeats_BT, self.frames_per_step
        )
        return torch.split(memory_NC, steps_B.tolist())

    def _speaker(self, speaker_BT: Tensor) -> Tensor:
        if self.spk_tokenizer is not None:
            speaker_BTD: Tensor = self.spk_tokenizer(speaker_BT)
            return speaker_BTD
        assert self.speaker_vector is not None
        return self.speaker_vector.expand(*speaker_BT.shape, -1)

    def _emotion(self, tokens: Tokens) -> Tensor:
        emotion_BTD: Tensor = self.emo_tokenizer(tokens.emotion_BT)
        from_neutral_BTD = emotion_BTD - self.emo_tokenizer.weight[tokens.neutral]
        # Scale 1 adds an exact zero.
        return emotion_BTD + (tokens.emotion_scale_BT[..., None] - 1) * from_neutral_BTD

    def forward(self, tokens: Tokens) -> Prediction:
        """The whole model in its plain form: the decoder runs item by item.

        Args:
            tokens: The batch.

        Returns:
            Mel spectrograms and all predictions.
        """
        encoded = self.encode(tokens)
        before_BFM = nn.utils.rnn.pad_sequence(
            [
                self.mel_decoder(memory_NC, band_width)
                for memory_NC, band_width in zip(self.unroll(encoded), encoded.band_B.tolist(), strict=True)
            ],
            batch_first=True,
        )
        num_frames_B = encoded.repeats_BT.sum(1)
        return Prediction(encoded, num_frames_B, before_BFM, self.mel_postnet(before_BFM, num_frames_B))
