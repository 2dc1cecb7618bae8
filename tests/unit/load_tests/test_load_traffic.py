"""The traffic is what its parameters say, and the same for the same seed."""

import math
import statistics
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load_tests.phrases import Phrase, _templates, _words, personas, phrase_book, spoken_length
from load_tests.traffic import Traffic

GOLDEN_TEXTS = [
    "老板，给您算一笔账：一份智能手表只要746.35元，够全家人用上一个学期。",
    "很抱歉，没有听清，请您再说一遍。",
    "前8百名下单的朋友，再送一份雨伞，数量有限，先到先得。",
]
GOLDEN_TIMES = [1.742, 1.917, 2.28, 2.443]
SHARES = {name: persona.share for name, persona in personas().items()}


def calls(number, **parameters):
    return list(islice(Traffic(**parameters).calls(), number))


@given(seed=st.integers(0, 10**9))
@settings(max_examples=10, deadline=None)
def test_the_same_seed_gives_the_same_traffic_and_another_one_another(seed):
    first, again, other = (calls(60, seed=s, num_phrases=40, disconnects=0.3) for s in (seed, seed, seed + 1))
    assert first == again
    assert [call.phrase for call in first] != [call.phrase for call in other]
    times, times_again, other_times = (list(islice(Traffic(seed=s).arrivals(), 60)) for s in (seed, seed, seed + 1))
    assert times == times_again
    assert times != other_times


def test_traffic_is_the_same_on_every_machine():
    traffic = Traffic(seed=7, num_phrases=30)
    assert [call.phrase.text for call in islice(traffic.calls(), 3)] == GOLDEN_TEXTS
    assert [round(time_s, 3) for time_s in islice(traffic.arrivals(), 4)] == GOLDEN_TIMES


@given(
    hot_requests=st.floats(0.05, 0.95),
    hot_phrases=st.floats(0.05, 0.5),
    seed=st.integers(0, 1000),
)
@settings(max_examples=15, deadline=None)
def test_the_hot_phrases_get_their_share_of_requests(hot_requests, hot_phrases, seed):
    number = 4000
    traffic = Traffic(seed=seed, num_phrases=60, hot_phrases=hot_phrases, hot_requests=hot_requests)
    hot = set(traffic.phrases[: traffic.num_hot])
    assert len(hot) == round(hot_phrases * 60)
    counts = Counter(call.phrase for call in islice(traffic.calls(), number))
    share = sum(counts[phrase] for phrase in hot) / number
    # Five standard deviations of the binomial distribution.
    assert share == pytest.approx(hot_requests, abs=5 * math.sqrt(hot_requests * (1 - hot_requests) / number))
    expected = hot_requests * number / len(hot)
    assert all(abs(counts[phrase] - expected) < 6 * math.sqrt(expected) for phrase in hot)


def test_the_published_numbers_are_the_default():
    traffic = Traffic()
    assert (traffic.hot_requests, traffic.num_hot / traffic.num_phrases) == (0.3, 0.1)
    drawn = calls(5000)
    assert sum(call.is_hot for call in drawn) / 5000 == pytest.approx(0.3, abs=0.035)
    assert all(call.is_hot == (call.phrase in traffic.phrases[:20]) for call in drawn)


def test_a_book_has_distinct_phrases_and_begins_with_the_shorter_book():
    book = phrase_book(300, 3, SHARES, ("neutral",))
    assert len({phrase.text for phrase in book}) == 300
    assert phrase_book(40, 3, SHARES, ("neutral",)) == book[:40]
    assert not any("{" in phrase.text or "}" in phrase.text for phrase in book)


def test_personas_come_by_their_shares():
    book = phrase_book(1000, 1, {"shop": 3, "assistant": 1}, ("neutral",))
    share = sum(phrase.persona == "shop" for phrase in book) / 1000
    assert share == pytest.approx(0.75, abs=0.07)
    with pytest.raises(ValueError, match="unknown persona 'robot'; there are call_centre, shop"):
        phrase_book(1, 1, {"robot": 1}, ("neutral",))


@pytest.mark.parametrize("name", SHARES)
def test_lengths_follow_the_persona(name):
    persona = personas()[name]
    lengths = [phrase.num_spoken for phrase in phrase_book(200, 11, {name: 1}, ("neutral",))]
    assert statistics.median(lengths) == pytest.approx(persona.median, rel=0.2)
    assert statistics.stdev(map(math.log, lengths)) == pytest.approx(persona.spread, rel=0.35)
    assert min(lengths) <= persona.median * math.exp(-persona.spread)
    assert max(lengths) >= persona.median * math.exp(persona.spread)
    assert max(lengths) <= persona.longest * 1.2


def test_emotions_are_those_of_the_persona_that_the_voice_has():
    book = phrase_book(600, 5, {"shop": 1}, ("neutral", "happy"))
    assert {phrase.emotion for phrase in book} == {"neutral", "happy"}
    # 6 of 10 are happy; the surprised tenth, which the voice cannot say, becomes neutral.
    assert sum(phrase.emotion == "happy" for phrase in book) / 600 == pytest.approx(0.6, abs=0.1)


def test_only_spoken_characters_count():
    assert spoken_length("您好，请稍候。 “12” ") == 7
    assert Phrase("好的。", "assistant", "neutral").num_spoken == 2


def test_every_slot_of_every_template_has_words():
    number_slots = {"digit", "hour", "minutes", "degrees", "tail", "code", "money", "date", "year"}
    slots = {slot.split("}")[0] for texts in _templates().values() for text in texts for slot in text.split("{")[1:]}
    assert slots == number_slots | set(_words())
    assert set(_templates()) == set(SHARES)


def test_arrivals_have_the_asked_rate_and_bursts():
    def counts(**parameters):
        times = list(islice(Traffic(rate_hz=5.0, **parameters).arrivals(), 60_000))
        assert times == sorted(times)
        assert len(times) / times[-1] == pytest.approx(5.0, rel=0.06)
        per_window = Counter(int(time_s / 5) for time_s in times)
        windows = [per_window[index] for index in range(int(times[-1] / 5))]
        return statistics.variance(windows) / statistics.mean(windows)

    # Variance over mean of the counts is 1 for a Poisson process and more for one with bursts.
    assert counts(burst_factor=1.0) == pytest.approx(1.0, abs=0.1)
    assert counts(burst_factor=5.0) > 3


def test_callers_leave_and_think_as_asked_without_changing_what_is_said():
    patient, hasty = calls(3000), calls(3000, disconnects=0.2, patience_s=0.5)
    assert [call.phrase for call in patient] == [call.phrase for call in hasty]
    assert all(call.leaves_after_s is None for call in patient)
    left = [call.leaves_after_s for call in hasty if call.leaves_after_s is not None]
    assert len(left) / 3000 == pytest.approx(0.2, abs=0.035)
    assert statistics.fmean(left) == pytest.approx(0.5, rel=0.2)
    thinks = [call.think_s for call in patient if call.phrase.persona == "call_centre"]
    assert statistics.fmean(thinks) == pytest.approx(personas()["call_centre"].think_s, rel=0.15)


@pytest.mark.parametrize(
    "wrong",
    [{"num_phrases": 0}, {"hot_requests": 1.1}, {"rate_hz": 0.0}, {"burst_factor": 0.5}, {"burst_length_s": 60.0}],
)
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        Traffic(**wrong)
