"""Everything that configs/*.yaml may say, with every default, once.

The models are frozen and refuse unknown keys; `Settings.load` turns pydantic's report into one ConfigurationInvalid
that names the key. This file imports neither Ray nor torch.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from deployments.errors import ConfigurationInvalid

PositiveSeconds = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    """Unknown keys are refused; a group that is given in part keeps its own defaults for the rest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, raw: Any) -> Any:
        """Defaults of a group may differ by where it stands: those of the place hold, not those of its class."""
        if not isinstance(raw, dict):
            return raw
        fields = cls.model_fields
        return {key: _over(fields[key].default, value) if key in fields else value for key, value in raw.items()}


def _over(default: Any, raw: Any) -> Any:
    """What is given, with the rest of the default of a group."""
    if not (isinstance(default, BaseModel) and isinstance(raw, dict)):
        return raw
    own = {key: getattr(default, key) for key in type(default).model_fields}
    return own | {key: _over(own.get(key), value) for key, value in raw.items()}


class Autoscaling(_Strict):
    """When Ray Serve adds and removes replicas of a stage."""

    min_replicas: Annotated[int, Field(ge=0)] = Field(1, description="Never fewer replicas than this.")
    max_replicas: Count = Field(1, description="Never more replicas than this.")
    target_ongoing_requests: Annotated[float, Field(gt=0)] = Field(
        8.0, description="Requests in progress per replica that the autoscaler aims at."
    )
    upscale_delay_s: Seconds = Field(5.0, description="How long load must stay high before a replica is added.")
    downscale_delay_s: Seconds = Field(120.0, description="How long load must stay low before a replica is removed.")

    @model_validator(mode="after")
    def _ordered(self) -> Autoscaling:
        if self.min_replicas > self.max_replicas:
            raise ValueError("min_replicas is greater than max_replicas; raise max_replicas or lower min_replicas")
        return self


class Replicas(_Strict):
    """Resources and number of the replicas of one stage."""

    num_cpus: Annotated[float, Field(ge=0)] = Field(0.25, description="CPU cores Ray reserves per replica.")
    num_gpus: Annotated[float, Field(ge=0)] = Field(0.0, description="GPUs (or a fraction) Ray reserves per replica.")
    label_selector: dict[str, str] = Field(
        {}, description='Labels of the nodes that replicas may run on: a value, "!value", "in(a,b)" or "!in(a,b)".'
    )
    max_replicas_per_node: Annotated[int, Field(ge=1, le=100)] | None = Field(
        None, description="Replicas on one node at most; None: as many as fit."
    )
    autoscaling: Autoscaling = Field(Autoscaling(), description="Bounds and pace of autoscaling.")
    max_ongoing_requests: Count = Field(64, description="Requests one replica works on at once.")
    max_queued_requests: Annotated[int, Field(ge=-1)] = Field(
        256, description="Requests that may wait for a replica per caller; more are refused (-1: no limit)."
    )
    health_check_period_s: PositiveSeconds = Field(10.0, description="Seconds between health checks.")
    health_check_timeout_s: PositiveSeconds = Field(30.0, description="Seconds a health check may take.")
    graceful_shutdown_timeout_s: Seconds = Field(
        20.0, description="Seconds a stopping replica has for work in progress."
    )


class Batching(_Strict):
    """How a stage groups work. All of it may be changed on a live service through user_config."""

    max_batch_size: Count = Field(16, description="Items that run together at most.")
    max_batch_cost: Count = Field(
        4096,
        description="Padded size of a batch at most: items times the longest (tokens in acoustic, frames in vocoder).",
    )
    batch_wait_s: Seconds = Field(0.0, description="How long the collector waits for company when the model is free.")
    batch_timeout_s: PositiveSeconds = Field(
        30.0, description="A batch (acoustic: a step) that runs longer is given up: its requests get 504."
    )
    priority_s: Seconds = Field(
        2.0, description="A segment gives way to requests that arrive up to this much later per segment before it."
    )
    max_priority_s: Seconds = Field(8.0, description="It gives way for this long at most: no segment waits for ever.")
    max_timeouts: Count = Field(3, description="Timeouts in a row after which the replica reports itself unhealthy.")

    def changed(self, user_config: dict[str, Any]) -> Batching:
        """These settings with what a `user_config` changes.

        Raises:
            ConfigurationInvalid: A key is unknown or a value is out of range.
        """
        try:
            change = _UserConfig.model_validate(user_config).batching
            return Batching.model_validate(self.model_dump() | change)
        except ValidationError as error:
            raise explain(error, "user_config") from error


class _UserConfig(_Strict):
    """What `user_config` of Acoustic and Vocoder may say."""

    batching: dict[str, Any] = Field({}, description="Keys of Batching to change.")


class _BatchingStage(_Strict):
    """What the two stages with a model share."""

    # all segments that a normalizer replica may have in progress find room: what was taken on is not refused here
    replicas: Replicas = Field(
        Replicas(num_cpus=0.5, max_queued_requests=1024), description="Resources and number of replicas."
    )
    batching: Batching = Field(Batching(), description="How work is grouped.")
    device: str = Field("auto", description='"cpu", "cuda", "cuda:0"; auto takes a GPU when the replica was given one.')
    threads: Count = Field(1, description="CPU threads of the model per replica.")

    @model_validator(mode="after")
    def _batches_can_fill(self) -> _BatchingStage:
        if self.replicas.max_ongoing_requests < self.batching.max_batch_size:
            raise ValueError(
                f"replicas.max_ongoing_requests={self.replicas.max_ongoing_requests} is less than "
                f"batching.max_batch_size={self.batching.max_batch_size}; raise the one or lower the other"
            )
        return self


class VoiceSource(_Strict):
    """One model folder in ModelScope's layout."""

    model: str = Field(
        description='A local folder, a model id such as "damo/speech_sambert-hifigan_tts_zh-cn_16k", or "bundled".'
    )
    revision: str | None = Field(None, description="Revision of a model id to pin; None takes the hub's default.")
    voices: tuple[str, ...] | None = Field(None, description="Names of its voices to serve; None serves all of them.")


class VoicesSettings(_Strict):
    """Which voices are served and where downloaded ones are kept."""

    sources: Annotated[tuple[VoiceSource, ...], Field(min_length=1)] = Field(
        (VoiceSource(model="bundled"),),
        description="Model folders, in order; the first voice of the first is the default.",
    )
    default: str | None = Field(
        None, description="Name of the voice for requests that name none; None takes the first."
    )
    cache_dir: str = Field("~/.cache/sambert-serve/models", description="Folder for downloaded model folders.")


class LiveTextSettings(_Strict):
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


class TaskSettings(_Strict):
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


class AdmissionSettings(_Strict):
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


class IngressSettings(_Strict):
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


class NormalizerSettings(_Strict):
    """Text to segments of symbols, and how far segments run ahead."""

    replicas: Replicas = Field(Replicas(max_ongoing_requests=128), description="Resources and number of replicas.")
    max_segment_chars: Annotated[int, Field(ge=8, le=200)] = Field(
        50, description="Characters of a segment at most; longer sentences are split at clause ends."
    )
    max_segments_ahead: Count = Field(8, description="Segments of one request in synthesis at once.")
    text_threads: Count = Field(1, description="Threads of the text front end per replica.")
    pause_sentence_s: Seconds = Field(0.25, description="Silence after a sentence end inside a request.")
    pause_clause_s: Seconds = Field(0.1, description="Silence after a clause end where a sentence is split.")
    pause_paragraph_s: Seconds = Field(0.5, description="Silence after a paragraph.")
    max_attempts: Count = Field(3, description="How often a segment is tried when replicas die under it.")
    lexicon_file: str | None = Field(
        None,
        description="TSV of texts and their pinyin, for all voices; read again when it changes. None: there is none.",
    )
    lexicon_files: dict[str, str] = Field(
        {}, description="The same by name of a voice; its entries win. Left out: lexicon.tsv in the voice's folder."
    )


class AcousticSettings(_BatchingStage):
    """Sambert: symbols to mel spectrogram."""

    backend: Literal["auto", "torch", "onnxruntime"] = Field(
        "auto", description="Runtime of the network; auto takes onnxruntime on a CPU where it is installed, else torch."
    )
    max_frames: Count = Field(12_000, description="Mel frames of one segment; more is refused as synthesis_failed.")
    max_admission_cost: Count = Field(
        256, description="Padded tokens that are encoded between two decoder steps; more wait for the next step."
    )
    max_postnet_cost: Count = Field(
        1024, description="Padded frames that the post-net refines between two decoder steps; more wait for the next."
    )
    first_chunk_frames: Count = Field(
        24, description="Mel frames in the first piece of a streamed segment; each further one has up to twice as many."
    )
    chunk_frames: Count = Field(
        96, description="Mel frames of a streamed piece at most, and how many the post-net refines at a time."
    )


class VocoderSettings(_BatchingStage):
    """HifiGan: mel spectrogram to samples."""

    backend: Literal["auto", "torch", "torchscript", "compile", "onnxruntime", "openvino"] = Field(
        "auto",
        description="Runtime of the generator; auto tries those that are installed at start-up and takes the fastest.",
    )
    precision: Literal["float32", "bfloat16", "float16", "int8"] = Field(
        "float32",
        description="Numbers the generator computes in; others than float32 change the sound, the log says how much.",
    )
    trial_s: PositiveSeconds = Field(0.5, description="Seconds that auto spends on timing each runtime.")
    runtime_cache_dir: str = Field(
        "~/.cache/sambert-serve/runtimes",
        description="Folder for the results of trials where the voice's own folder is not to be written to.",
    )
    warm_up: bool = Field(True, description="Whether each window length is run once at start-up.")
    window_frames: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(
        (64, 96, 128, 176, 240, 320, 400, 480),
        description="Lengths, in mel frames, of the windows that utterances are cut into; each costs memory once.",
    )


class SqliteCacheSettings(_Strict):
    """The cache tier in a file on this machine; all replicas of the machine share it."""

    folder: str = Field(
        "~/.cache/sambert-serve/segments", description="Folder of the cache files; created where it is missing."
    )
    max_bytes: Annotated[int, Field(ge=1 << 18)] = Field(1 << 30, description="Size of the file at most, bytes.")
    busy_timeout_ms: Count = Field(250, description="How long a write waits for another process that writes.")
    read_timeout_ms: Count = Field(200, description="A read that takes longer counts as a fault; the models serve.")
    write_timeout_ms: Count = Field(5000, description="A write that takes longer counts as a fault.")


class RedisCacheSettings(_Strict):
    """The cache tier that replicas and machines share."""

    url: str = Field(
        "redis://127.0.0.1:6379/0", description="redis://host:port/db, rediss://... for TLS, or unix:///path?db=0."
    )
    password_env: str = Field(
        "SAMBERT_REDIS_PASSWORD", description="Environment variable that holds the password, where Redis asks for one."
    )
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = Field(
        "sambert", description="What all its keys begin with; lets several services share one Redis."
    )
    max_bytes: Annotated[int, Field(ge=1 << 16)] = Field(
        1 << 30, description="Bytes of entries kept in Redis; beyond, what was asked for longest ago goes first."
    )
    max_connections: Count = Field(16, description="Connections per replica.")
    read_timeout_ms: Count = Field(200, description="A read that takes longer counts as a fault; the models serve.")
    write_timeout_ms: Count = Field(1000, description="A write that takes longer counts as a fault.")
    lock_ms: Annotated[int, Field(ge=50)] = Field(
        2000,
        description="A replica that stops renewing its claim on a segment loses it after this; another one takes over.",
    )
    lock_poll_ms: Count = Field(20, description="How often a replica looks whether another one's segment is finished.")
    lock_wait_ms: Annotated[int, Field(ge=0)] = Field(
        10_000, description="After waiting this long for another replica's segment it is synthesised here too."
    )


class CacheSettings(_Strict):
    """The cache of segments in front of the models, and the memo of analysed texts."""

    enabled: bool = Field(True, description="False synthesises every segment of every request.")
    memory_bytes: Annotated[int, Field(ge=0)] = Field(
        256 << 20, description="Bytes of audio in memory per normalizer replica; 0 keeps none there."
    )
    tier: Literal["none", "sqlite", "redis"] = Field("sqlite", description="What stands behind the memory.")
    sqlite: SqliteCacheSettings = Field(SqliteCacheSettings(), description="The tier in a file.")
    redis: RedisCacheSettings = Field(RedisCacheSettings(), description="The shared tier.")
    codec: Literal["flac", "pcm"] = Field(
        "flac", description="How audio is kept behind the memory; flac takes 0.6 of the space, pcm needs no decoding."
    )
    ttl_s: PositiveSeconds = Field(7 * 86_400.0, description="Entries older than this are forgotten.")
    cold_after_s: PositiveSeconds = Field(
        3 * 86_400.0, description="Entries that nobody asked for in this time are removed by the daily sweep."
    )
    touch_interval_s: PositiveSeconds = Field(3600.0, description="How exactly the time of the last use is kept.")
    max_entry_bytes: Count = Field(4 << 20, description="Segments with more bytes of samples are not kept.")
    max_pending_writes: Count = Field(256, description="Entries that may wait to be written; more are not kept.")
    max_pending_bytes: Count = Field(64 << 20, description="Bytes that may wait to be written; more are not kept.")
    flush_timeout_s: Seconds = Field(5.0, description="How long a stopping replica goes on writing.")
    breaker_failures: Count = Field(5, description="Faults in a row after which a tier is skipped.")
    breaker_open_s: PositiveSeconds = Field(2.0, description="How long it is skipped before it is tried again.")
    breaker_max_open_s: PositiveSeconds = Field(
        60.0, description="Longest pause between tries; each try that fails doubles the pause."
    )
    sweep_interval_s: PositiveSeconds = Field(86_400.0, description="How often expired and cold entries are removed.")
    sweep_rows: Count = Field(200, description="Entries that one step of the sweep looks at.")
    sweep_pause_s: Seconds = Field(0.1, description="Pause between the steps of a sweep.")
    check_interval_s: PositiveSeconds = Field(
        5.0, description="How often sizes are measured and purges by other replicas are looked for."
    )
    ledger_entries: Count = Field(20_000, description="Recent segments whose fate is known, to tell why one misses.")
    text_memo_bytes: Annotated[int, Field(ge=0)] = Field(
        32 << 20, description="Bytes of analysed texts in memory per normalizer replica; 0 keeps none."
    )
    warmup_file: str | None = Field(
        None, description="Phrases to speak at start-up, as in configs/phrases.example.txt; None speaks none."
    )
    warmup_concurrency: Count = Field(2, description="Phrases in progress at once during warm-up.")


class Settings(_Strict):
    """The whole configuration of the application: the `args` of the serve config."""

    voices: VoicesSettings = Field(VoicesSettings(), description="Voices and where they come from.")
    ingress: IngressSettings = Field(IngressSettings(), description="HTTP surface.")
    normalizer: NormalizerSettings = Field(NormalizerSettings(), description="Text front end and order of segments.")
    cache: CacheSettings = Field(CacheSettings(), description="Cache of segments and of analysed texts.")
    acoustic: AcousticSettings = Field(AcousticSettings(), description="Acoustic model.")
    vocoder: VocoderSettings = Field(VocoderSettings(), description="Vocoder.")

    @model_validator(mode="after")
    def _accepted_work_finds_room(self) -> Settings:
        most = self.normalizer.replicas.max_ongoing_requests * self.normalizer.max_segments_ahead
        for name in ("acoustic", "vocoder"):
            room = getattr(self, name).replicas.max_queued_requests
            if 0 <= room < most:
                raise ValueError(
                    f"{name}.replicas.max_queued_requests={room} is less than the {most} segments that one normalizer "
                    "replica may send (normalizer.replicas.max_ongoing_requests times normalizer.max_segments_ahead); "
                    "raise the one or lower the others"
                )
        return self

    @classmethod
    def load(cls, raw: Settings | dict[str, Any] | None) -> Settings:
        """Checks a configuration.

        Args:
            raw: The mapping under `args` in a serve config, or nothing for the defaults.

        Returns:
            The frozen settings.

        Raises:
            ConfigurationInvalid: A key is unknown or a value is out of range; names each key with its full path.
        """
        if isinstance(raw, Settings):
            return raw
        try:
            return cls.model_validate({} if raw is None else raw)
        except ValidationError as error:
            raise explain(error) from error


def explain(error: ValidationError, root: str = "settings") -> ConfigurationInvalid:
    """One error that names every key at fault, from pydantic's report."""
    faults = []
    for fault in error.errors(include_url=False):
        key = ".".join(str(part) for part in fault["loc"]) or root
        if fault["type"] == "extra_forbidden":
            faults.append(f"{key}: no such setting; remove it or mend its spelling (README, Configuration)")
        elif fault["type"] == "value_error":  # of a whole group; the message says which of its keys do not fit
            faults.append(f"{key}: {fault['ctx']['error']}")
        else:
            faults.append(f"{key}: {fault['msg']} (got {fault.get('input')!r})")
    first_key = ".".join(str(part) for part in error.errors()[0]["loc"]) or None
    return ConfigurationInvalid("Configuration invalid. " + "; ".join(faults) + ".", param=first_key)
