"""The key of a segment: one name for everything that changes its samples, and for nothing else.

Volume, audio format and output sample rate are applied after the cache and stay out. Emotion and speaker stand in the
symbols. Texts that the front end turns into the same symbols share a key, whatever their spelling.
"""

from __future__ import annotations

import hashlib
import math
import struct
from typing import NewType, Protocol

SegmentKey = NewType("SegmentKey", str)
KEY_VERSION = 1  # raise it when the meaning of a part changes, so that no older entry is found any more
_TAG_BYTES = 6
_DIGEST_BYTES = 20


class VoiceIdentity(Protocol):
    """What the key needs of a voice; messages.VoiceInfo has it."""

    @property
    def name(self) -> str:
        """As requests name it."""

    @property
    def fingerprint(self) -> str:
        """Hash of its checkpoints and configuration."""

    @property
    def sample_rate_hz(self) -> int:
        """Of its waveform."""


def key_of(
    symbols: str,
    voice: VoiceIdentity,
    *,
    emotion_intensity: float = 1.0,
    speed: float = 1.0,
    pitch: float = 0.0,
    version: str = "",
) -> SegmentKey:
    """Names a segment.

    Args:
        symbols: As in messages.Segment.
        voice: Who speaks.
        emotion_intensity: As in messages.AcousticRequest; equal numbers are equal whatever their type.
        speed: Likewise.
        pitch: Likewise, semitones.
        version: Versions of whatever else decides the samples: front end, networks, backend.

    Returns:
        The tag of the voice, a hyphen and a digest; 53 ASCII characters.

    Raises:
        ValueError: A number is not finite.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=b"segment")
    digest.update(struct.pack("<II", KEY_VERSION, voice.sample_rate_hz))
    for number in (emotion_intensity, speed, pitch):
        if not math.isfinite(number):
            raise ValueError(f"emotion_intensity, speed and pitch must be finite numbers (got {number}).")
        digest.update(struct.pack("<d", float(number) + 0.0))  # + 0.0 turns -0.0 into 0.0
    for part in (voice.name, voice.fingerprint, version, symbols):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(struct.pack("<Q", len(raw)))  # lengths keep ("a", "bc") and ("ab", "c") apart
        digest.update(raw)
    return SegmentKey(f"{voice_tag(voice.name)}-{digest.hexdigest()}")


def voice_tag(name: str) -> str:
    """What the keys of all segments of a voice begin with; hexadecimal, so that it is safe in patterns."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_TAG_BYTES, person=b"voice").hexdigest()


def tag_of(key: SegmentKey) -> str:
    """The tag of the voice that a key belongs to."""
    return key.partition("-")[0]


def noise_key(key: SegmentKey) -> int:
    """A 64 bit number for the generator of the excitation noise: segments that share a key share their noise."""
    return int(key.partition("-")[2][:16], 16)
