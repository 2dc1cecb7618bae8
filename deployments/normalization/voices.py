"""The voices that are served, as requests and markup name them."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.errors import EmotionNotFound, VoiceNotFound
from deployments.messages import VoiceInfo

NEUTRAL = "neutral"


class Voices:
    """Voices by name.

    Args:
        infos: What is served, in order; at least one.
    """

    def __init__(self, infos: Sequence[VoiceInfo]) -> None:
        self.infos = tuple(infos)
        self._by_name = {info.name: info for info in infos}
        self._default = next((info for info in infos if info.is_default), infos[0])

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._by_name)

    def find(self, name: str | None) -> VoiceInfo:
        """A voice by name; None is the default one.

        Raises:
            VoiceNotFound: It is not served; lists the voices.
        """
        if name is None:
            return self._default
        if name not in self._by_name:
            raise VoiceNotFound(f"Voice {name!r} is not served. The voices: {', '.join(self._by_name)}.", param="voice")
        return self._by_name[name]


def check_emotion(voice: VoiceInfo, emotion: str) -> None:
    """Refuses an emotion that a voice does not have; a voice without emotions takes any.

    Raises:
        EmotionNotFound: Lists the emotions of the voice.
    """
    if voice.emotions and emotion not in voice.emotions:
        known = ", ".join(voice.emotions)
        raise EmotionNotFound(f"Voice {voice.name!r} has no emotion {emotion!r}. It has: {known}.", param="emotion")
