"""The step decoder against the decoder of the paper: whoever joins and leaves, each utterance decodes as if alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.acoustic.decoder import StepDecoder

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def network(voice):
    return voice.network.mel_decoder.mel_dec


def memory_of(network, num_steps: int, seed: int) -> torch.Tensor:
    width = network.dec_in_proj.in_features - network.dec_in_proj.out_features
    return torch.randn(num_steps, width, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module", params=["torch", "onnxruntime"])
def decoder_of(request, voice):
    """Makes step decoders of the voice in either runtime."""
    bind = voice.fused.bind if request.param == "torch" else voice.runtime.bind_step

    def build(num_ahead: int) -> StepDecoder:
        return StepDecoder(voice.fused, bind, num_ahead)

    return build


def run(decoder: StepDecoder) -> None:
    while decoder.num_active:
        decoder.step()


@st.composite
def schedules(draw):
    """Utterances as (length, band width, step at which it joins, step at which it is dropped or None)."""
    return draw(
        st.lists(
            st.tuples(st.integers(1, 30), st.integers(0, 7), st.integers(0, 40), st.none() | st.integers(1, 12)),
            min_size=1,
            max_size=6,
        )
    )


@torch.inference_mode()
def decode_alone(network, num_steps: int, band_width: int, seed: int) -> torch.Tensor:
    return network(memory_of(network, num_steps, seed), band_width)


@settings(max_examples=4, derandomize=True, deadline=None, database=None)
@given(schedules(), st.sampled_from([1, 3, 8, 64]))
def test_each_utterance_decodes_as_if_alone(decoder_of, network, schedule, num_ahead):
    decoder = decoder_of(num_ahead)
    arrivals = sorted(enumerate(schedule), key=lambda entry: entry[1][2])
    utterances, drops = {}, {}
    now = 0
    while arrivals or decoder.num_active:
        joining = []
        while arrivals and arrivals[0][1][2] <= now:
            joining.append(arrivals.pop(0))
        memories = [memory_of(network, length, seed) for seed, (length, _, _, _) in joining]
        joined = decoder.join(memories, [band for _, (_, band, _, _) in joining])
        for (seed, (_, _, _, life)), utterance in zip(joining, joined, strict=True):
            utterances[seed] = utterance
            if life is not None:
                drops[seed] = now + life
        for seed in [seed for seed, when in drops.items() if when <= now]:
            decoder.leave(utterances[seed])
            del drops[seed]
        if decoder.num_active:
            decoder.step()
        now += 1
    for seed, (length, band, _, life) in enumerate(schedule):
        if life is not None and life < length:
            assert not utterances[seed].done
            continue
        assert utterances[seed].done
        expected = decode_alone(network, length, band, seed)
        torch.testing.assert_close(utterances[seed].frames(), expected, rtol=0, atol=TOLERANCE)


def test_an_utterance_with_nan_spoils_no_other_and_no_later_one(decoder_of, network):
    decoder = decoder_of(8)
    broken = memory_of(network, 20, 0)
    broken[3] = float("nan")
    _, beside = decoder.join([broken, memory_of(network, 30, 1)], [2, 5])
    for _ in range(21):
        decoder.step()
    (later,) = decoder.join([memory_of(network, 12, 2)], [4])
    run(decoder)
    torch.testing.assert_close(beside.frames(), decode_alone(network, 30, 5, 1), rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(later.frames(), decode_alone(network, 12, 4, 2), rtol=0, atol=TOLERANCE)


def test_frames_come_while_later_ones_are_made(voice, network):
    decoder = StepDecoder(voice.fused, num_ahead=4)
    (utterance,) = decoder.join([memory_of(network, 11, 0)], [2])
    for _ in range(9):
        decoder.step()
    expected = decode_alone(network, 11, 2, 0)
    some = utterance.frames()
    assert len(some) == 8 * network.frames_per_step  # two moves of the timeline have handed over four steps each
    torch.testing.assert_close(some, expected[: len(some)], rtol=0, atol=TOLERANCE)


def test_buffers_do_not_grow_with_the_length(voice, network):
    def size_after(num_steps: int) -> int:
        decoder = StepDecoder(voice.fused, num_ahead=16)
        decoder.join([memory_of(network, num_steps, 0)], [3])
        run(decoder)
        return decoder.num_bytes

    assert size_after(100) == size_after(20)


def test_a_wide_band_is_forgotten_after_its_utterance(voice, network):
    decoder = StepDecoder(voice.fused, num_ahead=8)
    decoder.join([memory_of(network, 60, 0)], [2])
    narrow = decoder.num_bytes
    decoder.join([memory_of(network, 50, 1)], [40])
    wide = decoder.num_bytes
    run(decoder)
    decoder.join([memory_of(network, 5, 2)], [2])
    assert wide > 2 * narrow
    assert decoder.num_bytes <= 2 * narrow  # two rows stay
