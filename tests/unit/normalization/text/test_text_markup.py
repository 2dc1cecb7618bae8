"""Texts with markup through the front end: readings, silences, the caller's own characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_text_analyser import make, pinyin, read, table

from deployments.errors import EmotionNotFound, TextNotSpeakable
from deployments.messages import Controls
from deployments.normalization.analyser import Analyser
from deployments.normalization.cache.memo import TextMemo
from deployments.normalization.text.frontend import FrontEnd


@pytest.fixture(scope="module")
def analyser(frontend: FrontEnd) -> Analyser:
    return make(frontend)


def heard(analyser: Analyser, inside: str) -> str:
    return pinyin(read(analyser, f"<speak>{inside}</speak>"))


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("cardinal", "-123.01", "负一百二十三点零一"),
        ("cardinal", "10,000", "一万"),
        ("cardinal", "十二", "十二"),
        ("digits", "1234", "一二三四"),
        ("digits", "１２-３４.５", "一二三四点五"),
        ("telephone", "110", "幺幺零"),
        ("telephone", "+86 151-8888-8888", "加八六幺五幺八八八八八八八八"),
        ("id", "b8_1", "B 八下划线幺"),
        ("characters", "A-10，", "A 杠一零逗号"),
        ("punctuation", "你，好。", "你逗号好句号"),
        ("address", "富路国际1号楼3单元304", "富路国际一号楼三单元三零四"),
        ("date", "05-06", "五月六日"),
        ("date", "2024/5/6", "二零二四年五月六日"),
        ("time", "17:30", "十七点三十分"),
        ("currency", "12.5", "十二点五元"),
        ("currency", "$3", "三美元"),
        ("measure", "3kg", "三千克"),
        ("name", "单田芳", "单田芳"),
    ],
)
def test_say_as(analyser: Analyser, kind: str, text: str, words: str) -> None:
    (segment,) = read(analyser, f'<speak><say-as interpret-as="{kind}">{text}</say-as></speak>').segments
    assert segment.normalized.replace(" ", "") == words.replace(" ", "")
    assert segment.text == text


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ('<say-as interpret-as="name">单田芳</say-as>来了', "shan4 tian2 fang1 lai2 le5"),
        ('<phoneme alphabet="py" ph="xing2 hang2">行行</phoneme>', "xing2 hang2"),
        ('<phoneme ph="zher4">这儿</phoneme>', "zher4"),
        ('<phoneme ph="ni3 hao3">你好</phoneme>', "ni2 hao3"),  # tones change as in a lexicon
        ('<phoneme ph="ei1 ai4">AI</phoneme>', "ei1 ai4"),
        ('<phoneme ph="dong1 xi1">东西</phoneme>', "dong1 xi1"),
        ("东西[xi1]", "dong1 xi1"),
        ('<phoneme ph="hang2">行</phoneme>业', "hang2 ye4"),
        (' <break/><sub alias="万维网">W3C</sub><phoneme ph="zhang3">長</phoneme>', "wan4 wei2 wang2 zhang3"),
        ("<w>小孩儿</w>", "xiao3 hair2"),
        ("<w>行[xing2]</w>", "xing2"),
        ('<sub alias="行[hang2]长">X</sub>', "hang2 zhang3"),
        ("行[hang2]", "hang2"),
        ("&#x884C;[hang2]", "hang2"),
        ("3&lt;5", "san1 xiao3 yu2 wu3"),
        ("\ue000好\ue001", "hao3"),
        ('<sub alias="\ue000好">\ue001</sub><w>好</w>', "hao2 hao3"),
    ],
)
def test_readings(analyser: Analyser, inside: str, expected: str) -> None:
    assert heard(analyser, inside) == expected


def test_a_word_is_one_word(analyser: Analyser) -> None:
    (segment,) = read(analyser, "<speak>广州市<w>长隆马戏</w>欢迎您</speak>").segments
    assert "长隆马戏" in [word.text for word in segment.words]


def test_a_reading_in_the_text_wins_over_the_lexicon(frontend: FrontEnd, tmp_path: Path) -> None:
    path = table(tmp_path / "all.tsv", "银行\tyin1 hang1\n")
    analyser = make(frontend, lexicon_file=str(path))
    assert heard(analyser, "银行") == "yin1 hang1"
    for text in ("银行[xing2]", '银<phoneme ph="xing2">行</phoneme>'):
        assert heard(analyser, text) == "yin2 xing2"


def test_a_broken_reading_beside_a_character_is_text(analyser: Analyser) -> None:
    assert pinyin(read(analyser, "银行[abc1]")).startswith("yin2 hang2")


def test_silences(analyser: Analyser) -> None:
    text = (
        '<speak><break time="300ms"/><s>一</s><s>二。</s><p>三</p>四，<emotion category="happy">五</emotion>！'
        '六<prosody rate="fast">七</prosody><break time="2s"/>八<break time="1s"/></speak>'
    )
    segments = read(analyser, text).segments
    assert [segment.text for segment in segments] == ["一", "二。", "三", "四，", "五", "！六", "七", "八"]
    assert [segment.pause_s for segment in segments] == [0.25, 0.5, 0.5, 0.1, 0.25, 0.0, 2.0, 0.0]
    assert [segment.lead_s for segment in segments] == [0.3] + [0.0] * 7
    assert [segment.tail_s for segment in segments] == [0.0] * 7 + [1.0]


def test_texts_are_the_callers_characters_without_tags(analyser: Analyser) -> None:
    text = (
        "<speak>\n  <p>\n <s>今天 3 点，<sub alias='世界贸易组织'>WTO</sub>开会。明天<w>也</w>开。</s>\n  </p>\n"
        "<emotion category='happy'>（） </emotion><s>好&amp;美</s></speak>"
    )
    analysis = read(analyser, text)
    assert [segment.text for segment in analysis.segments] == ["今天 3 点，WTO开会。", "明天也开。（）", "好&美"]
    assert "世界贸易组织" in analysis.normalized


def test_what_cannot_be_spoken_before_the_first_words_stays_with_them(analyser: Analyser) -> None:
    (segment,) = read(analyser, "<speak><s>（）</s><break time='1s'/><s>好</s></speak>").segments
    assert (segment.text, segment.lead_s) == ("（）好", 1.0)
    with pytest.raises(TextNotSpeakable):
        read(analyser, "<speak>。<break time='1s'/> </speak>")


def test_controls_stand_in_the_segments_and_the_emotion_in_the_symbols(analyser: Analyser) -> None:
    text = '<speak voice="bert" rate="500">一<emotion category="开心" intensity="0.5">二</emotion></speak>'
    first, second = read(analyser, text, pitch=2.0, emotion_intensity=1.5).segments
    assert first.controls == Controls(voice="bert", emotion_intensity=1.5, speed=2.0, pitch=2.0)
    assert second.controls == Controls(voice="bert", emotion="happy", emotion_intensity=0.5, speed=2.0, pitch=2.0)
    assert "$emotion_neutral$F_bert}" in first.symbols
    assert "$emotion_happy$F_bert}" in second.symbols
    assert read(analyser, "一").segments[0].controls is None


def test_an_emotion_of_the_request_must_be_had_by_the_voice_of_the_markup(frontend: FrontEnd) -> None:
    analyser = make(frontend)
    with pytest.raises(EmotionNotFound):
        read(analyser, '<speak voice="bert"><emotion category="bored">一</emotion></speak>')


def test_the_memo_tells_requests_apart_that_markup_builds_on(frontend: FrontEnd) -> None:
    memo = TextMemo(1 << 20)
    analyser = make(frontend, memo=memo)
    text = '<speak><prosody rate="50%">一</prosody></speak>'
    slow, fast = read(analyser, text), read(analyser, text, speed=2.0)
    assert [found.segments[0].controls.speed for found in (slow, fast)] == [0.5, 1.0]  # type: ignore[union-attr]
    assert read(analyser, text) is slow
    read(analyser, "一"), read(analyser, "一", speed=2.0)
    assert memo.num_entries == 3
