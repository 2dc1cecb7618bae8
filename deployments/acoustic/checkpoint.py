"""From a voice's configuration and tensors to the acoustic network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from deployments.acoustic.sambert import Sambert
from deployments.acoustic.sizes import SambertSizes
from deployments.errors import VoiceInvalid
from deployments.voices.checkpoint import read_tensors
from deployments.voices.folder import VoiceFolder

# Tables whose number of rows only the checkpoint knows: older voices have one row less than their symbol tables.
TABLES = {
    "phones": "text_encoder.sy_emb.weight",
    "tones": "text_encoder.tone_emb.weight",
    "syllable_flags": "text_encoder.syllable_flag_emb.weight",
    "word_segments": "text_encoder.ws_emb.weight",
    "emotions": "emo_tokenizer.weight",
}
SPEAKERS = "spk_tokenizer.weight"
POSITIONS = "text_encoder.ling_enc.position_enc.position_enc"
# Size of the network -> key of Model.KanTtsSAMBERT.params.
PARAMS = {
    "embedding": "embedding_dim",
    "encoder_layers": "encoder_num_layers",
    "encoder_heads": "encoder_num_heads",
    "encoder_width": "encoder_num_units",
    "encoder_inner": "encoder_ffn_inner_dim",
    "text": "encoder_projection_units",
    "speaker": "speaker_units",
    "emotion": "emotion_units",
    "predictor_inner": "predictor_ffn_inner_dim",
    "predictor_memory": "predictor_num_memory_units",
    "predictor_layers": "predictor_fsmn_num_layers",
    "predictor_filter": "predictor_filter_size",
    "predictor_shift": "predictor_shift",
    "predictor_lstm": "predictor_lstm_units",
    "duration_prenet": "dur_pred_prenet_units",
    "duration_lstm": "dur_pred_lstm_units",
    "decoder_prenet": "decoder_prenet_units",
    "decoder_layers": "decoder_num_layers",
    "decoder_heads": "decoder_num_heads",
    "decoder_width": "decoder_num_units",
    "decoder_inner": "decoder_ffn_inner_dim",
    "frames_per_step": "outputs_per_step",
    "mel": "num_mels",
    "postnet_inner": "postnet_ffn_inner_dim",
    "postnet_memory": "postnet_num_memory_units",
    "postnet_layers": "postnet_fsmn_num_layers",
    "postnet_filter": "postnet_filter_size",
    "postnet_shift": "postnet_shift",
    "postnet_lstm": "postnet_lstm_units",
}


def sizes_of(params: Mapping[str, Any], state: Mapping[str, Tensor]) -> SambertSizes:
    """Sizes of the network, from configuration and tensors.

    Args:
        params: Model.KanTtsSAMBERT.params of am/config.yaml.
        state: Tensors by their published names.

    Returns:
        The sizes.

    Raises:
        VoiceInvalid: A key or a table is missing or malformed.
    """
    sizes: dict[str, Any] = {}
    for size, key in PARAMS.items():
        value = params.get(key)
        is_list = size.endswith("_prenet")
        whole = [value] if not is_list else value
        if not isinstance(whole, list | tuple) or not whole or not all(isinstance(number, int) for number in whole):
            kind = "a list of whole numbers" if is_list else "a whole number"
            raise VoiceInvalid(
                f"Model.KanTtsSAMBERT.params.{key} is {value!r}, not {kind}; restore the voice's am/config.yaml.", key
            )
        sizes[size] = tuple(whole) if is_list else value
    for size, name in TABLES.items():
        sizes[size] = _shape(state, name)[0]
    sizes["positions"] = _shape(state, POSITIONS)[1]
    sizes["speakers"] = None if params.get("SE") else _shape(state, SPEAKERS)[0]
    return SambertSizes(**sizes)


def _shape(state: Mapping[str, Tensor], name: str) -> torch.Size:
    if name not in state:
        raise VoiceInvalid(
            f"The acoustic checkpoint has no tensor {name}; use a Sambert checkpoint with its own config."
        )
    return state[name].shape


def build_sambert(
    params: Mapping[str, Any], state: Mapping[str, Tensor], speaker_vector: Tensor | None = None
) -> Sambert:
    """The network with a checkpoint's tensors, on their device, frozen for inference.

    Args:
        params: Model.KanTtsSAMBERT.params of am/config.yaml.
        state: float32 tensors by their published names; every name must fit, none may be left.
        speaker_vector: [U] of a voice with SE, else None.

    Returns:
        The network in eval mode.

    Raises:
        VoiceInvalid: Names or shapes differ from the configuration, or the speaker vector is missing or too wide.
    """
    sizes = sizes_of(params, state)
    with torch.device("meta"):  # no time for random weights
        network = Sambert(sizes)
    try:
        network.load_state_dict(dict(state), strict=True, assign=True)
    except RuntimeError as error:
        raise VoiceInvalid(
            f"The acoustic checkpoint does not fit its am/config.yaml; use the pair as published. {error}"
        ) from error
    if sizes.speakers is None:
        if speaker_vector is None or speaker_vector.numel() != sizes.speaker:
            found = "missing" if speaker_vector is None else f"{speaker_vector.numel()} wide"
            raise VoiceInvalid(
                f"am/se.npy is {found} where the voice needs a vector of {sizes.speaker} (SE: true in am/config.yaml); "
                "restore it from the published model."
            )
        network.speaker_vector = speaker_vector.reshape(-1)
    return network.requires_grad_(False).eval()


def load_sambert(folder: VoiceFolder) -> Sambert:
    """Reads a voice's acoustic network, on the CPU.

    Args:
        folder: The voice.

    Returns:
        The network in eval mode.

    Raises:
        VoiceInvalid: The checkpoint cannot be read or does not fit; names the voice.
    """
    vector = None if folder.speaker_vector is None else torch.from_numpy(folder.speaker_vector).float()
    state = read_tensors(folder.acoustic_checkpoint, "model")
    try:
        return build_sambert(folder.acoustic_params, state, vector)
    except VoiceInvalid as error:
        raise VoiceInvalid(
            f"Voice {folder.name} ({folder.acoustic_checkpoint}): {error.message}", error.param
        ) from error
