"""Entries: bit-exact both ways; whatever is not an entry of this version for this key is refused and never misread."""

import functools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deployments.messages import SegmentAudio
from deployments.normalization.cache.entry import EntryInvalid, decode, encode, keep
from deployments.normalization.cache.key import SegmentKey

KEY = SegmentKey("0123456789ab-" + "c" * 40)
OTHER = SegmentKey("0123456789ab-" + "d" * 40)


def entry(pcm, frames, rate=16_000):
    return keep(SegmentAudio(pcm_S=pcm, sample_rate_hz=rate, frames_T=frames, acoustic_s=1.0), 0.5, 1e9)


samples = st.one_of(
    hnp.arrays(np.int16, st.integers(0, 3000)),
    st.builds(np.full, st.integers(0, 5000), st.integers(-32768, 32767), st.just(np.int16)),
    st.builds(
        lambda n, f: (20000 * np.sin(np.arange(n) * f)).astype(np.int16), st.integers(1, 20_000), st.floats(0, 3)
    ),
)


@given(samples, hnp.arrays(np.int32, st.integers(0, 200)), st.sampled_from([8000, 16_000, 48_000, 700_000]), st.data())
@settings(max_examples=60, deadline=None)
def test_round_trip_is_bit_exact(pcm, frames, rate, data):
    codec = data.draw(st.sampled_from(["flac", "pcm"]))
    found = decode(KEY, encode(KEY, entry(pcm, frames, rate), codec))
    assert found.audio.pcm_S.dtype == np.int16
    assert found.audio.frames_T.dtype == np.int32
    assert np.array_equal(found.audio.pcm_S, pcm)
    assert np.array_equal(found.audio.frames_T, frames)
    assert (found.audio.sample_rate_hz, found.made_s, found.expires_at) == (rate, 0.5, 1e9)
    assert (found.audio.acoustic_s, found.audio.vocoder_s) == (0.0, 0.0)
    assert not found.audio.pcm_S.flags.writeable
    assert not found.audio.frames_T.flags.writeable


@functools.cache
def good(codec="flac"):
    pcm = (9000 * np.sin(np.arange(4000) * 0.05)).astype(np.int16)
    return encode(KEY, entry(pcm, np.arange(30, dtype=np.int32)), codec)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_any_change_is_refused(data):
    raw = bytearray(good(data.draw(st.sampled_from(["flac", "pcm"]))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= data.draw(st.integers(1, 255))
    if bytes(raw) in (good("flac"), good("pcm")):  # the changes undid each other
        return
    with pytest.raises(EntryInvalid):
        decode(KEY, bytes(raw))


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_cut_and_grown_entries_are_refused(data):
    raw = good()
    cut = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:cut], raw[cut + 1 :], raw + raw[: cut + 1]):
        with pytest.raises(EntryInvalid):
            decode(KEY, wrong)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_junk_is_refused(raw):
    with pytest.raises(EntryInvalid):
        decode(KEY, raw)


def test_entry_of_another_key_is_refused():
    with pytest.raises(EntryInvalid, match="checksum"):
        decode(OTHER, good())


def sealed(body):
    """A body with a right checksum, as an entry of other code might have."""
    from deployments.normalization.cache.entry import _check

    return body + _check(KEY, body)


@pytest.mark.parametrize("version", [0, 2, 255])
def test_other_versions_are_refused(version):
    body = bytearray(good()[:-16])
    body[4] = version
    with pytest.raises(EntryInvalid, match="version"):
        decode(KEY, sealed(bytes(body)))


@given(st.integers(0, 39), st.integers(0, 255), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_sealed_nonsense_never_gives_wrong_lengths_or_crashes(at, byte, count):
    """Even with a right checksum, lengths that do not agree are refused."""
    body = bytearray(good("pcm")[:-16])
    body[at] = byte
    try:
        found = decode(KEY, sealed(bytes(body)))
    except EntryInvalid:
        pass
    else:
        assert len(found.audio.pcm_S) == 4000
        assert len(found.audio.frames_T) == 30
    body = bytearray(good("flac")[:-16])
    struct.pack_into("<I", body, 12, count if count != 4000 else 0)  # number of samples
    with pytest.raises(EntryInvalid):
        decode(KEY, sealed(bytes(body)))


def test_kept_samples_are_a_copy():
    pcm, frames = np.arange(100, dtype=np.int16), np.arange(3, dtype=np.int32)
    kept = entry(pcm, frames)
    pcm[:] = 0
    frames[:] = 0
    assert kept.audio.pcm_S[99] == 99
    assert kept.audio.frames_T[2] == 2


@pytest.mark.parametrize(
    ("pcm", "frames"),
    [
        (np.zeros(4, np.float32), np.zeros(1, np.int32)),
        (np.zeros((2, 2), np.int16), np.zeros(1, np.int32)),
        (np.zeros(4, np.int16), np.zeros(1, np.int64)),
    ],
)
def test_what_is_no_segment_audio_is_not_kept(pcm, frames):
    with pytest.raises(EntryInvalid):
        entry(pcm, frames)


def test_speech_like_samples_shrink():
    assert len(good("flac")) < 0.7 * len(good("pcm"))
