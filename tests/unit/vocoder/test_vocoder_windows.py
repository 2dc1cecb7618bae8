import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.vocoder.voice import VocoderVoice
from deployments.vocoder.windows import Context, Feed, Planner, Window, context_of


def test_context_is_the_receptive_field_that_gradients_show(voice: VocoderVoice) -> None:
    generator, context = voice.generator, context_of(voice.generator.config)
    hop, middle = generator.config.hop_samples, context.left + 4
    num_frames = context.total + 9
    torch.manual_seed(0)
    mel_BMF = torch.randn(1, generator.config.in_channels, num_frames, requires_grad=True)
    excitation_B1S = torch.rand(1, 1, num_frames * hop, requires_grad=True) if generator.config.num_harmonics else None
    wave_BS = generator(mel_BMF, excitation_B1S)
    wave_BS[:, middle * hop : (middle + 1) * hop].abs().sum().backward()
    assert mel_BMF.grad is not None
    touched_F = mel_BMF.grad.abs().sum(dim=(0, 1)) > 0
    if excitation_B1S is not None and excitation_B1S.grad is not None:
        touched_F |= excitation_B1S.grad.reshape(num_frames, hop).abs().sum(dim=1) > 0
    frames = torch.nonzero(touched_F).flatten()
    assert (middle - int(frames[0]), int(frames[-1]) - middle) == (context.left, context.right)


@pytest.mark.parametrize(("kind", "left", "right"), [("voc_causal", 35, 0), ("voc_noncausal", 18, 18)])
def test_context_of_the_published_16k_generators(any_voice, kind: str, left: int, right: int) -> None:
    assert context_of(any_voice(kind).generator.config) == Context(left, right)


def check(windows: list[Window], num_frames: int, planner: Planner) -> None:
    """Windows lie inside the utterance, keep every frame once and keep none that a border has spoiled."""
    made, context = 0, planner.context
    for window in windows:
        end = window.start + window.length
        assert window.start >= 0
        if planner.any_length:
            assert 1 <= window.length <= planner.lengths[-1]
            assert end <= num_frames
        else:
            assert window.length in planner.lengths
            assert end <= num_frames or window.start == 0
        assert window.keep_start == made
        assert window.keep_start < window.keep_end <= min(end, num_frames)
        assert window.start == 0 or window.keep_start - window.start >= context.left
        assert end >= num_frames or end - window.keep_end >= context.right
        made = window.keep_end
    assert made == num_frames


quick = settings(max_examples=60, deadline=None)
planners = st.builds(
    lambda left, right, extras, any_length: Planner(
        [left + right + extra for extra in extras], Context(left, right), any_length=any_length
    ),
    st.integers(0, 20),
    st.integers(0, 20),
    st.sets(st.integers(1, 60), min_size=1, max_size=4),
    st.booleans(),
)


@quick
@given(planners, st.integers(1, 400), st.integers(1, 5))
def test_plans_cover_each_utterance_exactly(planner: Planner, num_frames: int, lanes: int) -> None:
    check(planner.plan(num_frames, lanes), num_frames, planner)


@quick
@given(st.integers(1, 90))
def test_no_choice_of_windows_runs_fewer_frames(num_frames: int) -> None:
    planner = Planner((20, 28, 36), Context(5, 7))
    sums = [
        sum(lengths)
        for count in range(1, 13)
        for lengths in itertools.combinations_with_replacement(planner.lengths, count)
        if sum(lengths) - (count - 1) * planner.context.total >= num_frames
    ]
    assert sum(window.length for window in planner.plan(num_frames)) == min(sums)


@given(st.integers(1, 2000))
def test_where_any_length_goes_only_contexts_are_run_twice(num_frames: int) -> None:
    planner = Planner((100,), Context(5, 7), any_length=True)
    windows = planner.plan(num_frames)
    assert sum(window.length for window in windows) == num_frames + 12 * (len(windows) - 1)
    assert len(windows) == max(1, -(-(num_frames - 12) // 88))
    assert max(window.length for window in windows) - min(window.length for window in windows) <= len(windows)


@given(st.integers(1, 2000), st.integers(2, 6))
def test_an_utterance_for_many_lanes_keeps_all_of_them_busy_unless_it_is_short(num_frames: int, lanes: int) -> None:
    planner = Planner((100,), Context(5, 7), any_length=True)
    few, many = planner.plan(num_frames), planner.plan(num_frames, lanes)
    if len(many) % lanes:
        assert many == few
        assert num_frames - 12 < -(-len(few) // lanes) * lanes * 12  # each would keep less than it loses
    else:
        assert len(few) <= len(many) < len(few) + lanes


@quick
@given(planners, st.lists(st.integers(0, 90), min_size=1, max_size=8))
def test_feed_covers_utterances_that_arrive_in_pieces(planner: Planner, pieces: list[int]) -> None:
    feed, windows, arrived = Feed(planner), [], 0
    for piece in pieces:
        needed = feed.first_needed
        arrived += piece
        ready = feed.push(piece)
        assert all(needed <= window.start and window.start + window.length <= arrived for window in ready)
        if ready:  # nothing that could run is held back
            assert arrived - (ready[-1].keep_end - planner.context.left) < planner.lengths[0]
        windows += ready
    needed = feed.first_needed
    rest = feed.finish()
    assert all(needed <= window.start for window in rest)
    check(windows + rest, arrived, planner)
    assert feed.finish() == []


def test_windows_not_longer_than_the_context_are_refused() -> None:
    with pytest.raises(ValueError, match="36 frames"):
        Planner((20, 36), Context(18, 18))
