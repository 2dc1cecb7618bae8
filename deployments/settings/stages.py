"""What a configuration may say of the voices, the text stage and the two stages with a model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from deployments.settings.base import Batching, Count, PositiveSeconds, Replicas, Seconds, Strict


class _BatchingStage(Strict):
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


class VoiceSource(Strict):
    """One model folder in ModelScope's layout."""

    model: str = Field(
        description='A local folder, a model id such as "damo/speech_sambert-hifigan_tts_zh-cn_16k", or "bundled".'
    )
    revision: str | None = Field(None, description="Revision of a model id to pin; None takes the hub's default.")
    voices: tuple[str, ...] | None = Field(None, description="Names of its voices to serve; None serves all of them.")


class VoicesSettings(Strict):
    """Which voices are served and where downloaded ones are kept."""

    sources: Annotated[tuple[VoiceSource, ...], Field(min_length=1)] = Field(
        (VoiceSource(model="bundled"),),
        description="Model folders, in order; the first voice of the first is the default.",
    )
    default: str | None = Field(
        None, description="Name of the voice for requests that name none; None takes the first."
    )
    cache_dir: str = Field("~/.cache/sambert-serve/models", description="Folder for downloaded model folders.")


class NormalizerSettings(Strict):
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
