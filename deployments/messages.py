"""The messages that cross handles between the stages: frozen, plain, no behaviour, no torch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """What a caller wants to hear; the defaults are those of the HTTP interface.

    Attributes:
        text: Plain text or SSML, unnormalised.
        voice: Name of a voice, None for the first one.
        emotion: An emotion of the voice, in English without the prefix "emotion_".
        emotion_intensity: 0.01 to 2.0, along the line from neutral (0) to the emotion (1).
        speed: 0.25 to 4.0; divides the predicted durations.
        pitch: Semitones, -12 to 12.
        volume: 0 to 2; a factor on the waveform, clipped softly.
        sample_rate_hz: Of the answer, None for the voice's own.
        normalize: False for text that is already words.
        use_cache: False synthesises anew.
        stream: Whether the caller plays the samples as they come: then the first segment comes in parts.
        request_id: Follows the request through all stages and logs.
        timeout_s: What is left of the request's time; None for the service's own limit.
        cached_only: True takes what the cache holds and is refused (Overloaded) where the text would have to be read or
            a model would have to work.
    """

    text: str
    voice: str | None = None
    emotion: str = "neutral"
    emotion_intensity: float = 1.0
    speed: float = 1.0
    pitch: float = 0.0
    volume: float = 1.0
    sample_rate_hz: int | None = None
    normalize: bool = True
    use_cache: bool = True
    stream: bool = False
    request_id: str = ""
    timeout_s: float | None = None
    cached_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word as it will be spoken.

    Attributes:
        text: The word in the normalised text (break marks and punctuation are no words).
        pinyin: One entry per syllable after tone change (ni2, hao3, dianr3, lv4); an English word stands as itself.
        start_symbol: Index of its first item in the segment's symbols.
        num_symbols: How many items it has.
    """

    text: str
    pinyin: tuple[str, ...]
    start_symbol: int
    num_symbols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """How a stretch of text is spoken, where markup says it; complete, whatever the request says.

    Attributes:
        voice: Name of the voice.
        emotion: See SpeechRequest; in a segment it stands in the symbols as well.
        emotion_intensity: See SpeechRequest.
        speed: See SpeechRequest.
        pitch: See SpeechRequest.
        volume: See SpeechRequest.
    """

    voice: str
    emotion: str = "neutral"
    emotion_intensity: float = 1.0
    speed: float = 1.0
    pitch: float = 0.0
    volume: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A clause or sentence that is synthesised as one piece.

    Attributes:
        text: The part of the caller's text it came from.
        normalized: The same in words.
        words: What will be spoken, in order.
        symbols: Items "{phone$tone$syllable_flag$word_segment$emotion$speaker}" separated by blanks.
        pause_s: Silence between this segment and the next, seconds.
        controls: How it is spoken; None as the request says.
        lead_s: Silence before it, where the text begins with a break.
        tail_s: Silence after it though nothing follows, where the text ends with a break.
    """

    text: str
    normalized: str
    words: tuple[Word, ...]
    symbols: str
    pause_s: float
    controls: Controls | None = None
    lead_s: float = 0.0
    tail_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcousticRequest:
    """One segment for the acoustic model.

    Attributes:
        voice: Name of the voice.
        symbols: As in Segment; emotion and speaker stand in every item.
        emotion_intensity: See SpeechRequest.
        speed: See SpeechRequest.
        pitch: See SpeechRequest.
        priority: Lower is served first; the index of the segment in its request.
        request_id: For the logs.
        timeout_s: What is left of the request's time.
        stream: Whether the caller takes the frames in pieces (MelChunk) as they are made; the numbers are the same.
    """

    voice: str
    symbols: str
    emotion_intensity: float = 1.0
    speed: float = 1.0
    pitch: float = 0.0
    priority: int = 0
    request_id: str = ""
    timeout_s: float | None = None
    stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MelSpectrogram:
    """The acoustic model's answer.

    Attributes:
        mel_FM: float32 [frames, mel width]; NSF voices carry normalised F0 and voicing in the last two columns.
        frames_T: int32 [symbols]; frames spent on each item, their sum is the number of frames.
        queue_s: Seconds from arrival to admission.
        model_s: Seconds from admission to the result.
    """

    mel_FM: NDArray[np.float32]
    frames_T: NDArray[np.int32]
    queue_s: float = 0.0
    model_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MelChunk:
    """The next frames of a mel spectrogram that is still being made; joined in order they are the whole.

    Attributes:
        first_frame: Number of its first frame in the whole.
        mel_FM: float32 [frames, mel width], at least one frame; see MelSpectrogram.
        is_last: Whether the mel spectrogram ends with it.
        frames_T: int32 [symbols] as in MelSpectrogram, in the first chunk; None in later ones.
        queue_s: Seconds from the request's arrival to its admission.
        model_s: Seconds from admission until this chunk was made.
    """

    first_frame: int
    mel_FM: NDArray[np.float32]
    is_last: bool
    frames_T: NDArray[np.int32] | None = None
    queue_s: float = 0.0
    model_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VocoderRequest:
    """What the vocoder needs beside the mel spectrogram.

    Attributes:
        voice: Name of the voice.
        noise_key: 64 bit key of the counter-based generator of the excitation (NSF voices).
        priority: See AcousticRequest.
        request_id: For the logs.
        timeout_s: What is left of the request's time.
    """

    voice: str
    noise_key: int = 0
    priority: int = 0
    request_id: str = ""
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAudio:
    """The samples of one segment.

    Attributes:
        pcm_S: int16 [samples], mono.
        sample_rate_hz: Of the samples.
        frames_T: int32 [symbols]; see MelSpectrogram.
        acoustic_s: Seconds spent in the acoustic stage (queue and model).
        vocoder_s: Seconds spent in the vocoder stage (queue and model).
    """

    pcm_S: NDArray[np.int16]
    sample_rate_hz: int
    frames_T: NDArray[np.int32]
    acoustic_s: float = 0.0
    vocoder_s: float = 0.0

    @property
    def duration_s(self) -> float:
        """Seconds of audio."""
        return len(self.pcm_S) / self.sample_rate_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenSegment:
    """A segment with its samples, as the normalizer yields them, in order.

    Attributes:
        segment: What was spoken.
        audio: How it sounds, without the pause that follows; of a part, its samples alone.
        cache: "miss", "bypass", or the tier that had it: "memory", "sqlite", "redis".
        index: Position in the request.
        part: 0 for the first or only part; a segment whose samples are sent as they are made comes in several.
        is_last: Whether the segment ends with this part.
        text_s: Seconds the front end spent on the request (first segment only, else 0).
        cache_s: Seconds spent looking in the cache, or waiting for another request's synthesis.
    """

    segment: Segment
    audio: SegmentAudio
    cache: str
    index: int
    part: int = 0
    is_last: bool = True
    text_s: float = 0.0
    cache_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAnalysis:
    """What will be spoken, without speaking.

    Attributes:
        normalized: The whole text in words.
        segments: The pieces it will be synthesised in.
    """

    normalized: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceInfo:
    """What a caller may know of a voice.

    Attributes:
        name: As requests name it.
        model: Id of the model folder it belongs to.
        speaker: Its name in the symbols.
        emotions: In English, without the prefix "emotion_", neutral first where the voice has it.
        sample_rate_hz: Of its waveform.
        hop_samples: Samples per mel frame.
        language: BCP 47.
        license: SPDX id or a short phrase, from its card.
        is_default: Whether requests without a voice get it.
        has_english: Whether English phones were trained.
        fingerprint: Hash of its checkpoints and configuration; part of the cache key.
        phrase_break: The break it was trained to make inside long clauses: "#2" or "#3".
    """

    name: str
    model: str
    speaker: str
    emotions: tuple[str, ...]
    sample_rate_hz: int
    hop_samples: int
    language: str = "zh-CN"
    license: str = "unknown"
    is_default: bool = False
    has_english: bool = True
    fingerprint: str = ""
    phrase_break: str = "#2"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """Whether a stage can serve.

    Attributes:
        stage: "normalizer", "acoustic" or "vocoder".
        ready: True when a request sent now would be served.
        reason: Why not, else "".
    """

    stage: str
    ready: bool
    reason: str = ""
