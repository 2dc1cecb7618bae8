"""How the bodies that clients send become a SpeechRequest, and how what is wrong with them is explained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from deployments.errors import InvalidRequest, ModelNotFound, TooLarge
from deployments.ingress.bodies import Delivery, SpeechBody
from deployments.messages import SpeechRequest, VoiceInfo
from deployments.settings import IngressSettings
from deployments.voices import emotions
from deployments.voices.served import calm, find_voice

TAG = re.compile(r"<[^<>]*>")


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
        TooLarge: The text is longer than max_input_chars.
        SpeechError: As in `spoken_as`.
    """
    check_model(body.model, settings)
    check_length(body.input, settings)
    return spoken_as(body, body.input, voices, settings, request_id=request_id, use_cache=use_cache)


def spoken_as(
    how: Delivery,
    text: str,
    voices: Sequence[VoiceInfo],
    settings: IngressSettings,
    *,
    request_id: str = "",
    use_cache: bool = True,
) -> SpeechRequest:
    """The message for the stages, whatever the length of its text.

    Args:
        how: Checked for types and ranges.
        text: What is said.
        voices: What is served.
        settings: Limits and model names.
        request_id: Follows the request through the stages.
        use_cache: False synthesises anew.

    Raises:
        ModelNotFound: The model is not served.
        VoiceNotFound: The voice is not served.
        EmotionNotFound: The voice has no such emotion.
    """
    check_model(how.model, settings)
    voice = find_voice(how.voice_name, voices)
    return SpeechRequest(
        text=text,
        voice=voice.name,
        emotion=_emotion(how, voice),
        emotion_intensity=how.emotion_intensity,
        speed=how.speed,
        pitch=how.pitch,
        volume=how.volume,
        sample_rate_hz=how.sample_rate,
        normalize=how.normalize,
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
    if len(text) > limit and (num_chars := spoken_chars(text)) > limit:
        raise TooLarge(
            f"The text has {num_chars} characters, {limit} are allowed. Send it in several requests.", param="input"
        )


def spoken_chars(text: str) -> int:
    """Characters of a text without the tags of SSML."""
    return len(TAG.sub("", text) if text.lstrip().startswith("<") else text)


def _emotion(how: Delivery, voice: VoiceInfo) -> str:
    """The field emotion, else what the instructions name, else neutral or what the voice has in its place."""
    if "emotion" in how.model_fields_set:
        return emotions.resolve(how.emotion, voice.emotions or (emotions.NEUTRAL,), voice.name)
    if how.instructions and (found := emotions.in_instructions(how.instructions, voice.emotions)):
        return found
    return calm(voice)


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
        path = [part for part in fault["loc"] if part not in ("body", "query", "path", "header")]
        name, field = _field(path, model)
        if name and name not in lines:
            lines[name] = _line(name, fault, field)
    if not lines:
        return InvalidRequest("The body must be a JSON object with the fields that GET /docs lists.")
    return InvalidRequest(" ".join(lines.values()), param=next(iter(lines)))


def _field(path: Sequence[Any], model: type[BaseModel] | None) -> tuple[str, FieldInfo | None]:
    """The name of a field at fault, such as speed or items[3].speed, and what is known of it."""
    if not path:
        return "", None
    name = str(path[0])
    fields = model.model_fields if model else {}
    field = next((field for key, field in fields.items() if name in (key, field.alias)), None)
    if len(path) > 1 and isinstance(path[1], int):
        (item,) = get_args(field.annotation) if field else (None,)
        inner, field = _field(path[2:], item)
        name = f"{name}[{path[1]}]" + (f".{inner}" if inner else "")
    return name, field


def _line(name: str, fault: Any, field: FieldInfo | None) -> str:
    hint = f" {name}: {field.description}" if field and field.description else ""
    if fault["type"] == "missing":
        return f"The field {name} is missing.{hint}"
    message = str(fault["msg"]).removeprefix("Value error, ").rstrip(".")
    message = re.sub("^(Input|String) should", "it should", message)
    return f"The field {name} is wrong: {message}.{hint}"
