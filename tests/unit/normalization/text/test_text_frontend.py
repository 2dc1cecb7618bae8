"""The whole front end: the known pair, cover of the text, any Unicode."""

from __future__ import annotations

import re
import threading

import pytest
from as_served import analyse
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.errors import TextNotSpeakable
from deployments.messages import TextAnalysis
from deployments.normalization.text import tables
from deployments.normalization.text.frontend import FrontEnd, Pauses
from deployments.voices.symbols import published_tables

PAUSES = Pauses(sentence_s=0.25, clause_s=0.1, paragraph_s=0.5)
ITEM = re.compile(r"\{([^$]+)\$([^$]+)\$([^$]+)\$([^$]+)\$([^$]+)\$F7\}")
KNOWN = [  # 北京今天天气怎么样 as the published front end gives it
    "b_c tone3,ei_c tone3,j_c tone1,ing_c tone1",
    "j_c tone1,in_c tone1,t_c tone1,ian_c tone1",
    "t_c tone1,ian_c tone1,q_c tone4,i_c tone4",
    "z_c tone3,en_c tone3,m_c tone5,e_c tone5,y_c tone4,ang_c tone4",
]


@pytest.fixture(scope="module")
def symbols() -> dict[str, frozenset[str]]:
    return {table: frozenset(found) for table, found in published_tables().items()}


def known_items() -> list[str]:
    items = []
    for index, group in enumerate(KNOWN):
        phones = group.split(",")
        for place, phone_and_tone in enumerate(phones):
            phone, tone = phone_and_tone.split()
            flag = "s_begin" if place % 2 == 0 else "s_end"
            word = "word_begin" if place == 0 else "word_end" if place == len(phones) - 1 else "word_middle"
            items.append(f"{{{phone}${tone}${flag}${word}$emotion_neutral$F7}}")
        mark = "#4" if index == len(KNOWN) - 1 else "#1"
        items.append(f"{{{mark}$tone_none$s_none$word_none$emotion_none$F7}}")
    return items


def test_known_pair_item_by_item(frontend: FrontEnd) -> None:
    (segment,) = analyse(frontend, "北京今天天气怎么样").segments
    assert segment.symbols.split(" ") == known_items()


def test_words_point_at_their_items(frontend: FrontEnd) -> None:
    (segment,) = analyse(frontend, "北京今天天气怎么样").segments
    assert [(word.text, word.start_symbol, word.num_symbols) for word in segment.words] == [
        ("北京", 0, 4),
        ("今天", 5, 4),
        ("天气", 10, 4),
        ("怎么样", 15, 6),
    ]
    assert segment.words[3].pinyin == ("zen3", "me5", "yang4")


@pytest.mark.parametrize("text", ["", " ", "🌸🌸", "。。。！？", "\u200b\ufeff", "\n\n", "**", "<b></b>", "\x00\x07"])
def test_nothing_speakable(frontend: FrontEnd, text: str) -> None:
    with pytest.raises(TextNotSpeakable):
        analyse(frontend, text)


def check(analysis: TextAnalysis, text: str, symbols: dict[str, frozenset[str]]) -> None:
    """Everything that must hold for any text."""
    assert "".join(segment.text for segment in analysis.segments) == text
    assert analysis.segments[-1].pause_s == 0
    for segment in analysis.segments:
        fields = [ITEM.fullmatch(item) for item in segment.symbols.split(" ")]
        for field in fields:
            assert field is not None, segment.symbols
            for name, value in zip(
                ("phone", "tone", "syllable_flag", "word_segment", "emotion"), field.groups(), strict=True
            ):
                assert value in symbols[name], field[0]
        breaks = [field is not None and field[1].startswith("#") for field in fields]
        assert breaks[-1]
        place = 0
        for word in segment.words:
            while breaks[place]:
                place += 1
            assert word.start_symbol == place, segment
            assert not any(breaks[place : place + word.num_symbols])
            place += word.num_symbols
        assert all(breaks[place:])
        flags = [field[4] for field in fields if field is not None]
        for index, is_break in enumerate(breaks):
            assert is_break == (flags[index] == "word_none")
            if is_break:
                assert not breaks[index - 1]
                assert flags[index - 1] in {"word_end", "word_both"}


TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="一二不了的行长儿这了。，！？\n 12.:-/%ABcd[]*#<&;中國語あ가é̈①½²℃", max_size=60),
    st.text(alphabet=st.characters(min_codepoint=0x3000, max_codepoint=0xFFEF), max_size=40),
)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, has_english=st.booleans(), normalize=st.booleans(), max_chars=st.integers(8, 50))
def test_any_text_gives_valid_symbols_or_a_clear_error(
    frontend: FrontEnd,
    symbols: dict[str, frozenset[str]],
    text: str,
    has_english: bool,
    normalize: bool,
    max_chars: int,
) -> None:
    try:
        analysis = analyse(frontend, text, has_english=has_english, normalize=normalize, max_segment_chars=max_chars)
    except TextNotSpeakable:
        assert not re.search(r"[0-9A-Za-z]", re.sub(r"<[^>]*>|&\S*;", "", text))
        assert not any(tables_know(char) for char in text)
    else:
        check(analysis, text, symbols)


def tables_know(char: str) -> bool:
    return char in {row[0] for row in tables.rows("readings.tsv")}


def test_long_sentence_is_divided_at_clause_ends_and_inside_none_too_long(frontend: FrontEnd) -> None:
    text = "我们今天早上从家里出发去公园散步，" * 8 + "回家。"
    segments = analyse(frontend, text).segments
    assert len(segments) > 2
    for segment in segments:
        assert len(segment.normalized) <= 50
        assert segment.normalized[-1] in "，。"
    assert {segment.pause_s for segment in segments[:-1]} == {PAUSES.clause_s}


def test_text_without_marks_is_divided_between_words(frontend: FrontEnd) -> None:
    text = "我们今天早上从家里出发去公园散步然后回家吃饭" * 6
    analysis = analyse(frontend, text)
    assert all(8 <= len(segment.normalized) <= 50 for segment in analysis.segments)
    assert not any(segment.normalized.startswith(("园", "上", "步", "里")) for segment in analysis.segments)


def test_never_inside_a_number_or_latin_word(frontend: FrontEnd) -> None:
    text = "编号123456789012345678和一二三四五六七八九零一二三四五六以及Internationalization然后结束"
    segments = analyse(frontend, text, max_segment_chars=12).segments
    joined = "|".join(segment.normalized for segment in segments)
    assert not re.search(r"[零一二三四五六七八九幺]\|[零一二三四五六七八九幺]", joined)
    assert "Internationalization" in joined


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("你好。再见。", [0.25, 0.0]),
        ("你好。\n再见。", [0.5, 0.0]),
        ("你好\n再见", [0.25, 0.0]),
        ("你好\n\n再见", [0.5, 0.0]),
    ],
)
def test_pauses_by_kind_of_end(frontend: FrontEnd, text: str, pauses: list[float]) -> None:
    assert [segment.pause_s for segment in analyse(frontend, text).segments] == pauses


def test_commas_are_long_breaks(frontend: FrontEnd) -> None:
    (segment,) = analyse(frontend, "你好，再见。").segments
    assert re.findall(r"#\d", segment.symbols) == ["#3", "#4"]


def test_inline_pinyin_is_honoured_and_not_spoken(frontend: FrontEnd) -> None:
    (segment,) = analyse(frontend, "他行[hang2]吗").segments
    assert segment.normalized == "他行吗"
    assert [pinyin for word in segment.words for pinyin in word.pinyin] == ["ta1", "hang2", "ma5"]


def test_segments_quote_the_caller(frontend: FrontEnd) -> None:
    segments = analyse(frontend, "**重点**：有22人。看這裡&amp;那里！").segments
    assert [segment.text for segment in segments] == ["**重点**：有22人。", "看這裡&amp;那里！"]
    assert [segment.normalized for segment in segments] == ["重点：有二十二人。", "看这里和那里！"]


def test_threads_agree(frontend: FrontEnd) -> None:
    texts = ["行长说这行不行，2024年共有35%的人。", "他得马上去医院。", "Hello世界，重庆的重量。"] * 5
    expected = [analyse(frontend, text) for text in texts]
    results: dict[int, list[TextAnalysis]] = {}

    def work(index: int) -> None:
        results[index] = [analyse(frontend, text) for text in texts]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(results[index] == expected for index in range(4))


@pytest.mark.parametrize("pool", ["0123456789.,:-/%~ ", "行长一不了的，", "aB1", "한국어あ", "&<*#[](\\$^"])
def test_longest_text_is_cut_into_segments_that_a_model_can_take(
    frontend: FrontEnd, symbols: dict[str, frozenset[str]], pool: str
) -> None:
    text = (pool * 4096)[:4096]
    try:
        analysis = analyse(frontend, text)
    except TextNotSpeakable:
        assert not any(char.isalnum() for char in pool)
    else:
        check(analysis, text, symbols)
        assert max(len(segment.normalized) for segment in analysis.segments) <= 100
