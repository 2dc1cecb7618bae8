"""The voices that are served, as requests and markup name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deployments.errors import EmotionNotFound
from deployments.messages import Controls, SpeechRequest, VoiceInfo
from deployments.voices import emotions
from deployments.voices.served import calm, find_voice


class Voices:
    """Voices by name.

    Args:
        infos: What is served, in order; at least one.
    """

    def __init__(self, infos: Sequence[VoiceInfo]) -> None:
        self.infos = tuple(infos)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(info.name for info in self.infos)

    def find(self, name: str | None) -> VoiceInfo:
        """A voice by name; None is the default one.

        Raises:
            VoiceNotFound: It is not served; lists the voices.
        """
        return find_voice(name, self.infos)

    def controls(self, request: SpeechRequest) -> Controls:
        """How a request is spoken where no markup says otherwise.

        Raises:
            VoiceNotFound: Its voice is not served.
            EmotionNotFound: The voice does not have its emotion.
        """
        voice = self.find(request.voice)
        check_emotion(voice, request.emotion)
        return Controls(
            voice=voice.name,
            emotion=request.emotion,
            emotion_intensity=request.emotion_intensity,
            speed=request.speed,
            pitch=request.pitch,
            volume=request.volume,
        )

    def with_voice(self, controls: Controls, name: str) -> Controls:
        """The controls with another voice; its emotion stays, but where it is what a voice has in place of neutral.

        Raises:
            VoiceNotFound: It is not served; lists the voices.
            EmotionNotFound: It does not have the emotion of the controls.
        """
        voice = self.find(name)
        emotion = controls.emotion
        if emotion in {emotions.NEUTRAL, calm(self.find(controls.voice))}:
            emotion = calm(voice)
        check_emotion(voice, emotion)
        return replace(controls, voice=name, emotion=emotion)

    def with_emotion(self, controls: Controls, word: str) -> Controls:
        """The controls with the emotion that a word means for their voice.

        Raises:
            EmotionNotFound: The voice has no such emotion; lists those it has.
        """
        voice = self.find(controls.voice)
        return replace(controls, emotion=emotions.resolve(word, voice.emotions or (emotions.NEUTRAL,), voice.name))


def check_emotion(voice: VoiceInfo, emotion: str) -> None:
    """Refuses an emotion that a voice does not have; a voice without emotions takes any.

    Raises:
        EmotionNotFound: Lists the emotions of the voice.
    """
    if voice.emotions and emotion not in voice.emotions:
        known = ", ".join(voice.emotions)
        raise EmotionNotFound(f"Voice {voice.name!r} has no emotion {emotion!r}. It has: {known}.", param="emotion")
