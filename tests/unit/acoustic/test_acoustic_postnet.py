"""The post-net piece by piece against the post-net of the whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.acoustic.mel_decoder import PostNet
from deployments.acoustic.postnet_graph import PostNetGraphs
from deployments.acoustic.running_postnet import PostNetKernels, RunningPostNet, TorchKernels

TOLERANCE = 1e-5
RUNTIMES = pytest.mark.parametrize(
    "kernels_of", [TorchKernels, lambda postnet: PostNetGraphs(postnet, 1)], ids=["torch", "onnxruntime"]
)
FIXED = {"derandomize": True, "deadline": None, "database": None}


def mel_of(num_frames: int, width: int, seed: int) -> torch.Tensor:
    return torch.randn(num_frames, width, generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def whole(postnet: PostNet, mel_FM: torch.Tensor) -> torch.Tensor:
    return postnet(mel_FM[None], torch.tensor([len(mel_FM)]))[0]


def pieces_of(num_frames: int, sizes: list[int], longest: int) -> list[int]:
    """Sizes that cut so many frames, the given ones first."""
    pieces = []
    while num_frames:
        size = min(num_frames, sizes[len(pieces)] if len(pieces) < len(sizes) else longest)
        pieces.append(size)
        num_frames -= size
    return pieces


@torch.inference_mode()
def check(postnet: PostNet, kernels: PostNetKernels, utterances: list[tuple[int, int, list[int]]]) -> None:
    """Runs utterances (frames, call at which each starts, sizes of its pieces) together."""
    running = RunningPostNet(postnet, kernels)
    mels = [mel_of(frames, postnet.fc.out_features, seed) for seed, (frames, _, _) in enumerate(utterances)]
    states = [running.start(frames) for frames, _, _ in utterances]
    cuts = [pieces_of(frames, sizes, 17) for frames, _, sizes in utterances]
    left = [list(mel_FM.split(sizes)) for mel_FM, sizes in zip(mels, cuts, strict=True)]
    found = [[] for _ in utterances]
    call = 0
    while any(left):
        rows = [row for row, (_, start, _) in enumerate(utterances) if start <= call and left[row]]
        call += 1
        if not rows:
            continue
        refined = running.advance([states[row] for row in rows], [left[row].pop(0) for row in rows])
        for row, mel_FM in zip(rows, refined, strict=True):
            found[row].append(mel_FM)
    for mel_FM, pieces in zip(mels, found, strict=True):
        torch.testing.assert_close(torch.cat(pieces), whole(postnet, mel_FM), rtol=0, atol=TOLERANCE)


@RUNTIMES
@settings(max_examples=4, **FIXED)
@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 4), st.lists(st.integers(1, 40), max_size=6)),
        min_size=1,
        max_size=5,
    )
)
def test_pieces_are_the_whole(voice, kernels_of, utterances):
    check(voice.network.mel_postnet, kernels_of(voice.network.mel_postnet), utterances)


@RUNTIMES
@pytest.mark.parametrize("filter_size", [1, 3, 11, 41])
@pytest.mark.parametrize("shift", [-1, 0, 2, 9])
def test_any_reach_of_the_memory_blocks(kernels_of, filter_size, shift):
    torch.manual_seed(0)
    shift = min(shift, filter_size // 2 + 1)  # one more than what is ahead: a filter over the past alone
    postnet = PostNet(6, 5, 6, 3, filter_size, shift, 4)  # the first layer's widths agree: it adds its input
    check(
        postnet.requires_grad_(False),
        kernels_of(postnet),
        [(1, 0, []), (30, 0, [4, 1, 9]), (45, 1, [40]), (12, 2, [12])],
    )


def test_a_frame_leaves_as_soon_as_what_it_depends_on_is_there(voice):
    running = RunningPostNet(voice.network.mel_postnet)
    ahead, width = running.lookahead, voice.network.mel_postnet.fc.out_features
    state = running.start(100)
    first, second = running.advance([state], [mel_of(ahead, width, 0)]), running.advance([state], [mel_of(1, width, 1)])
    assert (len(first[0]), len(second[0])) == (0, 1)
