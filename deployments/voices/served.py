"""Voices that are served, as requests and markup name them."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.errors import VoiceNotFound
from deployments.messages import VoiceInfo
from deployments.voices import emotions


def find_voice(name: str | None, voices: Sequence[VoiceInfo]) -> VoiceInfo:
    """A voice by name; None is the default one, which is the first where none says so.

    Args:
        name: As callers give it.
        voices: What is served, in order.

    Raises:
        VoiceNotFound: It is not served, or nothing is; lists the voices.
    """
    if name is None:
        fitting = [*(voice for voice in voices if voice.is_default), *voices[:1]]
    else:
        fitting = [voice for voice in voices if voice.name == name]
    if fitting:
        return fitting[0]
    served = ", ".join(voice.name for voice in voices)
    raise VoiceNotFound(f"Voice {name!r} is not served. The voices: {served}.", param="voice")


def calm(voice: VoiceInfo) -> str:
    """Neutral, or what the voice has in its place."""
    return voice.emotions[0] if voice.emotions and emotions.NEUTRAL not in voice.emotions else emotions.NEUTRAL
