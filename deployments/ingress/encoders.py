"""Samples to bytes: one container and one encoder per answer, whole or streamed.

An encoder is started once the sample rate is known, fed int16 samples in any portions, and finished. A streamed answer
gets bytes out of every call; a whole one gets all of them at the end, with the sizes in its header exact.
"""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import av
import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from deployments.settings import IngressSettings

UNKNOWN_SIZE = 0xFFFFFFFF
MEDIA_TYPES = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
}
OPUS_RATES_HZ = (8000, 12000, 16000, 24000, 48000)
OPUS_PAGE_US = 100_000
LAME_DELAY = 576


class Encoder(Protocol):
    """Turns the samples of one answer into the bytes of one file."""

    def start(self, sample_rate_hz: int) -> bytes:
        """Opens the file; returns what can be sent already."""
        ...

    def feed(self, pcm_S: NDArray[np.int16]) -> bytes:
        """Takes the next samples, int16 [samples]; returns what can be sent now."""
        ...

    def finish(self) -> bytes:
        """Closes the file; returns the rest."""
        ...


def make_encoder(response_format: str, settings: IngressSettings, *, streamed: bool) -> Encoder:
    """The encoder of a format.

    Args:
        response_format: A key of MEDIA_TYPES.
        settings: Bit rates.
        streamed: Whether bytes are wanted as they come.
    """
    if response_format == "pcm":
        return PcmEncoder()
    if response_format == "wav" and streamed:
        return StreamedWavEncoder()
    if response_format in ("wav", "flac"):
        return SoundFileEncoder(response_format, streamed=streamed)
    kbps = {"mp3": settings.mp3_kbps, "opus": settings.opus_kbps, "aac": settings.aac_kbps}[response_format]
    return CodecEncoder(response_format, 1000 * kbps, streamed=streamed)


class PcmEncoder:
    """16 bit little endian samples without a header."""

    def start(self, sample_rate_hz: int) -> bytes:
        """Nothing: there is no header."""
        return b""

    def feed(self, pcm_S: NDArray[np.int16]) -> bytes:
        """The samples."""
        return pcm_S.astype("<i2", copy=False).tobytes()

    def finish(self) -> bytes:
        """Nothing: there is no trailer."""
        return b""


class StreamedWavEncoder(PcmEncoder):
    """A RIFF file that is sent before its length is known: both sizes stand at their maximum."""

    def start(self, sample_rate_hz: int) -> bytes:
        """The header.

        Source: Microsoft, Multimedia Programming Interface and Data Specifications 1.0, RIFF WAVE; format 1, mono.
        """
        layout = struct.pack("<HHIIHH", 1, 1, sample_rate_hz, 2 * sample_rate_hz, 2, 16)
        riff = b"RIFF" + struct.pack("<I", UNKNOWN_SIZE) + b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
        return riff + b"data" + struct.pack("<I", UNKNOWN_SIZE)


class Sink(io.RawIOBase):
    """A file in memory whose head may be taken away while it is written.

    Writers go back to the header when all is known. What was taken cannot change any more: such writes are dropped and
    the header stays as it was sent, with lengths unknown.

    Args:
        streamed: Whether `take` gives bytes before the end.
    """

    def __init__(self, *, streamed: bool) -> None:
        super().__init__()
        self._streamed = streamed
        self._bytes = bytearray()
        self._num_taken = 0
        self._position = 0

    def take(self, *, last: bool = False) -> bytes:
        """What was written since the last call; nothing before the end of a whole file."""
        if not (self._streamed or last):
            return b""
        taken = bytes(self._bytes)
        self._num_taken += len(taken)
        self._bytes.clear()
        return taken

    def write(self, data: Any) -> int:
        """Writes at the position, as files do, but never over bytes that were taken."""
        block = bytes(data)
        if not block:
            return 0
        start = self._position - self._num_taken
        self._position += len(block)
        if start < 0:
            block = block[-start:] if len(block) > -start else b""
            start = 0
        if start > len(self._bytes):
            self._bytes.extend(bytes(start - len(self._bytes)))
        self._bytes[start : start + len(block)] = block
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._num_taken + len(self._bytes)}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Reads back what has not been taken; writers ask for it when they mend headers."""
        start = max(0, self._position - self._num_taken)
        block = bytes(self._bytes[start : start + len(buffer)])
        buffer[: len(block)] = block
        self._position += len(block)
        return len(block)

    def readable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True


class SoundFileEncoder:
    """wav and flac through libsndfile: lossless, sizes exact in a whole file.

    Args:
        container: "wav" or "flac".
        streamed: Whether bytes are wanted as they come.
    """

    def __init__(self, container: str, *, streamed: bool) -> None:
        self._container = container.upper()
        self._sink = Sink(streamed=streamed)
        self._file: soundfile.SoundFile | None = None

    def start(self, sample_rate_hz: int) -> bytes:
        """Opens the file."""
        self._file = soundfile.SoundFile(
            self._sink, "w", samplerate=sample_rate_hz, channels=1, format=self._container, subtype="PCM_16"
        )
        return self._sink.take()

    def feed(self, pcm_S: NDArray[np.int16]) -> bytes:
        """Writes samples."""
        assert self._file is not None
        self._file.write(pcm_S)
        return self._sink.take()

    def finish(self) -> bytes:
        """Closes the file, which mends the header of a whole one."""
        assert self._file is not None
        self._file.close()
        return self._sink.take(last=True)


class CodecEncoder:
    """mp3, opus (in Ogg) and aac (ADTS) through FFmpeg's libraries.

    The start-up delay of mp3 and opus is written into their headers, so that players cut it off; the padding at the
    end too, except in a streamed mp3, whose header has gone by then: it ends in less than two frames of silence. ADTS
    has no place for either: an aac answer begins with 1024 samples of silence.

    Args:
        codec: "mp3", "opus" or "aac".
        bit_rate: Bits per second.
        streamed: Whether bytes are wanted as they come.
    """

    FORMATS: ClassVar = {"mp3": ("mp3", "libmp3lame"), "opus": ("ogg", "libopus"), "aac": ("adts", "aac")}

    def __init__(self, codec: str, bit_rate: int, *, streamed: bool) -> None:
        self._container_name, self._codec_name = self.FORMATS[codec]
        self._bit_rate = bit_rate
        self._sink = Sink(streamed=streamed)
        self._num_samples = 0
        self._is_open_ended = streamed
        self._is_headless = codec == "mp3"
        self._resampler: soxr.ResampleStream | None = None

    def start(self, sample_rate_hz: int) -> bytes:
        """Opens container and codec; opus gets the next sample rate it knows."""
        rate_hz = sample_rate_hz
        if self._codec_name == "libopus":
            rate_hz = next(rate for rate in OPUS_RATES_HZ if rate >= sample_rate_hz)
        if rate_hz != sample_rate_hz:
            self._resampler = soxr.ResampleStream(sample_rate_hz, rate_hz, 1, dtype="int16", quality="HQ")
        options = {"page_duration": str(OPUS_PAGE_US)} if self._container_name == "ogg" else {}
        self._rate_hz = rate_hz
        self._container = av.open(self._sink, "w", format=self._container_name, options=options)
        stream = self._container.add_stream(self._codec_name, rate=rate_hz)
        assert isinstance(stream, av.AudioStream)
        stream.layout = "mono"
        stream.bit_rate = self._bit_rate
        self._stream = stream
        return self._sink.take()

    def feed(self, pcm_S: NDArray[np.int16]) -> bytes:
        """Encodes samples; the codec keeps what does not fill a frame."""
        if self._resampler is not None:
            pcm_S = self._resampler.resample_chunk(pcm_S)
        self._encode(pcm_S)
        return self._take()

    def finish(self) -> bytes:
        """Encodes what is left and closes the container."""
        if self._resampler is not None:
            self._encode(self._resampler.resample_chunk(np.zeros(0, np.int16), last=True))
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._take(last=True)

    def _take(self, *, last: bool = False) -> bytes:
        data = self._sink.take(last=last)
        if not (self._is_headless and data):
            return data
        self._is_headless = False
        return mend_lame_tag(data, None if self._is_open_ended else self._num_samples, self._rate_hz)

    def _encode(self, pcm_S: NDArray[np.int16]) -> None:
        if not pcm_S.size:
            return
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(pcm_S).reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = self._rate_hz
        frame.time_base = Fraction(1, self._rate_hz)
        frame.pts = self._num_samples
        self._num_samples += pcm_S.size
        self._container.mux(self._stream.encode(frame))


def mend_lame_tag(data: bytes, num_samples: int | None, sample_rate_hz: int) -> bytes:
    """Writes start-up delay and padding into the first frame of an mp3.

    FFmpeg writes the delay only when it closes the file, and the padding of the last packet only, where LAME may have
    filled up two.

    Args:
        data: The head of the file, with the whole first frame.
        num_samples: What was encoded, None when that is not known yet: no padding is declared.
        sample_rate_hz: Of the file.

    Source: Mp3 Info Tag rev. 1: "Xing" or "Info", flags, frames, bytes, table, quality (120 bytes), then 21 bytes to
    the field of 12 bits delay and 12 bits padding.
    """
    tag = max(data.find(b"Xing", 0, 400), data.find(b"Info", 0, 400))
    padding = 0
    if num_samples is not None:
        num_frames = int.from_bytes(data[tag + 8 : tag + 12], "big")
        padding = num_frames * (1152 if sample_rate_hz >= 32000 else 576) - LAME_DELAY - num_samples
    field = (LAME_DELAY << 12 | padding).to_bytes(3, "big")
    return data[: tag + 141] + field + data[tag + 144 :]
