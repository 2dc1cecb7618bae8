"""Checkpoints and configurations that do not fit are refused by name, and positions are those of the checkpoints."""

from dataclasses import replace

import pytest
import torch

from deployments.acoustic.attention import sinusoids
from deployments.acoustic.checkpoint import build_sambert, load_sambert
from deployments.errors import VoiceInvalid
from deployments.voices.checkpoint import read_tensors


@pytest.fixture(scope="module")
def pair(bundled_folder):
    return dict(bundled_folder.acoustic_params), read_tensors(bundled_folder.acoustic_checkpoint, "model")


def test_every_tensor_is_taken_over(pair):
    params, state = pair
    network = build_sambert(params, state)
    taken = network.state_dict()
    assert taken.keys() == state.keys()
    assert all(torch.equal(taken[name], tensor) for name, tensor in state.items())
    assert not any(parameter.requires_grad for parameter in network.parameters())


def test_the_stored_positions_are_the_computed_ones(pair):
    stored = pair[1]["text_encoder.ling_enc.position_enc.position_enc"][0]
    torch.testing.assert_close(sinusoids(1, *stored.shape), stored, rtol=0, atol=1e-6)
    torch.testing.assert_close(sinusoids(790, *stored.shape), stored[789:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["emo_tokenizer.weight", "spk_tokenizer.weight", "mel_decoder.mel_dec.ln.bias"])
def test_a_missing_tensor_is_named(pair, name):
    params, state = pair
    with pytest.raises(VoiceInvalid, match=name):
        build_sambert(params, {key: tensor for key, tensor in state.items() if key != name})


def test_a_tensor_too_many_is_named(pair):
    params, state = pair
    with pytest.raises(VoiceInvalid, match="fp_tokenizer"):
        build_sambert(params, {**state, "fp_tokenizer.weight": torch.zeros(2)})


def test_a_shape_that_differs_is_named(pair):
    params, state = pair
    with pytest.raises(VoiceInvalid, match="dec_out_proj"):
        build_sambert({**params, "num_mels": 80}, state)


@pytest.mark.parametrize("value", [None, "12", [1, 2], 2.5])
def test_a_malformed_size_is_named(pair, value):
    params, state = pair
    with pytest.raises(VoiceInvalid, match="decoder_num_layers") as caught:
        build_sambert({**params, "decoder_num_layers": value}, state)
    assert caught.value.param == "decoder_num_layers"


def test_a_speaker_vector_is_asked_for_where_the_voice_needs_one(pair):
    params, state = pair
    state = {key: tensor for key, tensor in state.items() if key != "spk_tokenizer.weight"}
    params = {**params, "SE": True}
    with pytest.raises(VoiceInvalid, match=r"se\.npy is missing"):
        build_sambert(params, state)
    with pytest.raises(VoiceInvalid, match="17 wide"):
        build_sambert(params, state, torch.zeros(17))
    vector = torch.rand(1, params["speaker_units"])
    assert torch.equal(build_sambert(params, state, vector).speaker_vector, vector[0])


def test_a_voice_that_does_not_fit_is_named(bundled_folder):
    odd = replace(bundled_folder, acoustic_params={**bundled_folder.acoustic_params, "num_mels": 80})
    with pytest.raises(VoiceInvalid, match=r"Voice demo \(.*checkpoint_"):
        load_sambert(odd)
