"""Latin words into sounds."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.normalization.text.english import English, syllabify
from deployments.voices.symbols import published_tables


@pytest.fixture(scope="module")
def english() -> English:
    return English()


def spelled(english: English, word: str) -> list[tuple[str, str]]:
    return [(" ".join(sound.phones), sound.tone) for sound in english.sounds(word, has_english=True)]


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("hello", [("hh ah", "tone0"), ("l ow", "tone1")]),
        ("student", [("s t uw", "tone1"), ("d ah n t", "tone0")]),
        ("WiFi", [("w ay", "tone1"), ("f ay", "tone0")]),
        ("AI", [("ey", "tone1"), ("ay", "tone1")]),
        ("CEOs", [("s iy", "tone1"), ("iy", "tone1"), ("ow z", "tone1")]),
        ("W", [("d ah", "tone1"), ("b ah l", "tone0"), ("y uw", "tone0")]),
        ("zorp", [("z ao r p", "tone1")]),
    ],
)
def test_words(english: English, word: str, sounds: list[tuple[str, str]]) -> None:
    assert spelled(english, word) == sounds


def test_consonants_go_to_the_next_vowel_as_far_as_english_allows() -> None:
    sounds = syllabify(["EH1", "K", "S", "T", "R", "AH0"])
    assert [sound.phones for sound in sounds] == [("eh", "k"), ("s", "t", "r", "ah")]


def test_approximation_in_chinese_syllables(english: English) -> None:
    sounds = english.sounds("hello", has_english=False)
    assert [sound.phones for sound in sounds] == [("h_c", "a_c"), ("l_c", "ou_c")]


@settings(max_examples=200, deadline=None)
@given(word=st.text(alphabet=string.ascii_letters + "'", min_size=1, max_size=12), has_english=st.booleans())
def test_every_word_sounds_and_every_phone_exists(english: English, word: str, has_english: bool) -> None:
    tables = published_tables()
    sounds = english.sounds(word, has_english=has_english)
    assert bool(sounds) == any(char.isalpha() for char in word)
    for sound in sounds:
        assert sound.phones
        assert set(sound.phones) <= set(tables["phone"])
        assert sound.tone in tables["tone"]
