"""Nothing readable is dropped: what comes in is spoken, whatever the script; only markup and ornaments are silent."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections import Counter

import pytest
from as_served import analyse
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.errors import TextNotSpeakable
from deployments.messages import TextAnalysis
from deployments.normalization.text import clean, english, normalize, pinyin, symbols
from deployments.normalization.text.frontend import FrontEnd

HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
READABLE = re.compile("[A-Za-z]|" + HAN.pattern)
# Characters without which no rule rewrites letters: no digits, signs or brackets.
PLAIN_MARKS = " ，。！？、…\n"
LETTERS = st.one_of(
    st.characters(categories=["L"]),
    st.characters(categories=["Lo"], min_codepoint=0x4E00, max_codepoint=0x9FFF),
    st.sampled_from("的一行长了儿龘㐀𠮷𣎴ａ한あアжщΩßأदก"),
)
SILENT = st.one_of(
    st.characters(categories=["Mn", "Me", "Cf", "Cs", "Co"]),
    st.sampled_from("\ud800\udfff\u200b\u200d\ufe0f🌸👍🏽\u0301\u20e3"),
)


def spoken(analysis: TextAnalysis) -> str:
    return "".join(word.text for segment in analysis.segments for word in segment.words)


def has_reading(frontend: FrontEnd, char: str) -> bool:
    try:
        return bool(analyse(frontend, char).segments)
    except TextNotSpeakable:
        return False


@settings(max_examples=150, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(alphabet=st.one_of(LETTERS, SILENT, st.sampled_from(PLAIN_MARKS)), max_size=40),
        st.text(alphabet="0123456789.,:-/%~+ 元年月日个米a℃²第¥$*()", max_size=40),
    )
)
def test_all_that_is_in_the_normalised_text_is_in_the_words_and_each_word_sounds(frontend: FrontEnd, text: str) -> None:
    try:
        analysis = analyse(frontend, text)
    except TextNotSpeakable:
        return
    for segment in analysis.segments:
        assert all(word.num_symbols > 0 and word.pinyin for word in segment.words)
    written, said = (Counter(READABLE.findall(text)) for text in (analysis.normalized, spoken(analysis)))
    assert not any(has_reading(frontend, char) for char in written - said)
    assert not said - written


@settings(max_examples=200, deadline=None)
@given(letters=st.lists(LETTERS, min_size=1, max_size=12), silent=SILENT, mark=st.sampled_from(PLAIN_MARKS))
def test_every_run_of_letters_is_heard(frontend: FrontEnd, letters: list[str], silent: str, mark: str) -> None:
    """Between 甲 and 乙, with silent characters among them; characters that no table has are the only exception."""
    for letter in letters:
        if not has_reading(frontend, letter):
            assert not unicodedata.normalize("NFKC", letter).isascii()
            continue
        analysis = analyse(frontend, f"甲{mark}{silent}{letter}{silent}{mark}乙")
        words = spoken(analysis)
        assert (words[0], words[-1]) == ("甲", "乙")
        assert len(words) > 2, letter


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet=st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=40))
def test_every_chinese_character_is_one_character_of_the_words(frontend: FrontEnd, text: str) -> None:
    known = [char for char in text if has_reading(frontend, char)]
    assert len(spoken(analyse(frontend, f"甲{text}乙"))) == len(known) + 2


def test_hardly_any_chinese_character_has_no_reading(frontend: FrontEnd) -> None:
    """The rest are characters of other languages, which no table of Chinese has."""
    chars = [chr(code) for code in range(0x4E00, 0x9FA6, 23)]
    assert sum(not has_reading(frontend, char) for char in chars) < 0.005 * len(chars)


def test_a_character_whose_only_listed_reading_is_of_a_dialect_does_not_stop_the_text(frontend: FrontEnd) -> None:
    for char in map(chr, range(0x20000, 0x2A6DF, 97)):
        words = spoken(analyse(frontend, f"好{char}好"))
        assert (words[0], words[-1]) == ("好", "好")


@settings(max_examples=200, deadline=None)
@given(number=st.from_regex(r"[0-9]{1,9}([-./:,~%+*= ]{1,2}[0-9]{1,9}){0,3}[%℃]?", fullmatch=True))
def test_every_number_is_heard(frontend: FrontEnd, number: str) -> None:
    words = spoken(analyse(frontend, f"甲，{number}，乙"))
    assert (words[0], words[-1]) == ("甲", "乙")
    assert not re.search("[0-9]", words)
    groups = [group for group in re.findall("[0-9]+", number) if group.strip("0")]
    said = re.findall("[零幺一二三四五六七八九十百千万亿两]", words)
    assert len(said) >= len(groups)


def test_no_letter_of_any_common_script_is_silent(frontend: FrontEnd) -> None:
    ranges = ((0x41, 0x180), (0x391, 0x3CA), (0x400, 0x460), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x3105, 0x3130))
    letters = [char for start, end in ranges for char in map(chr, range(start, end)) if char.isalpha()]
    assert [char for char in letters if not has_reading(frontend, char)] == list("ЪЬъь")  # signs without a sound


@pytest.mark.parametrize(
    "text", ["你好\ud83d", "\udc00abc", "e\u0301te\u0301", "Ａ１", "𝐀𝟏", "①②", "㈠", "한국", "Привет"]
)
def test_odd_forms_are_heard(frontend: FrontEnd, text: str) -> None:
    assert spoken(analyse(frontend, text))


def test_no_cache_grows_with_what_is_read(frontend: FrontEnd) -> None:
    kept = [
        value
        for module in (normalize, pinyin, symbols, clean, english)
        for owner in (module, *(item for item in vars(module).values() if isinstance(item, type)))
        for value in vars(owner).values()
        if hasattr(value, "cache_parameters") and inspect.signature(value.__wrapped__).parameters
    ]
    assert len(kept) >= 6
    sizes = {value.__qualname__: value.cache_parameters()["maxsize"] for value in kept}
    assert {name for name, size in sizes.items() if size is None} == {"_chinese"}  # by kind, of which there are four
