"""Every size of Sambert, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SambertSizes:
    """Every size of the network; tables count rows, widths count channels."""

    phones: int
    tones: int
    syllable_flags: int
    word_segments: int
    emotions: int
    speakers: int | None
    positions: int
    embedding: int
    encoder_layers: int
    encoder_heads: int
    encoder_width: int
    encoder_inner: int
    text: int
    speaker: int
    emotion: int
    predictor_inner: int
    predictor_memory: int
    predictor_layers: int
    predictor_filter: int
    predictor_shift: int
    predictor_lstm: int
    duration_prenet: tuple[int, ...]
    duration_lstm: int
    decoder_prenet: tuple[int, ...]
    decoder_layers: int
    decoder_heads: int
    decoder_width: int
    decoder_inner: int
    frames_per_step: int
    mel: int
    postnet_inner: int
    postnet_memory: int
    postnet_layers: int
    postnet_filter: int
    postnet_shift: int
    postnet_lstm: int
