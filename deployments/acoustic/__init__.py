"""Acoustic stage: Sambert, symbols to mel spectrogram."""
