"""Times of words and characters: exact to the frame, without gaps or overlaps, at every rate."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.ingress.assemble import Assembly, assemble
from deployments.ingress.timestamps import timed_segment
from deployments.messages import Segment, SegmentAudio, SpokenSegment, Word

BREAK = "{#1$tone_none$s_none$word_none$emotion_none$F7}"
FLAGS = {1: ("s_both",), 2: ("s_begin", "s_end"), 3: ("s_begin", "s_middle", "s_end")}


def made(*words, text="原文", pause_s=0.25):
    """A segment of words (text, pinyin, phones per syllable) with a break after each."""
    items, placed = [], []
    for word, pinyin, sizes in words:
        flags = [flag for size in sizes for flag in FLAGS[size]]
        placed.append(Word(text=word, pinyin=pinyin, start_symbol=len(items), num_symbols=len(flags)))
        items += [f"{{a_c$tone1${flag}$word_both$emotion_neutral$F7}}" for flag in flags]
        items.append(BREAK)
    return Segment(text=text, normalized="", words=tuple(placed), symbols=" ".join(items), pause_s=pause_s)


def characters(segment, frames, frame_s="1/80", start_s=0):
    timed = timed_segment(segment, np.array(frames, np.int32), Fraction(frame_s), Fraction(start_s))
    return [(c.text, c.start_s, c.end_s) for word in timed.words for c in word.characters]


def test_a_word_by_hand():
    segment = made(("您好", ("nin2", "hao3"), (2, 2)), ("啊", ("a5",), (1,)))
    timed = timed_segment(segment, np.array([8, 8, 4, 12, 2, 6, 0], np.int32), Fraction(1, 80), Fraction(3, 2))
    assert (timed.text, timed.start_s, timed.end_s) == ("原文", 1.5, 2.0)
    assert [(w.text, w.pinyin, w.start_s, w.end_s) for w in timed.words] == [
        ("您好", ("nin2", "hao3"), 1.5, 1.9),
        ("啊", ("a5",), 1.925, 2.0),
    ]
    assert [(c.text, c.start_s, c.end_s) for c in timed.words[0].characters] == [("您", 1.5, 1.7), ("好", 1.7, 1.9)]


@pytest.mark.parametrize(
    ("word", "pinyin", "sizes", "parts"),
    [
        ("点儿", ("dianr3",), (2,), ["点儿"]),  # one r-coloured syllable
        ("点儿", ("dianr3",), (2, 2), ["点", "儿"]),  # a voice without its phone says two
        ("一点儿水", ("yi4", "dianr3", "shui3"), (1, 2, 2), ["一", "点儿", "水"]),
        ("儿子", ("er2", "zi5"), (2, 2), ["儿", "子"]),
        ("女儿", ("nv3", "er2"), (2, 2), ["女", "儿"]),
        ("𠮷林", ("ji2", "lin2"), (2, 2), ["𠮷", "林"]),
        ("hello", ("hello",), (2, 3), ["hello"]),
        ("OK", ("OK",), (2, 2), ["OK"]),  # two letters are not two syllables
        ("好好", ("hao3",), (2,), ["好好"]),  # whatever does not add up stays whole
        ("", (), (), [""]),
    ],
)
def test_parts_of_a_word(word, pinyin, sizes, parts):
    segment = made((word, pinyin, sizes))
    found = characters(segment, [3] * len(segment.symbols.split()))
    assert [text for text, _, _ in found] == parts
    assert (found[0][1], found[-1][2]) == (0, 3 * sum(sizes) / 80)


SYLLABLES = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4).map(
    lambda sizes: ("字" * len(sizes), ("zi4",) * len(sizes), tuple(sizes))
)
ENGLISH = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4).map(lambda sizes: ("word", ("word",), sizes))


@st.composite
def answers(draw):
    """Segments of one voice with frames for every symbol."""
    hop, rate_hz = draw(st.sampled_from([(200, 16000), (240, 24000), (256, 22050)]))
    spoken = []
    for index in range(draw(st.integers(1, 4))):
        words = draw(st.lists(st.one_of(SYLLABLES, ENGLISH), min_size=1, max_size=4))
        segment = made(*words, text=f"第{index}段", pause_s=draw(st.sampled_from([0.0, 0.1, 0.25])))
        num_symbols = len(segment.symbols.split())
        frames = draw(st.lists(st.integers(0, 12), min_size=num_symbols, max_size=num_symbols))
        pcm_S = np.full(hop * sum(frames), 1000, np.int16)
        audio = SegmentAudio(pcm_S=pcm_S, sample_rate_hz=rate_hz, frames_T=np.array(frames, np.int32))
        spoken.append(SpokenSegment(segment=segment, audio=audio, cache="miss", index=index))
    return hop, rate_hz, spoken


@settings(max_examples=60, deadline=None)
@given(answer=answers(), answer_rate_hz=st.sampled_from([None, 8000, 22050, 48000]))
def test_times_are_exact_monotonic_and_cover_the_audio(answer, answer_rate_hz):
    hop, rate_hz, spoken = answer
    audio = assemble(spoken, answer_rate_hz)
    start = Fraction(0)
    for part, timed in zip(spoken, audio.segments, strict=True):
        frames = part.audio.frames_T.tolist()
        exact = [float(start + Fraction(hop * sum(frames[:n]), rate_hz)) for n in range(len(frames) + 1)]
        assert (timed.start_s, timed.end_s) == (exact[0], exact[-1])
        assert timed.text == part.segment.text
        for word, heard in zip(part.segment.words, timed.words, strict=True):
            assert (heard.start_s, heard.end_s) == (
                exact[word.start_symbol],
                exact[word.start_symbol + word.num_symbols],
            )
            assert "".join(c.text for c in heard.characters) == heard.text == word.text
            assert heard.pinyin == word.pinyin
            bounds = [heard.start_s, *(c.end_s for c in heard.characters)]
            assert [c.start_s for c in heard.characters] == bounds[:-1]
            assert bounds == sorted(bounds)
            assert bounds[-1] == heard.end_s
        # every frame belongs to a word or to the break after it
        ends = [word.start_symbol + word.num_symbols + 1 for word in part.segment.words]
        assert [word.start_symbol for word in part.segment.words[1:]] == ends[:-1]
        assert ends[-1] == len(frames)
        start += Fraction(hop * sum(frames), rate_hz) + Fraction(round(part.segment.pause_s * rate_hz), rate_hz)
    # the last segment ends with the audio; resampling rounds to one sample
    assert abs(audio.segments[-1].end_s * audio.sample_rate_hz - len(audio.pcm)) <= (1.0 if answer_rate_hz else 1e-6)


def test_a_long_answer_does_not_drift():
    segment = made(("字", ("zi4",), (2,)), pause_s=0.1)
    audio = SegmentAudio(pcm_S=np.zeros(256 * 7, np.int16), sample_rate_hz=22050, frames_T=np.array([3, 4, 0]))
    assembly = Assembly()
    for index in range(3000):
        assembly.add(SpokenSegment(segment=segment, audio=audio, cache="miss", index=index))
    last = assembly.timeline(2999)
    assert len(last) == 1
    assert last[0].start_s == float(Fraction(2999 * (256 * 7 + 2205), 22050))
    assert assembly.num_samples == 3000 * 256 * 7 + 2999 * 2205
