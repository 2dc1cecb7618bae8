"""What runs a voice's network: torch on any device, or graphs in onnxruntime on a CPU, in a third of the time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deployments.acoustic.encoder import LinguisticEncoder
from deployments.acoustic.fused import FusedDecoder, StepBuffers
from deployments.acoustic.running_postnet import PostNetKernels, RunningPostNet, TorchKernels
from deployments.acoustic.sambert import Sambert
from deployments.acoustic.variance import DurationPredictor, VariancePredictor
from deployments.errors import ConfigurationInvalid

log = logging.getLogger(__name__)
BOUND = 1e-4
"""How far a runtime may be from torch, absolute and relative."""
NUM_TRIED = 12
"""Tokens and frames of the comparison at start-up."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """How the parts that are called by the stepper run; the encoder and the predictors are changed in the network.

    Attributes:
        name: "torch" or "onnxruntime".
        bind_step: See StepDecoder.
        kernels: See RunningPostNet.
    """

    name: str
    bind_step: Callable[[StepBuffers], Callable[[], None]]
    kernels: PostNetKernels


class Differs(Exception):
    """A runtime's numbers are not those of torch."""


@torch.inference_mode()
def choose_runtime(network: Sambert, fused: FusedDecoder, backend: str, threads: int) -> Runtime:
    """Readies a network for a runtime; with onnxruntime its encoder and predictors are replaced.

    On a GPU it turns TF32 off for the whole process, so that float32 is float32.

    Args:
        network: On its device, in eval mode.
        fused: Its decoder.
        backend: "torch", "onnxruntime", or "auto": onnxruntime on a CPU where it is installed and agrees with torch.
        threads: CPU threads of onnxruntime.

    Returns:
        The runtime.

    Raises:
        ConfigurationInvalid: onnxruntime was asked for and cannot be had.
    """
    plain = Runtime("torch", fused.bind, TorchKernels(network.mel_postnet))
    on_cpu = fused.w_in.device.type == "cpu"
    if not on_cpu:
        # A GPU would round the factors of products to 11 bits: batches would differ from their items alone.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if backend == "torch" or (backend == "auto" and not on_cpu):
        return plain
    if not on_cpu:
        raise ConfigurationInvalid(
            "acoustic.backend=onnxruntime is for CPUs; set it to auto or acoustic.device to cpu.", "acoustic.backend"
        )
    try:
        return _graphs(network, fused, threads)
    except Exception as error:
        if backend == "auto":
            log.warning("acoustic: onnxruntime cannot be used, torch takes its place: %r", error)
            return plain
        raise ConfigurationInvalid(
            f"acoustic.backend=onnxruntime cannot be used: {error}; install onnx and onnxruntime or set it to auto.",
            "acoustic.backend",
        ) from error


def _graphs(network: Sambert, fused: FusedDecoder, threads: int) -> Runtime:
    # Imported here: where a platform has no wheels, torch does it all.
    from deployments.acoustic.encoder_graph import LinguisticEncoderGraph
    from deployments.acoustic.postnet_graph import PostNetGraphs
    from deployments.acoustic.step_graph import StepGraph
    from deployments.acoustic.variance_graph import DurationPredictorGraph, VariancePredictorGraph

    text, adaptor = network.text_encoder, network.variance_adaptor
    random = torch.Generator().manual_seed(0)
    length_B = torch.tensor([NUM_TRIED, NUM_TRIED // 2])
    mask_BT = torch.arange(NUM_TRIED) < length_B[:, None]

    def tokens(width: int) -> Tensor:
        return torch.randn(2, NUM_TRIED, width, generator=random)

    assert isinstance(text.ling_enc, LinguisticEncoder)
    encoder = LinguisticEncoderGraph(text.ling_enc, threads)
    x_BTE = tokens(text.sy_emb.embedding_dim)
    _compare("encoder", text.ling_enc(x_BTE, mask_BT)[mask_BT], encoder(x_BTE, mask_BT)[mask_BT])
    predictors = []
    for predictor in (adaptor.pitch_predictor, adaptor.energy_predictor):
        assert isinstance(predictor, VariancePredictor)
        predictors.append(VariancePredictorGraph(predictor, threads))
        z_BTQ = tokens(predictor.in_width)
        _compare("predictor", predictor(z_BTQ, mask_BT, length_B), predictors[-1](z_BTQ, mask_BT, length_B))
    assert isinstance(adaptor.duration_predictor, DurationPredictor)
    duration = DurationPredictorGraph(adaptor.duration_predictor, threads)
    z_BTQ = tokens(predictors[0].in_width)
    _compare("duration", adaptor.duration_predictor(z_BTQ, mask_BT), duration(z_BTQ, mask_BT))
    step, postnet = StepGraph(fused, threads), PostNetGraphs(network.mel_postnet, threads)
    _compare("step", *(_one_step(fused, bind, seed=1) for bind in (fused.bind, step.bind)))
    mel_FM = tokens(fused.mel_width).flatten(0, 1)
    _compare(
        "post-net", *(_refined(network, kernels, mel_FM) for kernels in (TorchKernels(network.mel_postnet), postnet))
    )
    text.ling_enc = encoder
    adaptor.pitch_predictor, adaptor.energy_predictor = predictors
    adaptor.duration_predictor = duration
    return Runtime("onnxruntime", step.bind, postnet)


def _compare(part: str, expected: Tensor, found: Tensor) -> None:
    if not torch.allclose(found, expected, rtol=BOUND, atol=BOUND):
        worst = float((found - expected).abs().max())
        raise Differs(f"its {part} differs from torch by {worst:.1e}, more than {BOUND:.0e}")


def _one_step(fused: FusedDecoder, bind: Callable[[StepBuffers], Callable[[], None]], seed: int) -> Tensor:
    """What a step makes of random buffers."""
    random = torch.Generator().manual_seed(seed)
    buffers = StepBuffers(fused, 2, 3)
    for buffer in (buffers.before_BP, buffers.memory_BD, buffers.own, buffers.ahead):
        buffer.copy_(torch.randn(buffer.shape, generator=random))
    bind(buffers)()
    return torch.cat([buffers.out.flatten(), buffers.new.flatten()])


def _refined(network: Sambert, kernels: PostNetKernels, mel_FM: Tensor) -> Tensor:
    """What the post-net makes of one utterance."""
    postnet = RunningPostNet(network.mel_postnet, kernels)
    return postnet.advance([postnet.start(len(mel_FM))], [mel_FM])[0]
