"""The bodies that clients send, and how they become a SpeechRequest.

Types and ranges are strict; fields that are not known are ignored, because clients written for other speech services
send fields of their own. The ranges stand here once: a request that comes through the Python handle passes the same
check.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from deployments.errors import InvalidRequest, ModelNotFound, TooLarge, VoiceNotFound
from deployments.ingress import emotions
from deployments.messages import SpeechRequest, VoiceInfo
from deployments.settings import IngressSettings

TAG = re.compile(r"<[^<>]*>")


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


class SpeechBody(_Body):
    """What to say, in which voice and how. Fields that are not listed are ignored."""

    input: SomeText = Field(
        description="Text or SSML. As many characters as the service's max_input_chars (4096 unless set otherwise); "
        "tags do not count.",
        examples=["您好，欢迎致电客服中心，请稍候。"],
    )
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
    stream: bool = Field(
        False, description="true: the body starts with the first segment; false: one whole answer with exact sizes."
    )
    stream_format: Literal["audio", "sse"] = Field(
        "audio", description="audio: the body is the audio; sse: events with base64 audio as segments are finished."
    )
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


class TtsBody(_Body):
    """The body of the older services' POST /tts."""

    text: SomeText = Field(description="Text or SSML to speak.", examples=["您好，欢迎致电客服中心，请稍候。"])
    emotion: Name = Field(emotions.NEUTRAL, description="An emotion of the voice or a word for it.")
    voice: Name | None = Field(None, description="Name of a voice; none: the default voice.")
    speed: Speed = 1.0

    def to_speech(self) -> SpeechBody:
        """The same wish as a body of POST /v1/audio/speech."""
        given = self.model_dump(exclude={"text"}, exclude_unset=True)
        return SpeechBody(input=self.text, response_format="wav", stream=False, **given)


class AnalysisBody(_Body):
    """A text whose reading is asked for."""

    input: SomeText = Field(description="Text or SSML.", examples=["重庆银行行长"])
    voice: Name | VoiceReference | None = Field(None, description="Name of a voice; none: the default voice.")
    normalize: bool = Field(True, description="false skips text normalisation.")

    @property
    def voice_name(self) -> str | None:
        """The voice that is asked for, None for the default."""
        return self.voice.id if isinstance(self.voice, VoiceReference) else self.voice


def to_request(
    body: SpeechBody,
    voices: Sequence[VoiceInfo],
    settings: IngressSettings,
    *,
    request_id: str = "",
    use_cache: bool = True,
) -> SpeechRequest:
    """The message for the stages, with voice and emotion found.

    Args:
        body: Checked for types and ranges.
        voices: What is served.
        settings: Limits and model names.
        request_id: Follows the request through the stages.
        use_cache: False synthesises anew.

    Raises:
        ModelNotFound: The model is not served.
        VoiceNotFound: The voice is not served.
        EmotionNotFound: The voice has no such emotion.
        TooLarge: The text is longer than max_input_chars.
    """
    check_model(body.model, settings)
    check_length(body.input, settings)
    voice = find_voice(body.voice_name, voices)
    return SpeechRequest(
        text=body.input,
        voice=voice.name,
        emotion=_emotion(body, voice),
        emotion_intensity=body.emotion_intensity,
        speed=body.speed,
        pitch=body.pitch,
        volume=body.volume,
        sample_rate_hz=body.sample_rate,
        normalize=body.normalize,
        use_cache=use_cache,
        request_id=request_id,
        timeout_s=settings.request_timeout_s,
    )


def checked(request: SpeechRequest, voices: Sequence[VoiceInfo], settings: IngressSettings) -> SpeechRequest:
    """A request from the Python handle, held to what HTTP clients are held to.

    Raises:
        InvalidRequest: A field has the wrong type or is out of range.
        SpeechError: As in `to_request`.
    """
    fields: dict[str, Any] = {
        "input": request.text,
        "voice": request.voice,
        "emotion_intensity": request.emotion_intensity,
        "speed": request.speed,
        "pitch": request.pitch,
        "volume": request.volume,
        "sample_rate": request.sample_rate_hz,
        "normalize": request.normalize,
    }
    if request.emotion != emotions.NEUTRAL:
        fields["emotion"] = request.emotion
    try:
        body = SpeechBody.model_validate(fields)
    except ValidationError as error:
        raise explain(error.errors(include_url=False), SpeechBody) from None
    answer = to_request(body, voices, settings, request_id=request.request_id, use_cache=request.use_cache)
    return answer if request.timeout_s is None else _with_timeout(answer, request.timeout_s)


def check_model(model: str | None, settings: IngressSettings) -> None:
    """Refuses models that are not served."""
    served = (settings.model_id, *settings.model_aliases)
    if model is not None and model not in served:
        raise ModelNotFound(f"Model {model!r} is not served. Use one of: {', '.join(served)}.", param="model")


def check_length(text: str, settings: IngressSettings) -> None:
    """Refuses texts of more characters than max_input_chars; the tags of SSML do not count."""
    limit = settings.max_input_chars
    if len(text) <= limit:
        return
    spoken = TAG.sub("", text) if text.lstrip().startswith("<") else text
    if len(spoken) > limit:
        raise TooLarge(
            f"The text has {len(spoken)} characters, {limit} are allowed. Send it in several requests.", param="input"
        )


def find_voice(name: str | None, voices: Sequence[VoiceInfo]) -> VoiceInfo:
    """The voice that a caller names, or the default one.

    Raises:
        VoiceNotFound: It is not served; lists the voices.
    """
    for voice in voices:
        if voice.name == name or (name is None and voice.is_default):
            return voice
    served = ", ".join(voice.name for voice in voices)
    raise VoiceNotFound(f"Voice {name!r} is not served. The voices: {served}.", param="voice")


def _emotion(body: SpeechBody, voice: VoiceInfo) -> str:
    """The field emotion, else what the instructions name, else neutral or what the voice has in its place."""
    if "emotion" in body.model_fields_set:
        return emotions.resolve(body.emotion, voice.emotions or (emotions.NEUTRAL,), voice.name)
    if body.instructions and (found := emotions.in_instructions(body.instructions, voice.emotions)):
        return found
    if emotions.NEUTRAL in voice.emotions or not voice.emotions:
        return emotions.NEUTRAL
    return voice.emotions[0]


def _with_timeout(request: SpeechRequest, timeout_s: float) -> SpeechRequest:
    """The same request with a shorter time limit; a caller cannot lengthen it."""
    return replace(request, timeout_s=min(timeout_s, request.timeout_s or timeout_s))


def explain(faults: Sequence[Any], model: type[BaseModel] | None = None) -> InvalidRequest:
    """One error from pydantic's report: each field at fault once, what is wrong and what it may be.

    Args:
        faults: The report's entries: loc, type, msg.
        model: The body they are about; its field descriptions complete the message.
    """
    lines: dict[str, str] = {}
    for fault in faults:
        path = [str(part) for part in fault["loc"] if part not in ("body", "query", "path", "header")]
        name = path[0] if path else ""
        if name and name not in lines:
            lines[name] = _line(name, fault, model)
    if not lines:
        return InvalidRequest("The body must be a JSON object with the fields that GET /docs lists.")
    return InvalidRequest(" ".join(lines.values()), param=next(iter(lines)))


def _line(name: str, fault: Any, model: type[BaseModel] | None) -> str:
    field = model.model_fields.get(name) if model else None
    hint = f" {name}: {field.description}" if field and field.description else ""
    if fault["type"] == "missing":
        return f"The field {name} is missing.{hint}"
    message = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
    message = re.sub("^(Input|String) should", "it should", message)
    return f"The field {name} is wrong: {message}.{hint}"
