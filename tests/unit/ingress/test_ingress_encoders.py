"""Encoders: decoded by another reader, an answer has its length, its samples and no click."""

import io
import struct
import wave

import av
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from ingress_double import tone

from deployments.ingress.encoders import MEDIA_TYPES, Sink, make_encoder
from deployments.settings import IngressSettings

RATES = (8000, 16000, 22050, 24000, 44100, 48000)
LOSSY = ("mp3", "opus", "aac")
AAC_DELAY = 1024
MP3_FRAME = 1152


def encode(response_format, pcm, rate_hz=16000, streamed=False, portion=1000):
    """The bytes that each call of an encoder returns."""
    encoder = make_encoder(response_format, IngressSettings(), streamed=streamed)
    parts = [encoder.start(rate_hz)]
    parts += [encoder.feed(pcm[start : start + portion]) for start in range(0, len(pcm), portion)]
    return [*parts, encoder.finish()]


def decode(data):
    """float samples and rate, by FFmpeg."""
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(audio=0))
    samples = [frame.to_ndarray().reshape(-1) for frame in frames]
    joined = np.concatenate(samples)
    return (joined / 32768 if joined.dtype == np.int16 else joined), frames[0].sample_rate


def test_pcm_is_little_endian_samples():
    assert b"".join(encode("pcm", np.array([1, -2, 300], np.int16))) == struct.pack("<hhh", 1, -2, 300)


@pytest.mark.parametrize("num_samples", [0, 1, 16001])
def test_whole_wav_has_exact_sizes(num_samples):
    pcm = tone(num_samples)
    data = b"".join(encode("wav", pcm))
    assert struct.unpack("<I", data[4:8])[0] == len(data) - 8
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
        assert file.getnframes() == num_samples
        assert file.readframes(num_samples) == pcm.tobytes()


def test_streamed_wav_has_unknown_sizes_and_a_true_header():
    parts = encode("wav", tone(2500), streamed=True)
    whole = b"".join(encode("wav", tone(2500)))
    header = parts[0]
    assert header[4:8] == header[40:44] == b"\xff\xff\xff\xff"
    assert (header[:4], header[8:40]) == (whole[:4], whole[8:40])
    assert b"".join(parts[1:]) == whole[44:]
    assert [len(part) for part in parts] == [44, 2000, 2000, 1000, 0]


@pytest.mark.parametrize("streamed", [False, True])
def test_flac_is_lossless(streamed):
    pcm = tone(16001)
    samples, rate_hz = decode(b"".join(encode("flac", pcm, streamed=streamed)))
    assert rate_hz == 16000
    np.testing.assert_array_equal(samples * 32768, pcm)


def test_whole_flac_tells_its_length():
    assert soundfile.info(io.BytesIO(b"".join(encode("flac", tone(16001))))).frames == 16001


@pytest.mark.parametrize("rate_hz", RATES)
@pytest.mark.parametrize("response_format", ["mp3", "opus"])
def test_mp3_and_opus_decode_to_their_length_and_their_wave(response_format, rate_hz):
    pcm = tone(rate_hz // 2 + 123, rate_hz=rate_hz)
    samples, decoded_hz = decode(b"".join(encode(response_format, pcm, rate_hz)))
    assert abs(len(samples) * rate_hz / decoded_hz - len(pcm)) <= 1
    seconds = np.arange(len(samples)) / decoded_hz
    expected = 0.5 * np.sin(2 * np.pi * 440 * seconds)
    edge = decoded_hz // 50  # codecs smear an onset out of nothing
    assert np.abs(samples - expected)[edge:-edge].max() < 0.06


def test_aac_begins_with_its_delay_and_then_has_the_wave():
    pcm = tone(16123)
    samples, _ = decode(b"".join(encode("aac", pcm)))
    assert len(samples) == AAC_DELAY + -(-len(pcm) // AAC_DELAY) * AAC_DELAY
    heard = samples[AAC_DELAY : AAC_DELAY + len(pcm)]
    assert np.abs(heard - pcm / 32768)[320:-320].max() < 0.1


def test_streamed_mp3_ends_in_less_than_two_frames_of_silence():
    pcm = tone(16123)
    samples, _ = decode(b"".join(encode("mp3", pcm, streamed=True)))
    assert len(pcm) <= len(samples) < len(pcm) + 2 * MP3_FRAME
    assert np.abs(samples[: len(pcm)] - pcm / 32768)[320:-320].max() < 0.06
    assert np.abs(samples[len(pcm) + 320 :]).max(initial=0) < 0.01


@settings(max_examples=25, deadline=None)
@given(num_samples=st.integers(2000, 20_000), rate_hz=st.sampled_from(RATES), portion=st.integers(50, 5000))
def test_whole_mp3_has_its_length_for_two_decoders(num_samples, rate_hz, portion):
    data = b"".join(encode("mp3", tone(num_samples, rate_hz=rate_hz), rate_hz, portion=portion))
    assert len(decode(data)[0]) == soundfile.info(io.BytesIO(data)).frames == num_samples


@pytest.mark.parametrize("response_format", sorted(MEDIA_TYPES))
def test_streams_flow_and_whole_answers_come_at_the_end(response_format):
    pcm = tone(16000)
    streamed = encode(response_format, pcm, streamed=True)
    assert sum(map(bool, streamed)) >= 4
    if response_format != "pcm":
        whole = encode(response_format, pcm)
        assert [bool(part) for part in whole] == [False] * (len(whole) - 1) + [True]


@pytest.mark.parametrize("response_format", LOSSY)
def test_portions_do_not_change_the_sound(response_format):
    pcm = tone(8000)
    one, _ = decode(b"".join(encode(response_format, pcm, portion=8000)))
    many, _ = decode(b"".join(encode(response_format, pcm, portion=77)))
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("response_format", sorted(MEDIA_TYPES))
def test_a_single_sample_can_be_encoded(response_format):
    assert b"".join(encode(response_format, tone(1)))


@settings(max_examples=50)
@given(
    steps=st.lists(
        st.one_of(
            st.binary(max_size=20).map(lambda data: ("write", data)),
            st.integers(0, 60).map(lambda place: ("seek", place)),
            st.just(("take", None)),
        ),
        max_size=20,
    )
)
def test_sink_is_a_file_whose_taken_bytes_stand(steps):
    sink, model, taken = Sink(streamed=True), io.BytesIO(), b""
    for step, value in steps:
        if step == "write":
            start = model.tell()
            model.write(value)
            kept = taken[start:]  # what the model overwrote but the sink had given away
            end = model.tell()
            model.seek(start)
            model.write(kept[: len(value)])
            model.seek(end)
            assert sink.write(value) == len(value)
        elif step == "seek":
            assert sink.seek(value) == model.seek(value)
        else:
            taken += sink.take()
            assert taken == model.getvalue()
        assert sink.tell() == model.tell()
    assert taken + sink.take(last=True) == model.getvalue()
