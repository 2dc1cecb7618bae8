"""Words for emotions."""

import csv
from pathlib import Path

import pytest

from deployments.errors import EmotionNotFound
from deployments.voices import emotions

PUBLISHED = (
    "neutral", "angry", "disgust", "fear", "happy", "sad", "surprise", "calm", "gentle", "relax", "lyrical", "serious",
    "disgruntled", "satisfied", "disappointed", "excited", "anxiety", "jealousy", "hate", "pity", "pleasure", "arousal",
    "dominance",
)  # fmt: skip
FEW = ("neutral", "happy", "sad", "angry", "fear", "surprise")


def test_table_is_clean_and_knows_every_published_emotion_in_both_languages():
    with (Path(emotions.__file__).parent / "emotions.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert {row["emotion"] for row in rows} == set(PUBLISHED)
    assert {(row["emotion"], row["language"]) for row in rows} == {(e, la) for e in PUBLISHED for la in ("zh", "en")}
    keys = [(row["emotion"], row["word"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert all(row["word"] == row["word"].strip().casefold() != "" for row in rows)
    assert all(row["word"].isascii() == (row["language"] == "en") for row in rows)


@pytest.mark.parametrize("emotion", PUBLISHED)
def test_every_emotion_is_found_by_its_own_name(emotion):
    for spelling in (emotion, emotion.upper(), f" emotion_{emotion} "):
        assert emotions.resolve(spelling, PUBLISHED, "v") == emotion


@pytest.mark.parametrize(
    ("word", "emotion"),
    [("开心", "happy"), ("高兴", "happy"), ("joyful", "happy"), ("悲伤", "sad"), ("生气", "angry"), ("害怕", "fear"),
     ("惊讶", "surprise"), ("中性", "neutral"), ("Cheerful", "happy"), ("失望", "sad"), ("紧张", "fear")],
)  # fmt: skip
def test_words_mean_what_a_voice_of_few_emotions_has(word, emotion):
    assert emotions.resolve(word, FEW, "v") == emotion


def test_the_closest_emotion_goes_first():
    assert emotions.resolve("失望", PUBLISHED, "v") == "disappointed"
    assert emotions.resolve("不高兴", PUBLISHED, "v") == "disgruntled"
    assert emotions.resolve("不高兴", FEW, "v") == "sad"


def test_unknown_emotion_lists_those_of_the_voice():
    with pytest.raises(EmotionNotFound, match=r"'demo' has no emotion 'bored'. Its emotions: neutral, happy") as caught:
        emotions.resolve("bored", ("neutral", "happy"), "demo")
    assert caught.value.param == "emotion"


@pytest.mark.parametrize(
    ("instructions", "emotion"),
    [
        ("Speak in a cheerful and positive tone.", "happy"),
        ("用开心的语气说", "happy"),
        ("请用悲伤的声音慢慢读", "sad"),
        ("SAD, please", "sad"),
        ("not sad, rather joyful", "happy"),
        ("don't sound angry", None),
        ("不要生气，温柔一点", None),
        ("别太难过", None),
        ("I am unhappy", "sad"),
        ("happiness and sadness", "happy"),
        ("sadistic gladiators", None),
        ("Read slowly, like a newscaster.", None),
        ("他不高兴", "sad"),
        ("", None),
    ],
)
def test_instructions_name_an_emotion_or_do_nothing(instructions, emotion):
    assert emotions.in_instructions(instructions, FEW) == emotion


def test_instructions_find_a_name_that_only_the_voice_knows():
    assert emotions.in_instructions("in story style", ("neutral", "story")) == "story"
