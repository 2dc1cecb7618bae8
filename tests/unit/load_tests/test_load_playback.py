"""Starvation as a player hears it, and the faults that the check of long texts knows."""

import base64
import io

import numpy as np
import pytest
import soundfile

from load_tests.long_texts import LONGEST, SHORTEST, faults, jumps, long_texts, readings
from load_tests.playback import Arrival, Heard
from load_tests.streams import text_of

RATE_HZ = 16_000


def heard(*arrivals):
    """(seconds, seconds of audio) of each chunk."""
    return Heard([Arrival(at_s, round(audio_s * 2 * RATE_HZ)) for at_s, audio_s in arrivals], 2 * RATE_HZ)


def test_a_stream_that_is_always_ahead_never_starves():
    stream = heard((0.2, 0.5), (0.6, 0.5), (1.1, 2.0))
    assert stream.starved_s == 0
    assert stream.first_s == 0.2
    assert stream.total_s == 1.1
    assert stream.audio_s == pytest.approx(3.0)


def test_each_wait_of_the_player_counts_and_moves_what_follows():
    # Plays from 0.2 to 0.7; waits until 1.0, plays to 1.5; the last chunk comes 0.25 s after that.
    assert heard((0.2, 0.5), (1.0, 0.5), (1.75, 1.0)).starved_s == pytest.approx(0.3 + 0.25)


def test_texts_are_as_long_as_asked_and_the_same_for_a_seed():
    rows = readings()
    texts = list(long_texts(rows, 20))
    assert len(rows) > 1000
    assert texts == list(long_texts(rows, 20)) != list(long_texts(rows, 20, seed=1))
    assert all(SHORTEST <= len(text) <= LONGEST for text in texts)
    assert [len(text_of(number, 200)) for number in range(3)] == [200] * 3
    assert len({text_of(number, 200) for number in range(5)}) == 5


def test_a_jump_at_a_join_is_told_from_loud_speech():
    wave_S = 0.5 * np.sin(np.arange(8000) * 0.3).astype(np.float32)
    assert not jumps(wave_S, 4000, RATE_HZ)
    wave_S[4000:] += 0.9
    assert jumps(wave_S, 4000, RATE_HZ)
    assert not jumps(wave_S, 7900, RATE_HZ)


def answer(words, duration_s=1.0):
    buffer = io.BytesIO()
    soundfile.write(buffer, 0.1 * np.sin(np.arange(RATE_HZ) * 0.2), RATE_HZ, format="WAV")
    timed = [{"text": text, "start_s": start_s, "end_s": end_s} for text, start_s, end_s in words]
    return {
        "audio": base64.b64encode(buffer.getvalue()).decode(),
        "duration_s": duration_s,
        "segments": [{"words": timed, "start_s": words[0][1], "end_s": words[-1][2]}],
    }


@pytest.mark.parametrize(
    ("words", "duration_s", "fault"),
    [
        ([("你好", 0.1, 0.5), ("吗", 0.5, 0.9)], 1.0, None),
        ([("你好", 0.1, 0.5)], 1.0, "'', not '吗', from character 2"),
        ([("你好", 0.1, 0.5), ("吗", 0.4, 0.9)], 1.0, "times fall"),
        ([("你好", 0.1, 0.5), ("吗", 0.5, 1.2)], 1.0, "times end at 1.2 s, the audio at 1.0 s"),
        ([("你好", 0.1, 0.5), ("吗", 0.5, 0.9)], 1.5, "duration_s"),
    ],
)
def test_faults_of_an_answer_are_named(words, duration_s, fault):
    found = faults(answer(words, duration_s), {"segments": [{"normalized": "你好吗？"}]})
    assert bool(found) == (fault is not None)
    assert fault is None or fault in "; ".join(found)
