"""Subtitles: nothing lost, no word divided, lines that can be read in the time they have."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deployments.answers import TimedSegment, TimedWord
from deployments.ingress.subtitles import MAX_COLUMNS, MAX_GAP_S, MIN_CUE_S, Cue, columns, cues, pieces, srt, vtt


def segment(*tokens, start_s=0.0, word_s=0.4):
    """A segment of (text, spoken words) tokens; every word lasts as long as the others."""
    words, end_s = [], start_s
    for _, spoken in tokens:
        for word in spoken:
            words.append(TimedWord(text=word, pinyin=(), start_s=end_s, end_s=end_s + word_s, characters=()))
            end_s += word_s
    return TimedSegment(
        text="".join(text for text, _ in tokens), start_s=start_s, end_s=max(end_s, start_s + 0.01), words=tuple(words)
    )


def plain(*words):
    """Tokens that are spoken as they are written; marks are not spoken."""
    return [(word, [word] if re.match(r"\w", word) else []) for word in words]


def bare(text):
    return "".join(text.split())


def test_numbers_stay_as_the_caller_wrote_them():
    tokens = [("共", ["共"]), ("3.5", ["三点", "五"]), ("公里", ["公里"]), ("，", []), ("2024年", ["二零二四", "年"])]
    found = pieces(segment(*tokens, word_s=0.5))
    assert [(piece.text, piece.start_s, piece.end_s) for piece in found] == [
        ("共", 0.0, 0.5),
        ("3.5", 0.5, 1.5),
        ("公里，", 1.5, 2.0),
        ("2024", 2.0, 2.5),
        ("年", 2.5, 3.0),
    ]


def test_opening_marks_go_with_what_follows():
    found = pieces(segment(*plain("他", "说", "：“", "你好", "！”", "（", "笑", "）")))
    assert [piece.text for piece in found] == ["他", "说：", "“你好！”", "（笑）"]


def test_readings_in_brackets_and_markup_are_not_shown():
    shown = cues([segment(("<b>行[hang2]</b>", ["行"]), ("长  来\n了[注]", ["长", "来", "了"]))])
    assert [cue.lines for cue in shown] == [("行长 来 了[注]",)]


def test_a_long_sentence_is_divided_at_its_marks_into_like_parts():
    words = [
        "今天",
        "天气",
        "非常",
        "好",
        "，",
        "我们",
        "一家人",
        "一起",
        "去",
        "公园",
        "散步",
        "，",
        "看见",
        "了",
        "许多",
        "漂亮",
        "的",
        "花",
        "和",
        "小鸟",
        "。",
    ]
    lines = [cue.lines for cue in cues([segment(*plain(*words))])]
    assert lines == [("今天天气非常好，",), ("我们一家人一起去公园散步，",), ("看见了许多漂亮的花和小鸟。",)]


def test_without_marks_it_is_divided_between_words():
    lines = [cue.lines for cue in cues([segment(*plain(*["我们", "一起去", "公园"] * 5))])]
    assert lines == [("我们一起去公园我们一起去公园我们一起去",), ("公园我们一起去公园我们一起去公园",)]


def test_short_cues_share_the_screen_and_gaps_are_closed():
    parts = [segment(*plain("好", "。"), start_s=0.0), segment(*plain("谢谢", "。"), start_s=0.65)]
    parts.append(segment(*plain(*["再见"] * 9), start_s=1.3))
    assert cues(parts) == (Cue(("好。谢谢。",), 0.0, 1.3), Cue(("再见" * 9,), 1.3, pytest.approx(4.9)))


def test_a_line_that_has_no_room_becomes_the_second():
    parts = [segment(*plain("好", "。")), segment(*plain(*["再见"] * 9, "。"), start_s=0.5)]
    assert cues(parts) == (Cue(("好。", "再见" * 9 + "。"), 0.0, pytest.approx(4.1)),)


def test_a_long_silence_blanks_the_screen():
    parts = [segment(*plain("好", "。")), segment(*plain("谢谢", "。"), start_s=5.0)]
    assert [(cue.start_s, cue.end_s) for cue in cues(parts)] == [(0.0, MIN_CUE_S), (5.0, 5.4)]


def test_files_by_hand():
    shown = (Cue(("好 <b> & -->", "第二行"), 0.0, 1.2346), Cue(("完",), 3599.9996, 36000.0))
    assert srt(shown) == (
        "1\n00:00:00,000 --> 00:00:01,235\n好 <b> & →\n第二行\n\n2\n01:00:00,000 --> 10:00:00,000\n完\n\n"
    )
    assert vtt(shown) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.235\n好 &lt;b&gt; &amp; --&gt;\n第二行\n\n"
        "01:00:00.000 --> 10:00:00.000\n完\n\n"
    )
    assert (srt(()), vtt(())) == ("", "WEBVTT\n\n")


def test_columns():
    assert [columns(text) for text in ("好", "a", "。", "é", "e\u0301", "ａ", "")] == [2, 1, 2, 1, 1, 2, 0]


WORD = st.text("一二三天地人你我他好来去", min_size=1, max_size=4).map(lambda word: (word, [word]))
ENGLISH = st.text("abcdexyz", min_size=1, max_size=9).map(lambda word: (f" {word} ", [word]))
NUMBER = st.sampled_from(
    [
        ("3", ["三"]),
        ("10.5%", ["百分之", "十点五"]),
        ("2024", ["二零二四"]),
        ("¥7", ["七", "元"]),
        ("1/2", ["二分之一"]),
    ]
)
MARK = st.sampled_from(["，", "。", "！？", "……", "、", "“", "”", " ", "\n", "（", "）"]).map(lambda mark: (mark, []))
TOKENS = st.lists(st.one_of(WORD, WORD, WORD, MARK, ENGLISH, NUMBER), min_size=1, max_size=25)
ANSWERS = st.lists(st.tuples(TOKENS, st.sampled_from([0.0, 0.1, 0.25, 3.0])), min_size=1, max_size=4)


@settings(max_examples=80, deadline=None)
@given(answer=ANSWERS, word_s=st.sampled_from([0.05, 0.3, 1.1]))
@example(answer=[([("。", [])], 0.1), ([("好", ["好"])], 0.1)], word_s=0.05)
def test_any_text(answer, word_s):
    parts, start_s = [], 0.0
    for tokens, pause_s in answer:
        parts.append(segment(*tokens, start_s=start_s, word_s=word_s))
        start_s = parts[-1].end_s + pause_s
    shown = cues(parts)
    # nothing is lost, nothing is added
    assert "".join(bare(line) for cue in shown for line in cue.lines) == bare("".join(part.text for part in parts))
    # words and numbers stay whole: every line ends where a token of the text ends
    tokens = [text.strip() for spoken, _ in answer for text, _ in spoken]
    ends, place = {0}, 0
    for token in tokens:
        # marks may go to either side, one by one
        ends |= {place + n for n in range(1, len(token))} if not re.match(r"[\w¥]", token) else set()
        place += len(bare(token))
        ends.add(place)
    place = 0
    for cue in shown:
        for line in cue.lines:
            place += len(bare(line))
            assert place in ends, line
            assert columns(line) <= MAX_COLUMNS
            assert line == line.strip() != ""
        assert 1 <= len(cue.lines) <= 2
    # in order, without overlap, inside the audio, without short gaps
    assert all(0 <= cue.start_s < cue.end_s for cue in shown)
    for cue, following in pairwise(shown):
        gap_s = following.start_s - cue.end_s
        assert gap_s == 0 or gap_s > MAX_GAP_S - MIN_CUE_S
        assert gap_s > 0 or not all(c.end_s - c.start_s < MIN_CUE_S and len(c.lines) == 1 for c in (cue, following))
    # both files say the same, to the millisecond
    stamp = r"(\d\d):(\d\d):(\d\d)[,.](\d{3})"
    times = [[tuple(map(int, match)) for match in re.findall(stamp, text)] for text in (srt(shown), vtt(shown))]
    assert times[0] == times[1]
    milliseconds = [((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in times[0]]
    assert milliseconds == sorted(milliseconds)
    exact = [1000 * t for cue in shown for t in (cue.start_s, cue.end_s)]
    assert all(abs(a - b) <= 1 for a, b in zip(milliseconds, exact, strict=True))
