"""What OpenAPI says beyond what FastAPI knows: audio bodies, headers, every error in its one shape."""

from __future__ import annotations

import copy
from typing import Any

from fastapi import FastAPI

from deployments.errors import (
    DeadlineExceeded,
    InvalidRequest,
    KeyRejected,
    ModelNotFound,
    NotReady,
    Overloaded,
    RateLimited,
    SpeechError,
    SynthesisFailed,
    TooLarge,
)
from deployments.ingress.encoders import MEDIA_TYPES
from deployments.ingress.gate import needs_key
from deployments.ingress.replies import ErrorReply

SYNTHESIS_ERRORS = (
    InvalidRequest,
    TooLarge,
    ModelNotFound,
    Overloaded,
    RateLimited,
    SynthesisFailed,
    NotReady,
    DeadlineExceeded,
)
REQUEST_ID_HEADER = {
    "description": "The caller's own if it sent one, else a new one.",
    "schema": {"type": "string"},
}
AUDIO_HEADERS: dict[str, Any] = {
    "x-cache": {
        "description": "How the segments were had: hit, partial, miss, bypass. Not told by a stream, unless bypass.",
        "schema": {"type": "string", "enum": ["hit", "partial", "miss", "bypass"]},
    },
    "x-audio-duration-ms": {"description": "Length of a whole answer.", "schema": {"type": "string"}},
    "server-timing": {
        "description": "Milliseconds by stage of a whole answer: text, cache, acoustic, vocoder, encode.",
        "schema": {"type": "string"},
    },
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
WAV_REPLY: dict[str, Any] = {
    "description": "The audio, 16 bit mono, as an attachment speech.wav.",
    "content": {"audio/wav": BINARY},
    "headers": {
        **AUDIO_HEADERS,
        "content-disposition": {"description": "attachment", "schema": {"type": "string"}},
    },
}
AUDIO_REPLY: dict[str, Any] = {
    "description": "The audio in the format that was asked for, mono; or events (stream_format sse).",
    "content": {
        **dict.fromkeys(MEDIA_TYPES.values(), BINARY),
        "text/event-stream": {"schema": {"type": "string"}},
    },
    "headers": AUDIO_HEADERS,
}


BATCH_REPLY: dict[str, Any] = {
    "description": "One JSON object per line: {index, audio (base64), response_format, sample_rate, duration_s} for an "
    "item that was spoken, {index, error} for one that was not.",
    "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
}
STREAMED_WAV_REPLY: dict[str, Any] = {
    "description": "The audio, 16 bit mono, sent as it is spoken; sizes in its header are 0xFFFFFFFF.",
    "content": {"audio/wav": BINARY},
    "headers": {"x-cache": AUDIO_HEADERS["x-cache"]},
}
KEPT_WAV_REPLY: dict[str, Any] = {
    "description": "The audio, 16 bit mono.",
    "content": {"audio/wav": BINARY},
    "headers": {"accept-ranges": {"description": "bytes", "schema": {"type": "string"}}},
}
PART_REPLY: dict[str, Any] = {
    "description": "The part of the audio that the header Range asks for.",
    "content": {"audio/wav": BINARY},
    "headers": {"content-range": {"description": "Which bytes of how many.", "schema": {"type": "string"}}},
}

SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
TASK_LINKS: dict[str, Any] = {
    "status": {"operationId": "task", "parameters": {"task_id": "$response.body#/task_id"}},
    "audio": {"operationId": "audio", "parameters": {"name": "{$response.body#/task_id}.wav"}},
}


def describe_errors(*errors: type[SpeechError], synthesis: bool = False) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may fail in these ways, each with an example of the error shape.

    Args:
        errors: Kinds of failure beside a fault of the service.
        synthesis: Whether the route takes a body and works on the stages, with all that may fail there.
    """
    described: dict[int | str, dict[str, Any]] = {}
    kinds = (*errors, *(SYNTHESIS_ERRORS if synthesis else ()), SpeechError)
    for kind in dict.fromkeys(kinds):
        reply = described.setdefault(kind.status, {"model": ErrorReply, "description": ""})
        reply["description"] = f"{reply['description']} {_summary(kind)}".strip()
        content = reply.setdefault("content", {"application/json": {"examples": {}}})
        content["application/json"]["examples"] |= _example(kind)
        if kind in (Overloaded, RateLimited):
            reply["headers"] = {"retry-after": {"description": "Seconds to wait.", "schema": {"type": "string"}}}
    return described


def finish_openapi(app: FastAPI, *, asks_for_keys: bool = False) -> None:
    """Takes FastAPI's own validation error, which no client sees, out of the description; adds request id and keys.

    Args:
        app: Whole.
        asks_for_keys: Whether the service is for holders of API keys alone.
    """
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        described = copy.deepcopy(generate())
        for path, methods in described["paths"].items():
            for operation in methods.values():
                operation["responses"].pop("422", None)
                if asks_for_keys and needs_key(path):
                    operation["security"] = [{"bearer": []}, {"apiKey": []}]
                    operation["responses"]["401"] = _json_reply(KeyRejected)
                for reply in operation["responses"].values():
                    reply.setdefault("headers", {})["x-request-id"] = REQUEST_ID_HEADER
        if asks_for_keys:
            described.setdefault("components", {})["securitySchemes"] = SECURITY_SCHEMES
        for name in ("HTTPValidationError", "ValidationError"):
            described.get("components", {}).get("schemas", {}).pop(name, None)
        return described

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description


def _json_reply(kind: type[SpeechError]) -> dict[str, Any]:
    """One error for an operation that is described already."""
    schema = {"$ref": f"#/components/schemas/{ErrorReply.__name__}"}
    content = {"application/json": {"schema": schema, "examples": _example(kind)}}
    return {"description": _summary(kind), "content": content}


def _summary(kind: type[SpeechError]) -> str:
    """The first paragraph of what is written about an error, on one line."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _example(kind: type[SpeechError]) -> dict[str, Any]:
    """An error as an example of the one shape, by its code."""
    summary = _summary(kind)
    return {kind.code: {"summary": summary, "value": kind(summary).body()}}
