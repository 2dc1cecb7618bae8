"""The key: the same number and text in any form are the same, every setting that changes the audio changes the key."""

import math
import re
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.normalization.cache.key import key_of, noise_key, tag_of, voice_tag

NUMBERS = {"emotion_intensity": 1.0, "speed": 1.0, "pitch": 0.0}


def test_known_key(tools):
    """Fails when anything changes the keys: then raise KEY_VERSION, since old entries are found no more."""
    key = key_of("{a_c$tone1$s_both$word_both$emotion_neutral$F7}", tools.voice(), speed=1.25, version="1")
    assert key == "adafac4d0629-894560282147394d1c5204993a999336ff38a12f"
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]{40}", key)


def test_number_types_and_signs_of_zero_do_not_matter(tools):
    voice = tools.voice()
    expected = key_of("s", voice, emotion_intensity=1.0, speed=2.0, pitch=0.0)
    assert key_of("s", voice, emotion_intensity=1, speed=2, pitch=-0.0) == expected


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(tools, name, value):
    with pytest.raises(ValueError, match="finite"):
        key_of("s", tools.voice(), **{name: value})


text = st.sampled_from(["", "a", "b", "ab", "\x00", "a\x00", "你"])
number = st.sampled_from([0.5, 1.0, math.nextafter(1.0, 2.0), 2.0])
asked = st.tuples(text, text, text, text, st.sampled_from([16_000, 24_000]), number, number, number)


@given(asked, asked)
@settings(max_examples=100)
def test_keys_are_equal_exactly_when_all_that_is_heard_is_equal(left, right):
    def key(parts):
        symbols, name, fingerprint, version, rate, intensity, speed, pitch = parts
        voice = SimpleNamespace(name=name, fingerprint=fingerprint, sample_rate_hz=rate)
        return key_of(symbols, voice, emotion_intensity=intensity, speed=speed, pitch=pitch, version=version)

    assert (key(left) == key(right)) == (left == right)


def test_key_carries_the_voice_and_the_noise(tools):
    key = key_of("s", tools.voice(name="a*b"))
    assert tag_of(key) == voice_tag("a*b") != voice_tag("a")
    assert 0 <= noise_key(key) < 2**64
    assert noise_key(key) != noise_key(key_of("t", tools.voice(name="a*b")))
    assert key.isascii()
    assert len(key.encode()) <= 64  # the longest key of the entries' checksum


def test_lone_surrogates_have_a_key(tools):
    assert key_of("\ud800", tools.voice()) != key_of("\ud801", tools.voice())
