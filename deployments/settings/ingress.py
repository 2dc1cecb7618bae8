"""What a configuration may say of the HTTP surface."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from deployments.settings.base import Count, PositiveSeconds, Replicas, Seconds, Strict


class LiveTextSettings(Strict):
    """Text that arrives in pieces over a WebSocket, and is spoken while more of it comes."""

    max_sessions: Count = Field(256, description="WebSockets that one replica keeps open; more get 429.")
    idle_timeout_s: PositiveSeconds = Field(
        30.0, description="A WebSocket is closed when nothing has been said on it for this long."
    )
    max_chars: Count = Field(20_000, description="Characters of text per WebSocket session; more are refused.")
    clause_chars: Count = Field(
        8, description="Text up to a comma is spoken before its sentence is complete if it has this many characters."
    )
    idle_flush_s: PositiveSeconds = Field(
        1.0, description="Text that has no end yet is spoken when no more arrives for this long."
    )
    pause_sentence_s: Seconds = Field(0.25, description="Silence after a sentence that is followed by more text.")
    pause_clause_s: Seconds = Field(0.1, description="Silence after a clause that is followed by more text.")


class TaskSettings(Strict):
    """Tasks and audio of POST /api/tts: in Redis where cache.tier is redis, else in a file on this machine."""

    folder: str | None = Field(
        None, description='Folder of the file; None is the folder "tasks" beside cache.sqlite.folder.'
    )
    ttl_s: PositiveSeconds = Field(3600.0, description="Results are forgotten after this.")
    max_bytes: Annotated[int, Field(ge=1 << 16)] = Field(
        512 << 20, description="Bytes of results kept; beyond, the oldest are forgotten first."
    )
    max_running: Count = Field(32, description="Tasks that one replica works on at once; more get 429.")
    timeout_s: PositiveSeconds = Field(600.0, description="A task that takes longer fails.")
    lease_s: PositiveSeconds = Field(
        15.0, description="A replica that stops renewing its claim on a task loses it after this: the task has failed."
    )
    drain_s: Seconds = Field(10.0, description="How long a stopping replica goes on with its tasks.")
    store_timeout_ms: Count = Field(5000, description="A store that takes longer counts as a fault: 503.")


class AdmissionSettings(Strict):
    """What one ingress replica takes on; more gets 429 overloaded before any work is done for it."""

    max_requests: Count = Field(128, description="Texts in progress at once.")
    max_audio_s: PositiveSeconds = Field(
        3600.0, description="Seconds of audio, estimated from the texts in progress, that are still to be spoken."
    )
    max_wait_s: PositiveSeconds = Field(
        20.0, description="Nothing more is taken on when what is in progress will take longer, as measured."
    )
    max_request_audio_s: PositiveSeconds = Field(
        30.0, description="A text counts as no more than this: the models get the rest of a long one bit by bit."
    )
    background_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="Part of these limits that tasks and items of batches may take; they wait for their turn."
    )
    max_cached_requests: Annotated[int, Field(ge=0)] = Field(
        16, description="Texts beyond these limits that are looked for in the cache at once; 0 refuses them unseen."
    )
    max_reading: Count = Field(
        128, description="Bodies being received at once; of more, the one that has been sending longest gets 429."
    )


class IngressSettings(Strict):
    """The HTTP surface: limits of a request and of the answer."""

    # Ray's own limits lie far above those of admission: what Ray's proxy refuses is no JSON and costs no less.
    replicas: Replicas = Field(
        Replicas(max_ongoing_requests=4096, max_queued_requests=1024), description="Resources and number of replicas."
    )
    admission: AdmissionSettings = Field(AdmissionSettings(), description="What is taken on.")
    request_timeout_s: PositiveSeconds = Field(
        60.0, description="A request not finished by then gets 504; of a stream, each piece has this time."
    )
    stream_timeout_s: PositiveSeconds = Field(1800.0, description="A stream that takes longer is broken off.")
    max_input_chars: Count = Field(4096, description="Characters of text per request; more get 413.")
    max_body_bytes: Count = Field(1_048_576, description="Bytes of a request body; more get 413.")
    max_header_bytes: Count = Field(65_536, description="Bytes of address, query and headers; more get 431.")
    body_timeout_s: PositiveSeconds = Field(15.0, description="Seconds a caller has to send its body.")
    readiness_timeout_s: PositiveSeconds = Field(5.0, description="Seconds the stages have to answer GET /readyz.")
    voices_refresh_s: PositiveSeconds = Field(5.0, description="Seconds between looks at which voices are served.")
    mp3_kbps: Annotated[int, Field(ge=16, le=160)] = Field(64, description="Bit rate of mp3 answers, kbit/s.")
    opus_kbps: Annotated[int, Field(ge=8, le=160)] = Field(32, description="Bit rate of opus answers, kbit/s.")
    aac_kbps: Annotated[int, Field(ge=16, le=160)] = Field(64, description="Bit rate of aac answers, kbit/s.")
    model_id: str = Field("sambert-hifigan", description="Id of the served model in GET /v1/models.")
    model_aliases: tuple[str, ...] = Field(
        ("tts-1", "tts-1-hd", "gpt-4o-mini-tts"), description="Other model names that are accepted."
    )
    batch_concurrency: Count = Field(8, description="Items of a batch request that are worked on at once.")
    live_text: LiveTextSettings = Field(LiveTextSettings(), description="Text that arrives in pieces.")
    tasks: TaskSettings = Field(TaskSettings(), description="Tasks and audio of POST /api/tts.")
    api_keys_file: str | None = Field(
        None,
        description="File with a name and the SHA-256 of a key per line; read again when it changes. None: no file.",
    )
    api_keys_env: str = Field(
        "SAMBERT_API_KEYS", description="Environment variable with more such lines. Without any the service is open."
    )
    key_requests_per_min: Count | None = Field(
        None, description="Requests that one key may send to one replica per minute; more get 429. None: no limit."
    )
    key_characters_per_min: Count | None = Field(
        None, description="Characters of text that one key may send to one replica per minute. None: no limit."
    )
    cors_origins: tuple[str, ...] = Field(
        (), description='Web pages of other origins that may use the service, as "https://example.org"; "*" is all.'
    )
    log_texts: bool = Field(False, description="Whether the log shows texts; otherwise a hash and their length.")
    admin_key_env: str = Field(
        "SAMBERT_ADMIN_KEY",
        description="Environment variable that holds the key of POST /admin/...; without it there are no such paths.",
    )
