"""What the engine counts is what it was given."""

import numpy as np
import pytest

from deployments.messages import MelSpectrogram, VocoderRequest
from deployments.settings import Batching, VocoderSettings
from deployments.vocoder.engine import VocoderEngine


@pytest.mark.parametrize("max_batch_size", [1, 4])
def test_frames_that_ran_and_frames_that_are_kept_are_counted(any_voice, any_folder, make_mel, max_batch_size):
    voice = any_voice("demo")
    settings = VocoderSettings(backend="torch", batching=Batching(max_batch_size=max_batch_size))
    engine = VocoderEngine([any_folder("demo")], settings, "cpu")
    lengths = [40, 700, 700]
    mels = [
        MelSpectrogram(mel_FM=make_mel(voice, length, length), frames_T=np.array([length], dtype=np.int32))
        for length in lengths
    ]
    for ticket in engine.submit([(VocoderRequest(voice="demo"), mel) for mel in mels]):
        ticket.future.result(60)
    counts = engine.counts["generator"]
    engine.close()
    planned = [window for length in lengths for window in voice.planner.plan(length)]
    assert counts.items == len(planned)
    assert counts.positions == sum(window.length for window in planned)
    assert counts.kept == sum(lengths) < counts.positions
    # The two long ones have windows of the same lengths and run them together where they may.
    num_own = len(voice.planner.plan(40))
    num_shared = len(voice.planner.plan(700))
    assert counts.runs == (num_own + 2 * num_shared if max_batch_size == 1 else num_own + num_shared)
    assert counts.seconds > 0
