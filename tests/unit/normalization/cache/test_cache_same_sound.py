"""Texts that sound the same share their entries, whatever their spelling; texts and settings that do not never do."""

import pytest

from deployments.normalization.cache.key import key_of
from deployments.normalization.text.frontend import FrontEnd, Pauses


@pytest.fixture(scope="module")
def keys_of():
    front_end = FrontEnd()

    def keys_of_(voice, text, emotion="neutral", **settings):
        analysis = front_end.analyse(
            text,
            normalize=True,
            emotion=emotion,
            speaker="F7",
            max_segment_chars=50,
            has_english=True,
            pauses=Pauses(sentence_s=0.25, clause_s=0.1, paragraph_s=0.5),
        )
        return [key_of(segment.symbols, voice, **settings) for segment in analysis.segments]

    return keys_of_


@pytest.mark.parametrize(
    "spellings",
    [
        ("您好！", "您好", "｢您好｣", " 您好 ", "您好。"),
        ("3点", "三点", "３点"),
        ("今天是2024年5月1日。", "今天是二〇二四年五月一日。", "今天是二零二四年五月一日"),
        ("體驗", "体验"),
    ],
)
def test_same_sound_same_key(keys_of, tools, spellings):
    first, *others = [keys_of(tools.voice(), text) for text in spellings]
    assert first
    assert others == [first] * len(others)


@pytest.mark.parametrize(
    ("left", "right"), [("您好", "你好"), ("3点", "4点"), ("买", "卖"), ("您好，再见", "您好再见")]
)
def test_other_sound_other_key(keys_of, tools, left, right):
    assert keys_of(tools.voice(), left) != keys_of(tools.voice(), right)


def test_emotion_and_settings_part_the_entries(keys_of, tools):
    heard = [
        keys_of(tools.voice(), "您好"),
        keys_of(tools.voice(), "您好", emotion="happy"),
        keys_of(tools.voice(), "您好", speed=1.1),
        keys_of(tools.voice(), "您好", pitch=1.0),
        keys_of(tools.voice(), "您好", emotion_intensity=0.5),
        keys_of(tools.voice(name="other"), "您好"),
        keys_of(tools.voice(fingerprint="f2"), "您好"),
    ]
    assert len(set(map(tuple, heard))) == len(heard)


def test_repeated_sentences_and_common_clauses_are_shared(keys_of, tools):
    voice = tools.voice()
    text = "您的验证码已经发送到您的手机。请在五分钟之内输入验证码完成登录操作。"
    twice = keys_of(voice, text + text)
    assert len(set(twice)) == len(twice) / 2
    left = keys_of(voice, "张先生您好，感谢您的来电。您的电话正在排队，请您不要挂机，谢谢您的耐心等待。")
    right = keys_of(voice, "李女士您好，感谢您的来电。您的电话正在排队，请您不要挂机，谢谢您的耐心等待。")
    assert left[0] != right[0]
    assert left[1:] == right[1:] != []
