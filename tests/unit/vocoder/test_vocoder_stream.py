"""Frames that arrive in pieces make the samples of the whole, whatever the pieces and whoever joins."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.messages import MelSpectrogram, VocoderRequest
from deployments.settings import VocoderSettings, VoicesSettings
from deployments.vocoder.engine import VocoderEngine
from deployments.voices.store import VoiceStore

ROUNDING = 33  # 1e-3 of full scale


@pytest.fixture(scope="module")
def engine():
    store = VoiceStore.open(VoicesSettings())
    engine = VocoderEngine([store.folder(store.default)], VocoderSettings(), "cpu")
    yield engine
    engine.close()


def mel_of(num_frames, seed):
    rng = np.random.default_rng(seed)
    mel = rng.normal(0, 0.5, (num_frames, 82)).astype(np.float32)
    mel[:, 81] = rng.random(num_frames)
    return mel


@settings(max_examples=12, deadline=None)
@given(
    num_frames=st.integers(1, 400),
    cuts=st.lists(st.integers(1, 399), max_size=8),
    seed=st.integers(0, 2**32 - 1),
    key=st.integers(0, 2**64 - 1),
)
def test_pieces_make_the_whole(engine, num_frames, cuts, seed, key):
    mel = mel_of(num_frames, seed)
    request = VocoderRequest(voice="demo", noise_key=key)
    frames = np.array([num_frames], np.int32)
    (whole,) = engine.submit([(request, MelSpectrogram(mel_FM=mel, frames_T=frames))])
    stream = engine.open_stream(request)
    bounds = [0, *sorted({cut for cut in cuts if cut < num_frames}), num_frames]
    tickets = []
    for start, end in itertools.pairwise(bounds):
        tickets += engine.submit([(request, piece) for piece in stream.push(mel[start:end])])
    tickets += engine.submit([(request, piece) for piece in stream.finish()])
    streamed = np.concatenate([ticket.future.result(60).pcm_S for ticket in tickets])
    expected = whole.future.result(60).pcm_S
    assert streamed.shape == expected.shape
    assert np.abs(streamed.astype(int) - expected).max() <= ROUNDING


def test_sound_starts_before_the_end_is_known(engine):
    stream = engine.open_stream(VocoderRequest(voice="demo"))
    assert stream.push(mel_of(100, 1))


def test_a_long_stream_keeps_few_frames(engine):
    stream = engine.open_stream(VocoderRequest(voice="demo"))
    for seed in range(40):
        stream.push(mel_of(100, seed))
    assert stream.num_kept < 600
