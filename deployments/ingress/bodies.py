"""The bodies, queries and messages that clients send.

Types and ranges are strict; fields that are not known are ignored, because clients written for other speech services
send fields of their own. The ranges stand here once: a request that comes through the Python handle passes the same
check.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from deployments.voices import emotions

MAX_ITEMS = 64


def _unicode(text: str) -> str:
    """Refuses half surrogate pairs, which JSON can carry and no encoding can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not valid Unicode but holds half of a surrogate pair") from None
    return text


Text = Annotated[str, AfterValidator(_unicode)]
SomeText = Annotated[str, Field(min_length=1), AfterValidator(_unicode)]
Name = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_unicode)]
ResponseFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
SampleRate = Annotated[
    Literal[8000, 16000, 22050, 24000, 44100, 48000],
    WithJsonSchema({"type": "integer", "enum": [8000, 16000, 22050, 24000, 44100, 48000]}),
]
Speed = Annotated[
    float,
    Field(
        ge=0.25, le=4.0, allow_inf_nan=False, description="0.25 to 4.0; scales predicted durations, not the waveform."
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, hide_input_in_errors=True)


class VoiceReference(_Body):
    """A voice as an object with its id."""

    id: Name = Field(description="Name of the voice.")


class Delivery(_Body):
    """In which voice and how something is said."""

    model: Name | None = Field(
        None, description="An id of GET /v1/models or one of its aliases; none: the served model."
    )
    voice: Name | VoiceReference | None = Field(
        None, description='Name of a voice of GET /v1/audio/voices, or {"id": name}; none: the default voice.'
    )
    response_format: ResponseFormat = Field(
        "mp3", description="Container and encoding; pcm is 16 bit little endian, mono, without header."
    )
    speed: Speed = 1.0
    instructions: Text | None = Field(
        None,
        description="Free text; if it names an emotion of the voice, in Chinese or English, that emotion is used. "
        "The field emotion goes first.",
        examples=["用开心的语气说"],
    )
    emotion: Name = Field(
        emotions.NEUTRAL,
        description="An emotion of the voice or a word for it in Chinese or English.",
        examples=["happy", "开心"],
    )
    emotion_intensity: Annotated[float, Field(ge=0.01, le=2.0, allow_inf_nan=False)] = Field(
        1.0, description="0.01 to 2.0; along the line from neutral (0) to the emotion (1)."
    )
    pitch: Annotated[float, Field(ge=-12.0, le=12.0, allow_inf_nan=False)] = Field(
        0.0, description="Semitones, -12 to 12."
    )
    volume: Annotated[float, Field(ge=0.0, le=2.0, allow_inf_nan=False)] = Field(
        1.0, description="0 to 2; a factor on the waveform, clipped softly."
    )
    sample_rate: SampleRate | None = Field(None, description="Of the answer, Hz; none: the voice's own.")
    normalize: bool = Field(True, description="false skips text normalisation, for text that is already words.")

    @property
    def voice_name(self) -> str | None:
        """The voice that is asked for, None for the default."""
        return self.voice.id if isinstance(self.voice, VoiceReference) else self.voice


class SpeechBody(Delivery):
    """What to say, in which voice and how. Fields that are not listed are ignored."""

    input: SomeText = Field(
        description="Text or SSML. As many characters as the service's max_input_chars (4096 unless set otherwise); "
        "tags do not count.",
        examples=["您好，欢迎致电客服中心，请稍候。"],
    )
    stream: bool = Field(
        True, description="true: the body starts with the first segment; false: one whole answer with exact sizes."
    )
    stream_format: Literal["audio", "sse"] = Field(
        "audio", description="audio: the body is the audio; sse: events with base64 audio as segments are finished."
    )


class BatchBody(_Body):
    """Several texts at once."""

    items: Annotated[list[SpeechBody], Field(min_length=1, max_length=MAX_ITEMS)] = Field(
        description=f"1 to {MAX_ITEMS} bodies as of POST /v1/audio/speech; each is answered whole."
    )


class StartMessage(Delivery):
    """The first message of a WebSocket: how the text that will arrive is said."""

    type: Literal["start"]
    response_format: ResponseFormat = Field("pcm", description="Container and encoding of the binary messages.")


class TextMessage(_Body):
    """A piece of text of a WebSocket."""

    type: Literal["text"]
    text: Text = Field(description="What follows the text so far, as it is: words may go on in the next piece.")


class EndMessage(_Body):
    """The last message of a WebSocket."""

    type: Literal["end"]


class TtsBody(_Body):
    """The body of the older services' POST /tts."""

    text: SomeText = Field(description="Text or SSML to speak.", examples=["您好，欢迎致电客服中心，请稍候。"])
    emotion: Name = Field(emotions.NEUTRAL, description="An emotion of the voice or a word for it.")
    voice: Name | None = Field(None, description="Name of a voice; none: the default voice.")
    speed: Speed = 1.0

    def to_speech(self) -> SpeechBody:
        """The same wish as a body of POST /v1/audio/speech."""
        given = self.model_dump(include={"emotion", "voice", "speed"}, exclude_unset=True)
        return SpeechBody(input=self.text, response_format="wav", stream=False, **given)


class TaskBody(TtsBody):
    """The body of the older services' POST /api/tts."""

    is_async: bool = Field(
        False,
        alias="async",
        description="true: answer at once with a task to ask for; false: when it is spoken.",
    )


class StreamQuery(TtsBody):
    """The query of the older services' GET /stream_tts; numbers arrive as text."""

    model_config = ConfigDict(strict=False)


class AnalysisBody(_Body):
    """A text whose reading is asked for."""

    input: SomeText = Field(description="Text or SSML.", examples=["重庆银行行长"])
    voice: Name | VoiceReference | None = Field(None, description="Name of a voice; none: the default voice.")
    normalize: bool = Field(True, description="false skips text normalisation.")

    @property
    def voice_name(self) -> str | None:
        """The voice that is asked for, None for the default."""
        return self.voice.id if isinstance(self.voice, VoiceReference) else self.voice


class PurgeBody(_Body):
    """Which cached segments to forget."""

    voice: Name | None = Field(None, description="Name of the voice; none: those of all voices.")
