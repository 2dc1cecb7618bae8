"""What a cached segment looks like as bytes: versioned, checked, lossless.

Layout, little endian: the header below; frames_T as int32 behind zlib; the samples; 16 bytes of BLAKE2b over all of it,
keyed with the segment's key. An entry that is cut, changed, of another version or filed under another key fails the
check, so it is dropped and never played.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import struct
import zlib
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import soundfile
from numpy.typing import NDArray

from deployments.messages import SegmentAudio
from deployments.normalization.cache.key import SegmentKey

Codec = Literal["flac", "pcm"]
ENTRY_VERSION: Final = 1
_MAGIC: Final = b"SSEG"
_HEADER: Final = struct.Struct("<4sBB2xIIIIdd")  # magic, version, codec, rate, samples, symbols, bytes, made, expires
_CHECK_BYTES: Final = 16
_CODECS: Final[dict[Codec, int]] = {"pcm": 0, "flac": 1}
_FLAC_LEVEL: Final = 0.5  # of 0..1; more takes twice the time for 2 % of the size
_MAX_FLAC_RATE_HZ: Final = 655_350


class EntryInvalid(Exception):
    """The bytes are not an entry of this version for this key."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A segment that is kept.

    Attributes:
        audio: Its samples, read-only; the stage times are 0, since a hit spends none.
        made_s: Seconds that its synthesis took.
        expires_at: Unix time after which it is forgotten.
    """

    audio: SegmentAudio
    made_s: float
    expires_at: float


def keep(audio: SegmentAudio, made_s: float, expires_at: float) -> Entry:
    """An entry with samples of its own, so that neither a writer nor a shared buffer behind them can reach it.

    Raises:
        EntryInvalid: The samples or frames are not what messages.SegmentAudio says.
    """
    if audio.pcm_S.dtype != np.int16 or audio.pcm_S.ndim != 1:
        raise EntryInvalid(f"samples are {audio.pcm_S.dtype} with {audio.pcm_S.ndim} axes, not int16 with one")
    if audio.frames_T.dtype != np.int32 or audio.frames_T.ndim != 1:
        raise EntryInvalid(f"frames are {audio.frames_T.dtype} with {audio.frames_T.ndim} axes, not int32 with one")
    return _entry(audio.pcm_S.copy(), audio.sample_rate_hz, audio.frames_T.copy(), made_s, expires_at)


def encode(key: SegmentKey, entry: Entry, codec: Codec) -> bytes:
    """The entry as bytes; samples that FLAC cannot hold or would not shrink are kept as they are.

    Args:
        key: What it is filed under.
        entry: The segment.
        codec: How the samples are kept.
    """
    audio = entry.audio
    samples = audio.pcm_S.astype("<i2", copy=False).tobytes()
    if codec == "flac":
        flac = _to_flac(audio.pcm_S, audio.sample_rate_hz)
        codec, samples = ("flac", flac) if 0 < len(flac) < len(samples) else ("pcm", samples)
    frames = zlib.compress(audio.frames_T.astype("<i4", copy=False).tobytes(), 1)
    header = _HEADER.pack(
        _MAGIC,
        ENTRY_VERSION,
        _CODECS[codec],
        audio.sample_rate_hz,
        len(audio.pcm_S),
        len(audio.frames_T),
        len(frames),
        entry.made_s,
        entry.expires_at,
    )
    body = header + frames + samples
    return body + _check(key, body)


def decode(key: SegmentKey, raw: bytes) -> Entry:
    """The entry that the bytes hold.

    Raises:
        EntryInvalid: They are corrupt, of another version, or filed under another key.
    """
    try:
        return _decode(key, raw)
    except EntryInvalid:
        raise
    except Exception as error:  # whatever a decoder makes of bytes that pass the check but are not ours
        raise EntryInvalid(f"undecodable: {error!r}") from error


def _decode(key: SegmentKey, raw: bytes) -> Entry:
    if len(raw) < _HEADER.size + _CHECK_BYTES:
        raise EntryInvalid(f"{len(raw)} bytes are too few")
    magic, version, codec, rate_hz, num_samples, num_symbols, num_bytes, made_s, expires_at = _HEADER.unpack_from(raw)
    if magic != _MAGIC or version != ENTRY_VERSION:
        raise EntryInvalid(f"{magic!r} version {version} is not {_MAGIC!r} version {ENTRY_VERSION}")
    body = memoryview(raw)[:-_CHECK_BYTES]
    if not hmac.compare_digest(_check(key, body), raw[-_CHECK_BYTES:]):
        raise EntryInvalid("the checksum does not match")
    at = _HEADER.size + num_bytes
    frames = zlib.decompressobj().decompress(body[_HEADER.size : at], 4 * num_symbols + 1)
    frames_T = np.frombuffer(frames, "<i4").astype(np.int32)
    pcm_S = _from_flac(body[at:], num_samples) if codec == _CODECS["flac"] else np.frombuffer(body[at:], "<i2")
    if len(pcm_S) != num_samples or len(frames_T) != num_symbols:
        raise EntryInvalid(f"{len(pcm_S)} samples and {len(frames_T)} symbols, not {num_samples} and {num_symbols}")
    return _entry(pcm_S.astype(np.int16, copy=False), rate_hz, frames_T, made_s, expires_at)


def _entry(
    pcm_S: NDArray[np.int16], rate_hz: int, frames_T: NDArray[np.int32], made_s: float, expires_at: float
) -> Entry:
    pcm_S.flags.writeable = False
    frames_T.flags.writeable = False
    return Entry(SegmentAudio(pcm_S=pcm_S, sample_rate_hz=rate_hz, frames_T=frames_T), made_s, expires_at)


def _check(key: SegmentKey, body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, key=key.encode()[: hashlib.blake2b.MAX_KEY_SIZE]).digest()


def _to_flac(pcm_S: NDArray[np.int16], rate_hz: int) -> bytes:
    """Empty where FLAC has no form for the samples."""
    if not len(pcm_S) or not 0 < rate_hz <= _MAX_FLAC_RATE_HZ:
        return b""
    target = io.BytesIO()
    soundfile.write(target, pcm_S, rate_hz, format="FLAC", subtype="PCM_16", compression_level=_FLAC_LEVEL)
    return target.getvalue()


def _from_flac(raw: memoryview, num_samples: int) -> NDArray[np.int16]:
    with soundfile.SoundFile(io.BytesIO(raw)) as source:
        if source.frames != num_samples or source.channels != 1:
            raise EntryInvalid(f"{source.frames} samples in {source.channels} channels, not {num_samples} in one")
        pcm_S: NDArray[np.int16] = source.read(num_samples, dtype="int16")
        return pcm_S
