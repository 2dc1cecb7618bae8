import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from deployments.vocoder.source import (
    GAMMA,
    NOISE_UNVOICED,
    NOISE_VOICED,
    HarmonicSource,
    gaussian,
    mix,
    random_bits,
    signed,
    uniform,
)
from deployments.vocoder.voice import VocoderVoice

HOP = 20
KEYS = torch.tensor([3, -7])


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def source() -> HarmonicSource:
    torch.manual_seed(1)
    return HarmonicSource(8, 16000, HOP).requires_grad_(False)


def utterance(num_frames: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    f0_BF = 30.0 + 300.0 * torch.rand(2, num_frames, generator=generator)
    return f0_BF, (torch.rand(2, num_frames, generator=generator) < 0.5).float()


def excitation(source: HarmonicSource, num_frames: int, start: int, end: int, key_B: Tensor | None) -> Tensor:
    f0_BF, voiced_BF = utterance(num_frames)
    before_BFH = source.phase_before(f0_BF)[:, start:end]
    first_B = torch.full((2,), start * HOP)
    return source(f0_BF[:, start:end], voiced_BF[:, start:end], before_BFH, first_B, key_B)


def test_mix_is_the_published_generator() -> None:
    """The known first numbers of SplitMix64 with seed 1234567."""
    states = torch.tensor([signed(1234567 + count * GAMMA) for count in range(1, 6)])
    assert [value & (2**64 - 1) for value in mix(states).tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 49), st.integers(1, 50))
def test_a_slice_of_the_excitation_is_that_of_the_whole(source: HarmonicSource, start: int, length: int) -> None:
    end = min(50, start + length)
    whole_B1S = excitation(source, 50, 0, 50, KEYS)
    torch.testing.assert_close(
        excitation(source, 50, start, end, KEYS), whole_B1S[:, :, start * HOP : end * HOP], rtol=0, atol=1e-6
    )


def test_phase_carried_between_pieces_has_the_same_bits(source: HarmonicSource) -> None:
    f0_BF, _ = utterance(1000)
    whole_BFH = source.phase_before(f0_BF)
    carried_BH, pieces = None, []
    for piece_BF in f0_BF.split([1, 7, 292, 700], dim=1):
        before_BFH = source.phase_before(piece_BF, carried_BH)
        carried_BH = before_BFH[:, -1]
        pieces.append(before_BFH[:, :-1])
    assert carried_BH is not None
    assert torch.equal(torch.cat([*pieces, carried_BH[:, None]], dim=1), whole_BFH)


def test_phase_is_the_running_sum_of_samples(source: HarmonicSource) -> None:
    """The order that checkpoints were trained with: a sum over samples in double, each rounded to float32."""
    f0_BF, _ = utterance(400)
    step_BSH = source.cycles_per_sample(f0_BF).repeat_interleave(HOP, dim=1)
    by_sample_BSH = step_BSH.double().cumsum(dim=1)
    assert torch.equal(source.phase_before(f0_BF)[:, 1:].float(), by_sample_BSH[:, HOP - 1 :: HOP].float())


def test_excitation_without_draws_is_the_weighted_sum_of_sines(source: HarmonicSource) -> None:
    f0_hz, num_frames = 100.0, 5
    f0_BF = torch.full((1, num_frames), f0_hz)
    made_B1S = source(f0_BF, torch.ones_like(f0_BF), source.phase_before(f0_BF)[:, :-1], torch.zeros(1).long(), None)
    weights_H, bias = source.ffn[0].weight[0, :, 0].double().numpy(), float(source.ffn[0].bias)
    time_S = np.arange(1, num_frames * HOP + 1) / 16000
    sines_HS = np.sin(2 * math.pi * f0_hz * np.arange(1, 9)[:, None] * time_S)
    np.testing.assert_allclose(made_B1S[0, 0], np.tanh(0.1 * weights_H @ sines_HS + bias), atol=2e-6)


@pytest.mark.parametrize(("voiced", "level"), [(1.0, NOISE_VOICED), (0.0, NOISE_UNVOICED)])
def test_noise_has_the_published_level_and_none_of_the_sine_where_unvoiced(
    source: HarmonicSource, voiced: float, level: float
) -> None:
    f0_BF = torch.full((1, 4000), 100.0)
    arguments = (f0_BF, torch.full_like(f0_BF, voiced), source.phase_before(f0_BF)[:, :-1], torch.zeros(1).long())
    key_B = torch.tensor([9])
    noisy_B1S = torch.atanh(source(*arguments, key_B).double())
    phase_H1 = source._initial_phase(key_B)[0, :, None].double()
    angle_HS = 2 * math.pi * 100.0 / 16000 * torch.arange(1, 9)[:, None] * torch.arange(1, 80001).double() + phase_H1
    weight_H = source.ffn[0].weight[0, :, 0].double()
    sines_S = weight_H @ (0.1 * voiced * torch.sin(angle_HS)) + source.ffn[0].bias.double()
    noise_S = noisy_B1S[0, 0] - sines_S
    expected = level * float(weight_H.norm())
    assert float(noise_S.std()) == pytest.approx(expected, rel=0.02)
    assert abs(float(noise_S.mean())) < 4 * expected / math.sqrt(80000)


def test_initial_phases_are_uniform_and_the_first_is_zero(source: HarmonicSource) -> None:
    phase_BH = source._initial_phase(torch.arange(5000))
    assert torch.equal(phase_BH[:, 0], torch.zeros(5000))
    assert float(phase_BH.min()) >= -math.pi
    assert float(phase_BH.max()) < math.pi
    counts = torch.histc(phase_BH[:, 1:], 16, -math.pi, math.pi)
    expected = 5000 * 7 / 16
    assert float(((counts - expected) ** 2 / expected).sum()) < 37.7  # 0.999 quantile of chi square, 15 degrees


def test_gaussian_numbers_are_standard_normal_and_independent() -> None:
    number = 200_000
    draws_BN = gaussian(random_bits(torch.tensor([0, 1, 2**62]), torch.arange(number).expand(3, -1))).double()
    assert torch.isfinite(draws_BN).all()
    assert draws_BN.mean(dim=1).abs().max() < 4 / math.sqrt(number)
    assert (draws_BN.var(dim=1) - 1).abs().max() < 4 * math.sqrt(2 / number)
    assert (draws_BN**4).mean() == pytest.approx(3.0, abs=0.1)
    lags = [float((row[lag:] * row[:-lag]).mean()) for row in draws_BN for lag in (1, 2, 3, 64, 200)]
    assert max(map(abs, lags)) < 4.5 / math.sqrt(number)
    between_BB = torch.corrcoef(draws_BN) - torch.eye(3)
    assert between_BB.abs().max() < 4.5 / math.sqrt(number)  # neighbouring keys too


def test_uniform_numbers_stay_below_one() -> None:
    assert float(uniform(torch.tensor([-1]))) < 1.0
    assert float(uniform(torch.tensor([0]))) == 0.0


@pytest.mark.parametrize("bits", [0, -1, 1 << 63, (1 << 32) - 1])
def test_gaussian_is_finite_for_extreme_bits(bits: int) -> None:
    assert torch.isfinite(gaussian(torch.tensor([signed(bits)]))).all()


def test_pitch_follows_the_voice_folder(
    any_voice: Callable[[str], VocoderVoice], make_mel: Callable[..., np.ndarray]
) -> None:
    voice = any_voice("demo")
    mel_FM = make_mel(voice, 6, 0)
    mel_FM[:, 80] = [0.0, 1.0, -100.0, 0.5, 2.0, 0.0]
    mel_FM[:, 81] = [0.6, 0.59, 1.0, 0.0, 0.61, -1.0]
    pitch = voice.utterance(mel_FM, 2**64 - 1).pitch
    assert pitch is not None
    scale, offset = voice.folder.f0_scale_hz, voice.folder.f0_offset_hz
    expected = [offset, scale + offset, 30.0, 0.5 * scale + offset, 2 * scale + offset, offset]
    np.testing.assert_allclose(pitch.f0_F, expected, rtol=1e-6)
    assert pitch.voiced_F.tolist() == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert pitch.key == -1
