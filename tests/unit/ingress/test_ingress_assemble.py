"""From segments to one answer: exact samples, pauses, rates, volume."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ingress_double import RATE_HZ, spoken, tone

from deployments.errors import TextNotSpeakable
from deployments.ingress.assemble import KNEE, Assembly, amplify, assemble, summary
from deployments.messages import Controls

RATES = (8000, 16000, 22050, 24000, 44100, 48000)


def test_samples_are_untouched_and_pauses_lie_between_segments_only():
    first, second = tone(1000), tone(500, hz=300)
    audio = assemble([spoken(0, first, pause_s=0.25), spoken(1, second, pause_s=0.5)])
    np.testing.assert_array_equal(audio.pcm, np.concatenate([first, np.zeros(4000, np.int16), second]))
    assert audio.pcm.dtype == np.int16
    assert audio.sample_rate_hz == RATE_HZ


def test_segments_lie_where_their_samples_are():
    audio = assemble([spoken(0, tone(1600), pause_s=0.25), spoken(1, tone(800))])
    assert [segment.text for segment in audio.segments] == ["段0", "段1"]
    assert [s.start_s for s in audio.segments] == pytest.approx([0.0, 0.35])
    assert [s.end_s for s in audio.segments] == pytest.approx([0.1, 0.4])


def test_times_of_the_stages_are_summed():
    timings_s = assemble([spoken(0, tone(10)), spoken(1, tone(10))]).timings_s
    assert timings_s == pytest.approx({"text": 0.003, "cache": 0.0, "acoustic": 0.04, "vocoder": 0.02})


def test_no_segment_is_no_answer():
    with pytest.raises(TextNotSpeakable):
        assemble([])


@pytest.mark.parametrize("rate_hz", RATES)
def test_a_tone_keeps_its_pitch_level_and_length_at_every_rate(rate_hz):
    audio = assemble([spoken(0, tone(RATE_HZ, hz=1000, level=0.5))], sample_rate_hz=rate_hz)
    assert len(audio.pcm) == rate_hz
    spectrum = np.abs(np.fft.rfft(audio.pcm * np.hanning(rate_hz)))
    assert np.argmax(spectrum) == 1000
    middle = audio.pcm[rate_hz // 4 : 3 * rate_hz // 4] / 32768
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=1e-3)
    assert audio.segments[0].end_s == 1.0


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    pauses_s=st.lists(st.sampled_from([0.0, 0.1, 0.25]), min_size=6, max_size=6),
    rate_hz=st.sampled_from([None, *RATES]),
    volume=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
)
def test_segments_make_the_same_samples_as_one_piece(lengths, pauses_s, rate_hz, volume):
    segments = [spoken(i, tone(n, hz=200 + 50 * i), pause_s=pauses_s[i]) for i, n in enumerate(lengths)]
    in_pieces = assemble(segments, rate_hz, volume)
    joined = assemble([spoken(0, assemble(segments).pcm)], rate_hz, volume)
    np.testing.assert_array_equal(in_pieces.pcm, joined.pcm)
    expected = sum(lengths) + sum(round(p * RATE_HZ) for p in pauses_s[: len(lengths) - 1])
    assert abs(len(in_pieces.pcm) - expected * (rate_hz or RATE_HZ) / RATE_HZ) <= 1
    assert in_pieces.segments[-1].end_s == pytest.approx(expected / RATE_HZ)


def test_segments_of_another_rate_join_without_loss():
    parts = [spoken(0, tone(1600), pause_s=0), spoken(1, tone(2400, rate_hz=24000), rate_hz=24000)]
    audio = assemble(parts)
    assert (len(audio.pcm), audio.sample_rate_hz) == (3200, RATE_HZ)
    # a rounded sample apart plus the filter's edge where the rate changes
    assert np.abs(audio.pcm[1700:3100] - tone(1600)[100:1500].astype(int)).max() <= 40


def test_nothing_is_held_back_without_resampling():
    assembly = Assembly()
    assert len(assembly.add(spoken(0, tone(123)))) == 123
    assert len(assembly.finish()) == 0
    assert assembly.num_samples == 123


class TestVolume:
    def test_half_is_half(self):
        wave = np.array([0.5, -1.0, 1.0, 0.001], np.float32)
        np.testing.assert_allclose(amplify(wave, 0.5), wave / 2, rtol=1e-6)

    def test_below_the_knee_double_is_double(self):
        wave = np.linspace(-KNEE / 2, KNEE / 2, 101, dtype=np.float32)
        np.testing.assert_allclose(amplify(wave, 2.0), 2 * wave, rtol=1e-6)

    @given(volume=st.floats(1.0, 2.0))
    def test_louder_is_monotonic_and_ends_at_full_scale(self, volume):
        wave = np.linspace(-1, 1, 2001, dtype=np.float32)
        loud = amplify(wave, volume)
        assert np.all(np.diff(loud) >= -1e-7)
        assert loud[-1] == pytest.approx(1.0, abs=1e-6)
        np.testing.assert_allclose(loud, -loud[::-1], atol=1e-6)
        # no corner: the slope never jumps by more than the curve's own bend over a step
        assert np.abs(np.diff(loud, 2)).max() < 0.02

    def test_goes_over_into_untouched(self):
        wave = np.linspace(-1, 1, 2001, dtype=np.float32)
        np.testing.assert_allclose(amplify(wave, 1.0001), wave, atol=2e-4)

    def test_loudest_samples_are_not_wrapped(self):
        full = np.array([32767, -32768, 32767, 20000, -20000], np.int16)
        pcm = assemble([spoken(0, full)], volume=2.0).pcm
        assert list(np.sign(pcm)) == [1, -1, 1, 1, -1]
        assert np.all(np.abs(pcm.astype(int)) >= np.abs(full.astype(int)) - 1)

    def test_overshoot_of_the_resampler_is_not_wrapped(self):
        square = np.where(np.arange(4000) // 40 % 2, 32767, -32768).astype(np.int16)
        pcm = assemble([spoken(0, square)], sample_rate_hz=48000).pcm
        assert np.abs(np.diff(pcm.astype(int))).max() < 40000
        assert np.abs(pcm.astype(int)).max() >= 32767

    def test_zero_is_silence(self):
        assert not assemble([spoken(0, tone(1000))], volume=0.0).pcm.any()


@pytest.mark.parametrize(
    ("caches", "word"),
    [
        (["miss", "miss"], "miss"),
        (["memory", "redis", "sqlite"], "hit"),
        (["memory", "miss"], "partial"),
        (["bypass", "bypass"], "bypass"),
    ],
)
def test_cache_in_one_word(caches, word):
    assert summary(caches) == word
    assert assemble([spoken(i, tone(1), cache=cache) for i, cache in enumerate(caches)]).cache == word


def marked(segment, **changes):
    """A spoken segment as markup asks for it."""
    return replace(segment, segment=replace(segment.segment, **changes))


@pytest.mark.parametrize("rate_hz", [None, 48000])
def test_markup_sets_the_volume_of_its_segments_alone(rate_hz):
    wave = tone(1600, level=0.4)
    quiet = marked(spoken(0, wave, pause_s=0), controls=Controls(voice="a", volume=0.25))
    plain = spoken(1, wave, pause_s=0)
    audio = assemble([quiet, plain, quiet], rate_hz, volume=0.5)
    alone = [assemble([segment], rate_hz, volume=0.5).pcm for segment in (quiet, plain, quiet)]
    np.testing.assert_array_equal(audio.pcm, np.concatenate(alone))
    assert np.abs(alone[0] * 2 - alone[1].astype(int)).max() <= 1


@pytest.mark.parametrize("rate_hz", [None, 8000, 48000])
def test_breaks_at_the_ends_of_a_text_are_silence(rate_hz):
    first, last = marked(spoken(0, tone(1600), pause_s=0.5), lead_s=0.25), marked(spoken(1, tone(1600)), tail_s=1.0)
    audio = assemble([first, last], rate_hz)
    assert [segment.start_s for segment in audio.segments] == pytest.approx([0.25, 0.85])
    assert audio.segments[-1].end_s == pytest.approx(0.95)
    assert len(audio.pcm) == 1.95 * audio.sample_rate_hz
    silent = round(0.98 * audio.sample_rate_hz)
    assert not audio.pcm[-silent:].any()


def test_a_break_comes_once_where_a_segment_comes_in_parts():
    whole = marked(spoken(0, tone(800)), lead_s=0.1, tail_s=0.2)
    parts = [
        replace(whole, audio=replace(whole.audio, pcm_S=whole.audio.pcm_S[:300]), is_last=False),
        replace(whole, audio=replace(whole.audio, pcm_S=whole.audio.pcm_S[300:]), part=1),
    ]
    np.testing.assert_array_equal(assemble(parts).pcm, assemble([whole]).pcm)
    assert assemble(parts).segments == assemble([whole]).segments


def test_a_break_at_the_end_is_heard_before_more_text():
    assembly = Assembly()
    assembly.add(marked(spoken(0, tone(800), pause_s=0), tail_s=0.5))
    assembly.pause(0.1)
    assert len(assembly.add(spoken(0, tone(800)))) == 800 + 8000
    assert len(assembly.finish()) == 0
