"""Makes a voice of the published size with random weights, so that speed can be measured without a download.

    python -m load_tests.fullsize FOLDER

writes a model folder in ModelScope's layout that any configuration may name in voices.sources. It says nothing that
anyone could understand, but computes exactly as much as the published 16 kHz voices: their layers, their widths, and
durations of 8 frames for each phone and 1 for each break whatever the text, so that times of different texts and
machines compare. The scale of the weights keeps every layer's output near 1, the decoder's feedback weak (a strong one
would turn rounding into noise) and the waveform off full scale.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
import yaml
from torch import Tensor

from deployments.acoustic.attention import sinusoids

NAME: Final = "full-size"
FRAMES_PER_PHONE: Final = 8
FRAMES_PER_BREAK: Final = 1
DATA: Final = Path(__file__).parent / "data"
SAMPLE_RATE_HZ: Final = 16_000
EMOTIONS: Final = ("neutral", "happy", "sad", "angry", "fear", "surprise")
SATURATED: Final = 40.0
"""Opens or closes a gate for good, and sends a hyperbolic tangent to 1."""
FEEDBACK: Final = 0.1
"""Gain of the decoder's prenet, which brings the last frame back in."""
VOCODER_GAINS: Final = {"conv_pre": 1.0, "transpose_upsamples": 0.5, "repeat_upsamples": 0.5, "conv_blocks": 0.3}
WAVE_GAIN: Final = 0.1
"""Gain of the vocoder's last layer; a tenth keeps the waveform around a tenth of full scale."""


def make_full_size(folder: Path, seed: int = 0) -> Path:
    """Writes the model folder; what a former call left there is replaced.

    Args:
        folder: Created where it is missing; holds 70 MB afterwards.
        seed: Of the weights.

    Returns:
        The folder, for voices.sources.
    """
    random = torch.Generator().manual_seed(seed)
    acoustic, vocoder = _read("sambert_16k.json"), _read("hifigan_noncausal_v1_16k.json")
    voice = folder / "voices" / NAME
    for part in ("am/ckpt", "voc/ckpt"):
        (voice / part).mkdir(parents=True, exist_ok=True)
    acoustic_tensors = acoustic_state(acoustic["tensors"], random)
    force_durations(acoustic_tensors, acoustic["params"])
    torch.save({"model": acoustic_tensors}, voice / "am/ckpt/checkpoint_0.pth")
    vocoder_tensors = vocoder_state(vocoder["tensors"], random)
    torch.save({"model": {"generator": vocoder_tensors}}, voice / "voc/ckpt/checkpoint_0.pth")
    _write_configurations(voice, acoustic["params"], vocoder["params"])
    (folder / "configuration.json").write_text(
        json.dumps({"framework": "pytorch", "task": "text-to-speech", "model": {"type": "sambert-hifigan"}})
    )
    (folder / "voices/voices.json").write_text(json.dumps({"voices": [NAME]}))
    return folder


def acoustic_state(shapes: Mapping[str, Sequence[int]], random: torch.Generator) -> dict[str, Tensor]:
    """Random tensors of Sambert.

    Args:
        shapes: By published name.
        random: Source of the weights.

    Returns:
        float32 tensors by published name.
    """
    return {name: _acoustic_tensor(name, tuple(shape), random) for name, shape in shapes.items()}


def _acoustic_tensor(name: str, shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    if name.endswith("position_enc.position_enc"):
        return sinusoids(1, shape[1], shape[2])[None]
    if name.endswith("inv_timescales"):
        pairs = torch.arange(shape[0]) // 2 * 2
        return torch.pow(10_000.0, pairs / shape[0])
    if "bias" in name.rpartition(".")[2]:
        return torch.zeros(shape)
    if len(shape) == 1:  # of a layer norm
        return torch.ones(shape)
    weight = torch.randn(shape, generator=random) / math.sqrt(math.prod(shape[1:]))
    return weight * FEEDBACK if name.startswith("mel_decoder.mel_dec.prenet.") else weight


def force_durations(state: dict[str, Tensor], params: Mapping[str, Any]) -> None:
    """Makes durations depend on nothing but whether a symbol is a phone or a break.

    Breaks have the emotion "emotion_none", the first row of its table; one coordinate of the table is made to say just
    that. One unit of each layer of the duration predictor's LSTM passes it on, 0 for a phone and `high` for a break;
    the last layer, which speaks of log(duration + 1), listens to this unit alone. All units compute as before.

    Args:
        state: Tensors by published name; changed.
        params: Model.KanTtsSAMBERT.params.
    """
    emotions = state["emo_tokenizer.weight"]
    emotions[:, 0] = 0.0
    emotions[0, 0] = 1.0
    # Input of the LSTM: the prenet's output, text, speaker, emotion.
    emotion_column = params["dur_pred_prenet_units"][-1] + params["encoder_projection_units"] + params["speaker_units"]
    predictor = "variance_adaptor.duration_predictor"
    for layer, column in ((0, emotion_column), (1, 0)):
        w_in, w_hidden, bias = (
            state[f"{predictor}.lstm.{kind}_l{layer}"] for kind in ("weight_ih", "weight_hh", "bias_ih")
        )
        input_gate, forget_gate, cell, output_gate = range(0, w_in.shape[0], params["dur_pred_lstm_units"])
        for gate, opening in (
            (input_gate, SATURATED),
            (forget_gate, -SATURATED),
            (cell, 0.0),
            (output_gate, SATURATED),
        ):
            w_in[gate], w_hidden[gate], bias[gate] = 0.0, 0.0, opening
        w_in[cell, column] = SATURATED
    high = math.tanh(1.0)
    phone, pause = math.log(FRAMES_PER_PHONE + 1), math.log(FRAMES_PER_BREAK + 1)
    state[f"{predictor}.fc.weight"].zero_()[0, 0] = (pause - phone) / high
    state[f"{predictor}.fc.bias"].fill_(phone)


def vocoder_state(shapes: Mapping[str, Sequence[int]], random: torch.Generator) -> dict[str, Tensor]:
    """Random tensors of HifiGan, as pairs of direction and norm like the published ones.

    Args:
        shapes: By published name.
        random: Source of the weights.

    Returns:
        float32 tensors by published name.
    """
    state = {}
    for name, shape in shapes.items():
        if name.endswith("weight_v"):
            state[name] = torch.randn(tuple(shape), generator=random)
        else:
            gain = VOCODER_GAINS.get(name.partition(".")[0], WAVE_GAIN) if name.endswith("weight_g") else 0.0
            state[name] = torch.full(tuple(shape), gain)
    return state


def _write_configurations(voice: Path, acoustic: Mapping[str, Any], vocoder: Mapping[str, Any]) -> None:
    hop = math.prod(vocoder["upsample_scales"])
    card = {
        "language": "zh-CN",
        "license": "none needed, the weights are random",
        "english": True,
        "emotions": list(EMOTIONS),
        "description": "Random weights of the published size, for measurements; it speaks noise.",
    }
    contents = {
        "audio_config.yaml": {"audio_config": {"sampling_rate": SAMPLE_RATE_HZ, "hop_length": hop}},
        "card.yaml": card,
        "am/config.yaml": {
            "model_type": "sambert",
            "Model": {"KanTtsSAMBERT": {"params": acoustic}},
            "linguistic_unit": {"speaker_list": "F7"},
        },
        "voc/config.yaml": {"model_type": "hifigan", "Model": {"Generator": {"params": vocoder}}},
    }
    for name, content in contents.items():
        (voice / name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return content


def main() -> None:
    """Writes the voice into the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m load_tests.fullsize", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="where to; created if missing")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    arguments = parser.parse_args()
    print(make_full_size(arguments.folder, arguments.seed))


if __name__ == "__main__":
    main()
