"""Small decisions of the normalizer that depend on the request and the voice alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from deployments.errors import EmotionNotFound, VoiceNotFound
from deployments.messages import AcousticRequest, VoiceInfo


def voice_named(infos: Mapping[str, VoiceInfo], name: str | None) -> VoiceInfo:
    """The voice a request names, or the default one.

    Raises:
        VoiceNotFound: No such voice; the message lists the voices.
    """
    if name is None:
        return next((info for info in infos.values() if info.is_default), next(iter(infos.values())))
    if name not in infos:
        raise VoiceNotFound(f"There is no voice {name!r}. Voices: {', '.join(infos)}.", param="voice")
    return infos[name]


def check_emotion(voice: VoiceInfo, emotion: str) -> str:
    """The emotion, if the voice has it.

    Raises:
        EmotionNotFound: It has not; the message lists the emotions.
    """
    if emotion not in voice.emotions:
        known = ", ".join(voice.emotions)
        raise EmotionNotFound(f"Voice {voice.name!r} has no emotion {emotion!r}. Emotions: {known}.", param="emotion")
    return emotion


def noise_key_of(request: AcousticRequest) -> int:
    """The key of the excitation's noise: a function of what is spoken, so that a segment always sounds the same."""
    parts = (request.voice, request.symbols, request.emotion_intensity, request.speed, request.pitch)
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
