"""What a configuration may say of the cache."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from deployments.settings.base import Count, PositiveSeconds, Seconds, Strict


class SqliteCacheSettings(Strict):
    """The cache tier in a file on this machine; all replicas of the machine share it."""

    folder: str = Field(
        "~/.cache/sambert-serve/segments", description="Folder of the cache files; created where it is missing."
    )
    max_bytes: Annotated[int, Field(ge=1 << 18)] = Field(1 << 30, description="Size of the file at most, bytes.")
    busy_timeout_ms: Count = Field(250, description="How long a write waits for another process that writes.")
    read_timeout_ms: Count = Field(200, description="A read that takes longer counts as a fault; the models serve.")
    write_timeout_ms: Count = Field(5000, description="A write that takes longer counts as a fault.")


class RedisCacheSettings(Strict):
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


class CacheSettings(Strict):
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
