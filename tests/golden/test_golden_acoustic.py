"""Sambert against the golden numbers of reference checkpoints: every case of every folder am_*."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from deployments.acoustic.checkpoint import build_sambert
from deployments.acoustic.decoder import StepDecoder
from deployments.acoustic.fused import FusedDecoder
from deployments.acoustic.running_postnet import RunningPostNet
from deployments.acoustic.runtime import choose_runtime
from deployments.acoustic.sambert import Sambert, Tokens
from deployments.voices.checkpoint import read_tensors

TOLERANCE = 1e-5
PARAMS_DIR = Path(__file__).parent / "params"


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # these networks are too small to share
    yield
    torch.set_num_threads(before)


def load(folder: Path) -> Sambert:
    params = yaml.safe_load((folder / "config.yaml").read_text())["Model"]["KanTtsSAMBERT"]["params"]
    vector = folder / "se.npy"
    speaker_vector = torch.from_numpy(np.load(vector)).float() if vector.exists() else None
    return build_sambert(params, read_tensors(folder / "ckpt" / "checkpoint_0.pth", "model"), speaker_vector)


def tokens_of(expected: dict[str, np.ndarray], cases: list[int]) -> Tokens:
    def padded(key: str) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(expected[f"{case}.{key}"]) for case in cases], batch_first=True
        )

    lengths = torch.tensor([len(expected[f"{case}.emotion"]) for case in cases])
    return Tokens.plain(padded("ling"), padded("emotion"), padded("speaker"), lengths)


def check_encoded(encoded, row: int, case: int, expected, described) -> None:
    num_tokens = len(expected[f"{case}.emotion"])
    for key, found_BT in (
        ("log_duration", encoded.log_duration_BT),
        ("pitch", encoded.pitch_BT),
        ("energy", encoded.energy_BT),
    ):
        np.testing.assert_allclose(
            found_BT[row, :num_tokens], expected[f"{case}.{key}"], rtol=0, atol=TOLERANCE, err_msg=f"case {case}: {key}"
        )
    assert int(encoded.repeats_BT[row].sum()) == described["frames"]
    assert int(encoded.band_B[row]) == described["band_width"]


@pytest.fixture
def golden(acoustic_golden_dir: Path):
    cases = json.loads((acoustic_golden_dir / "cases.json").read_text())
    assert cases, f"{acoustic_golden_dir} describes no case"
    with np.load(acoustic_golden_dir / "expected.npz") as stored:
        expected = dict(stored)
    return load(acoustic_golden_dir), cases, expected


@torch.inference_mode()
def test_every_case_alone_in_the_plain_form(golden):
    network, cases, expected = golden
    for case, described in enumerate(cases):
        found = network(tokens_of(expected, [case]))
        check_encoded(found.encoded, 0, case, expected, described)
        num_frames = described["frames"]
        for key, mel_BFM in (("mel_before_postnet", found.before_BFM), ("mel", found.mel_BFM)):
            np.testing.assert_allclose(
                mel_BFM[0, :num_frames],
                expected[f"{case}.{key}"],
                rtol=0,
                atol=TOLERANCE,
                err_msg=f"case {case}: {key}",
            )


@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
@torch.inference_mode()
def test_all_cases_as_one_batch_in_the_step_decoder(golden, backend):
    network, cases, expected = golden
    fused = FusedDecoder(network.mel_decoder.mel_dec)
    runtime = choose_runtime(network, fused, backend, threads=1)
    encoded = network.encode(tokens_of(expected, list(range(len(cases)))))
    decoder = StepDecoder(fused, runtime.bind_step)
    utterances = decoder.join(network.unroll(encoded), encoded.band_B.tolist())
    while decoder.num_active:
        decoder.step()
    before_BFM = torch.nn.utils.rnn.pad_sequence([utterance.frames() for utterance in utterances], batch_first=True)
    postnet = RunningPostNet(network.mel_postnet, runtime.kernels)
    lengths = encoded.repeats_BT.sum(1).tolist()
    states = [postnet.start(num_frames) for num_frames in lengths]
    mel_BFM = postnet.advance(
        states, [before_FM[:length] for before_FM, length in zip(before_BFM, lengths, strict=True)]
    )
    for case, described in enumerate(cases):
        check_encoded(encoded, case, case, expected, described)
        num_frames = described["frames"]
        for key, found_BFM in (("mel_before_postnet", before_BFM), ("mel", mel_BFM)):
            np.testing.assert_allclose(
                found_BFM[case][:num_frames],
                expected[f"{case}.{key}"],
                rtol=0,
                atol=TOLERANCE,
                err_msg=f"case {case}: {key}",
            )


@pytest.mark.parametrize("path", sorted(PARAMS_DIR.glob("params_sambert_*.json")), ids=lambda path: path.stem)
def test_names_and_shapes_are_those_of_the_published_voices(path: Path):
    published = json.loads(path.read_text())
    state = {name: torch.empty(shape, device="meta") for name, shape in published["tensors"].items()}
    vector = torch.zeros(published["params"]["speaker_units"]) if published["params"].get("SE") else None
    network = build_sambert(published["params"], state, vector)
    assert {name: list(tensor.shape) for name, tensor in network.state_dict().items()} == published["tensors"]


def test_the_published_shapes_are_here():
    assert len(list(PARAMS_DIR.glob("params_sambert_*.json"))) == 4
