"""The made voice is read like a published one, has its size, and speaks 8 frames for each phone."""

import json

import numpy as np
import pytest
import torch

from deployments.acoustic.checkpoint import load_sambert
from deployments.acoustic.engine import AcousticEngine
from deployments.messages import AcousticRequest, VocoderRequest
from deployments.settings import AcousticSettings, VocoderSettings
from deployments.vocoder.engine import VocoderEngine
from deployments.voices.folder import open_model
from load_tests.fullsize import DATA, acoustic_state, make_full_size, vocoder_state

SYMBOLS = (
    "{n_c$tone3$s_begin$word_begin$emotion_neutral$F7} {in_c$tone2$s_end$word_begin$emotion_neutral$F7} "
    "{h_c$tone3$s_begin$word_end$emotion_neutral$F7} {ao_c$tone3$s_end$word_end$emotion_neutral$F7} "
    "{#4$tone_none$s_none$word_none$emotion_none$F7}"
)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    (voice,) = open_model(make_full_size(tmp_path_factory.mktemp("model")), "full-size")
    return voice


def test_it_is_a_voice_of_the_published_size(folder):
    assert (folder.name, folder.sample_rate_hz, folder.hop_samples, folder.is_nsf) == ("full-size", 16_000, 200, False)
    assert folder.emotions[:2] == ("neutral", "happy")
    network = load_sambert(folder)  # refuses any tensor too many, too few or of another shape
    published = json.loads((DATA / "sambert_16k.json").read_text())["tensors"]
    assert {name: list(tensor.shape) for name, tensor in network.state_dict().items()} == published


def test_every_phone_takes_eight_frames_every_break_one_and_the_waveform_is_sound(folder):
    acoustic = AcousticEngine([folder], AcousticSettings(), "cpu")
    vocoder = VocoderEngine([folder], VocoderSettings(backend="torch"), "cpu")
    texts = [SYMBOLS, " ".join([SYMBOLS] * 3), SYMBOLS.replace("in_c", "ian_c")]
    texts.append(SYMBOLS.replace("emotion_neutral", "emotion_surprise"))
    requests = [AcousticRequest(voice=folder.name, symbols=symbols) for symbols in texts]
    mels = [ticket.future.result(60) for ticket in acoustic.submit(requests)]
    for symbols, mel in zip(texts, mels, strict=True):
        assert mel.frames_T.tolist() == [1 if "#" in item else 8 for item in symbols.split()]
        assert np.abs(mel.mel_FM).max() < 10
    assert not np.allclose(mels[0].mel_FM, mels[2].mel_FM, atol=1e-3)
    (ticket,) = vocoder.submit([(VocoderRequest(voice=folder.name), mels[0])])
    pcm_S = ticket.future.result(60).pcm_S
    assert len(pcm_S) == (4 * 8 + 1) * 200
    assert 300 < np.abs(pcm_S.astype(int)).max() < 30_000
    acoustic.close()
    vocoder.close()


def test_weights_depend_on_the_seed_alone():
    shapes = {"text_encoder.ling_proj.weight": [4, 3], "text_encoder.ling_enc.ln.weight": [3]}
    pairs = {"conv_pre.conv1d.weight_v": [2, 3, 5], "conv_pre.conv1d.weight_g": [2, 1, 1]}

    def weights(seed):
        random = torch.Generator().manual_seed(seed)
        return {**acoustic_state(shapes, random), **vocoder_state(pairs, random)}

    first, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["text_encoder.ling_proj.weight"], other["text_encoder.ling_proj.weight"])
    assert not torch.equal(first["conv_pre.conv1d.weight_v"], other["conv_pre.conv1d.weight_v"])
    assert {name: list(tensor.shape) for name, tensor in first.items()} == {**shapes, **pairs}
