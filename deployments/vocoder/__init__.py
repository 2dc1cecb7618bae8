"""Vocoder stage: HifiGan, mel spectrogram to samples."""
