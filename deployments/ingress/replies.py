"""The JSON that clients get, as models, so that OpenAPI describes it exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from deployments.answers import TimedSegment
from deployments.messages import Segment, TextAnalysis, VoiceInfo


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str = Field(description="What is wrong and how to fix it.")
    type: str = Field(description="Kind of error, as OpenAI names them.")
    param: str | None = Field(description="The field at fault, if it is one.")
    code: str = Field(description="Stable name of the error.")


class ErrorReply(BaseModel):
    """The one shape of every error."""

    error: ErrorDetail


class VoiceReply(BaseModel):
    """One voice."""

    id: str = Field(description="As requests name it.")
    name: str
    model: str = Field(description="Model folder it belongs to.")
    emotions: list[str]
    sample_rate: int = Field(description="Hz.")
    language: str = Field(description="BCP 47.")
    license: str
    default: bool = Field(description="Whether requests without a voice get it.")


class VoicesReply(BaseModel):
    """All voices that are served."""

    voices: list[VoiceReply]


class ModelReply(BaseModel):
    """One model, as OpenAI lists them."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="Unix time at which the service started.")
    owned_by: str


class ModelsReply(BaseModel):
    """All models that are served."""

    object: Literal["list"] = "list"
    data: list[ModelReply]


class SegmentReply(BaseModel):
    """A clause or sentence that is synthesised as one piece."""

    text: str = Field(description="The part of the text it came from.")
    normalized: str = Field(description="The same in words.")
    pinyin: list[str] = Field(description="One entry per syllable after tone change; English words as in the text.")
    symbols: str = Field(description="What the acoustic model reads.")
    phones: list[str] = Field(description="The first field of each symbol: phones and breaks.")


class AnalysisReply(BaseModel):
    """What will be spoken."""

    normalized: str
    segments: list[SegmentReply]


class CharacterReply(BaseModel):
    """A character of a word."""

    text: str = Field(description="One character; two where 儿 only colours the syllable; an English word as a whole.")
    start_s: float
    end_s: float


class WordReply(BaseModel):
    """A word and when it is heard."""

    text: str = Field(description="As it is spoken: numbers are words.")
    pinyin: list[str] = Field(description="One entry per syllable; an English word as itself.")
    start_s: float = Field(description="Seconds from the start of the audio.")
    end_s: float
    characters: list[CharacterReply]


class TimedSegmentReply(BaseModel):
    """A clause or sentence and when it is heard."""

    text: str = Field(description="The part of the text it came from.")
    start_s: float = Field(description="Seconds from the start of the audio.")
    end_s: float = Field(description="Without the pause that follows.")
    words: list[WordReply]


class SubtitlesReply(BaseModel):
    """Subtitle files."""

    srt: str = Field(description="SubRip.")
    vtt: str = Field(description="WebVTT.")


class TimestampsReply(BaseModel):
    """Audio with the time of every word."""

    audio: str = Field(description="Base64.")
    response_format: str
    sample_rate: int = Field(description="Hz.")
    duration_s: float
    segments: list[TimedSegmentReply]
    subtitles: SubtitlesReply


class BatchAudio(BaseModel):
    """A line of a batch answer: an item that was spoken."""

    index: int = Field(description="Of the item, from 0.")
    audio: str = Field(description="Base64.")
    response_format: str
    sample_rate: int = Field(description="Hz.")
    duration_s: float


class BatchError(BaseModel):
    """A line of a batch answer: an item that was not spoken."""

    index: int = Field(description="Of the item, from 0.")
    error: ErrorDetail


class AudioUrlReply(BaseModel):
    """Audio that was kept to be fetched."""

    status: Literal["success"] = "success"
    audio_url: str = Field(description="Path of the wav file on this service.", examples=["/api/audio/Xa...9.wav"])
    duration_ms: int = Field(description="Length of the audio.")


class TaskReply(BaseModel):
    """A task that was begun."""

    status: Literal["processing"] = "processing"
    task_id: str = Field(description="To ask for at GET /api/tasks/<task_id>.")


class FailedTaskReply(BaseModel):
    """A task that failed."""

    status: Literal["failed"] = "failed"
    task_id: str
    error: ErrorDetail


class PurgeReply(BaseModel):
    """The cache was purged."""

    removed: int = Field(description="Entries that were removed, from all replicas and tiers.")


class HealthReply(BaseModel):
    """The process lives."""

    status: Literal["ok"] = "ok"


class StageReply(BaseModel):
    """One stage."""

    stage: str
    ready: bool
    reason: str


class ReadyReply(BaseModel):
    """Every stage can serve."""

    status: Literal["ready"] = "ready"
    stages: list[StageReply]


def voices_reply(voices: Sequence[VoiceInfo]) -> VoicesReply:
    """The answer of GET /v1/audio/voices."""
    return VoicesReply(
        voices=[
            VoiceReply(
                id=voice.name,
                name=voice.name,
                model=voice.model,
                emotions=list(voice.emotions),
                sample_rate=voice.sample_rate_hz,
                language=voice.language,
                license=voice.license,
                default=voice.is_default,
            )
            for voice in voices
        ]
    )


def timed_reply(segment: TimedSegment) -> TimedSegmentReply:
    """A segment of the answer of POST /v1/audio/speech/with-timestamps."""
    return TimedSegmentReply.model_validate(dataclasses.asdict(segment))


def analysis_reply(analysis: TextAnalysis) -> AnalysisReply:
    """The answer of POST /v1/text/analysis."""
    return AnalysisReply(
        normalized=analysis.normalized, segments=[_segment_reply(segment) for segment in analysis.segments]
    )


def _segment_reply(segment: Segment) -> SegmentReply:
    return SegmentReply(
        text=segment.text,
        normalized=segment.normalized,
        pinyin=[syllable for word in segment.words for syllable in word.pinyin],
        symbols=segment.symbols,
        phones=[item.strip("{}").split("$")[0] for item in segment.symbols.split()],
    )
