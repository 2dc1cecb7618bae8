from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from deployments.errors import SynthesisFailed
from deployments.vocoder.backends.eager import EagerBackend
from deployments.vocoder.voice import VocoderVoice
from deployments.vocoder.windows import Planner, Window

WAVE_BOUND = 1e-3
PCM_BOUND = round(WAVE_BOUND * 32767)
MakeMel = Callable[[VocoderVoice, int, int], NDArray[np.float32]]
few = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def whole(voice: VocoderVoice, mel_FM: NDArray[np.float32], key: int) -> NDArray[np.int32]:
    """The utterance in one piece."""
    window = Window(0, len(mel_FM), 0, len(mel_FM))
    return voice.synthesize([(voice.utterance(mel_FM, key), window)])[0].astype(np.int32)


@few
@given(st.integers(1, 400), st.integers(0, 2**64 - 1), st.integers(0, 1000))
def test_joined_windows_equal_the_whole(
    voice: VocoderVoice, make_mel: MakeMel, frames: int, key: int, seed: int
) -> None:
    mel_FM = make_mel(voice, frames, seed)
    expected_S = whole(voice, mel_FM, key)
    for planner, backend in (
        (Planner((45, 64, 96, 160), voice.planner.context, any_length=True), voice.backend),
        (Planner((45, 64, 96, 160), voice.planner.context), EagerBackend(voice.generator, 1, any_length=False)),
    ):
        shorter = replace(voice, planner=planner, backend=backend)
        utterance = shorter.utterance(mel_FM, key)
        pieces = [shorter.synthesize([(utterance, window)])[0] for window in planner.plan(frames)]
        joined_S = np.concatenate(pieces).astype(np.int32)
        assert len(joined_S) == frames * voice.folder.hop_samples
        assert np.abs(joined_S - expected_S).max() <= 1  # far below PCM_BOUND: only rounding differs


@few
@given(st.lists(st.tuples(st.integers(64, 150), st.integers(0, 2**64 - 1)), min_size=2, max_size=3), st.randoms())
def test_batched_windows_equal_windows_alone(
    voice: VocoderVoice, make_mel: MakeMel, items: list[tuple[int, int]], random: object
) -> None:
    pieces = []
    for seed, (frames, key) in enumerate(items):
        utterance = voice.utterance(make_mel(voice, frames, seed), key)
        pieces.append((utterance, Window(frames - 64, 64, frames - 20, frames)))
    random.shuffle(pieces)  # type: ignore[attr-defined]
    for together_S, piece in zip(voice.synthesize(pieces), pieces, strict=True):
        alone_S = voice.synthesize([piece])[0]
        assert np.abs(together_S.astype(np.int32) - alone_S).max() <= 1


class Loud:
    """A runtime whose wave is far out of range, as checkpoints without a final tanh could make it."""

    name = "loud"
    max_batch = 1
    lanes = 1
    any_length = True

    def __init__(self, wave_S: Tensor) -> None:
        self.wave_S = wave_S

    def run(self, mel_BMF: Tensor, _mask: Tensor | None, _excitation: Tensor | None) -> Tensor:
        return self.wave_S.expand(len(mel_BMF), -1)


def with_wave(voice: VocoderVoice, values: list[float]) -> tuple[VocoderVoice, list[tuple[object, Window]]]:
    wave_S = torch.zeros(voice.folder.hop_samples)
    wave_S[: len(values)] = torch.tensor(values)
    loud = replace(voice, backend=Loud(wave_S))
    mel_FM = np.zeros((1, voice.mel_width), dtype=np.float32)
    return loud, [(loud.utterance(mel_FM, 0), Window(0, 1, 0, 1))]


def test_samples_are_clipped_and_rounded_never_wrapped(any_voice: Callable[[str], VocoderVoice]) -> None:
    values = [0.0, 1.0, -1.0, 1.00001, -1.5, 1e30, -1e30, 0.4 / 32767, 0.6 / 32767, -0.6 / 32767]
    voice, pieces = with_wave(any_voice("voc_causal"), values)
    pcm_S = voice.synthesize(pieces)[0]  # type: ignore[arg-type]
    assert pcm_S.dtype == np.int16
    assert pcm_S[: len(values)].tolist() == [0, 32767, -32767, 32767, -32767, 32767, -32767, 0, 1, -1]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_wave_that_is_not_finite_fails(any_voice: Callable[[str], VocoderVoice], value: float) -> None:
    voice, pieces = with_wave(any_voice("voc_causal"), [value])
    with pytest.raises(SynthesisFailed, match="not finite"):
        voice.synthesize(pieces)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0, 80), (3, 82), (3,), (1, 3, 80)])
def test_a_mel_of_another_shape_is_refused(any_voice: Callable[[str], VocoderVoice], shape: tuple[int, ...]) -> None:
    with pytest.raises(SynthesisFailed, match="shape"):
        any_voice("voc_noncausal").utterance(np.zeros(shape, dtype=np.float32), 0)


def test_draws_depend_on_the_key_alone(any_voice: Callable[[str], VocoderVoice], make_mel: MakeMel) -> None:
    voice = any_voice("demo")
    mel_FM = make_mel(voice, 30, 1)
    torch.manual_seed(1)
    first_S = whole(voice, mel_FM, 5)
    torch.manual_seed(2)
    assert np.array_equal(whole(voice, mel_FM, 5), first_S)
    assert not np.array_equal(whole(voice, mel_FM, 6), first_S)


def test_a_read_only_mel_is_taken_as_it_is(any_voice: Callable[[str], VocoderVoice], make_mel: MakeMel) -> None:
    voice = any_voice("voc_causal")
    mel_FM = make_mel(voice, 10, 1)
    expected_S = whole(voice, mel_FM, 0)
    mel_FM.setflags(write=False)
    assert np.array_equal(whole(voice, mel_FM, 0), expected_S)
