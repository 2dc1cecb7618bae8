"""The generator as a short list of operations that any runtime can build from.

Against the network it is the same function with fewer operations: the nearest-upsampled and the transposed convolution
of a stage act linearly on the same input, so they are one convolution whose output channels are the steps in between.
Where an utterance is shorter than its window, every convolution reads its input through a mask.

Shapes: B batch, M mel bins, F frames, C channels, T time steps of the stage at hand, S samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from deployments.vocoder.hifigan import FINAL_SLOPE, HifiGan, HifiGanConfig, SourceConvolution

Value = TypeVar("Value")
Block = tuple[tuple["Convolution", "Convolution"], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """One convolution.

    Attributes:
        weight_OIK: float32 [outputs, inputs, kernel].
        bias_O: float32.
        dilation: Steps between taps.
        stride: Steps between outputs.
        pad_left: Zeros before the first step.
        pad_right: Zeros after the last step.
    """

    weight_OIK: NDArray[np.float32]
    bias_O: NDArray[np.float32]
    dilation: int = 1
    stride: int = 1
    pad_left: int = 0
    pad_right: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One upsampling stage.

    Attributes:
        upsample: Makes `scale` steps, side by side in the channels, from each step.
        scale: Steps made of one.
        source: Brings the excitation in; None for voices without one.
        blocks: Residual blocks in parallel; each is a list of pairs of convolutions.
    """

    upsample: Convolution
    scale: int
    source: Convolution | None
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The whole generator; see HifiGan for the parts."""

    first: Convolution
    stages: tuple[Stage, ...]
    last: Convolution
    slope: float
    config: HifiGanConfig


class Operations(Protocol[Value]):
    """What a runtime must be able to do; values are [B, C, T]."""

    def convolution(self, x: Value, layer: Convolution) -> Value:
        """A convolution with bias."""

    def leaky_relu(self, x: Value, slope: float) -> Value:
        """max(x, slope x)."""

    def sin(self, x: Value) -> Value:
        """Of radians."""

    def tanh(self, x: Value) -> Value:
        """Hyperbolic tangent."""

    def add(self, x: Value, y: Value) -> Value:
        """Sum of equal shapes."""

    def multiply(self, x: Value, mask: Value) -> Value:
        """Product with [B, 1, T], the same for all channels."""

    def scale(self, x: Value, factor: float) -> Value:
        """Product with a number."""

    def interleave(self, x: Value, scale: int, channels: int) -> Value:
        """[B, scale C, T] to [B, C, T scale]; output step t scale + p is channels p C to p C + C of step t.

        `channels` is C.
        """

    def repeat(self, mask: Value, scale: int) -> Value:
        """[B, 1, T] to [B, 1, T scale], each step `scale` times."""


def plan_of(generator: HifiGan) -> Plan:
    """Collects a generator's weights in the order of computation.

    Args:
        generator: On the CPU.

    Returns:
        The plan; it shares unchanged weights with the generator.
    """
    config = generator.config
    num_blocks = len(config.resblock_kernel_sizes)
    stages = []
    for stage, scale in enumerate(config.upsample_scales):
        blocks: Any = generator.conv_blocks[stage * num_blocks : (stage + 1) * num_blocks]
        source: Any = generator.source_downs[stage] if config.num_harmonics else None
        stages.append(
            Stage(
                upsample=_merged_upsampling(generator, stage),
                scale=scale,
                source=None if source is None else _source(source),
                blocks=tuple(
                    tuple(
                        (_plain(dilated.conv1d, causal=config.causal), _plain(plain.conv1d, causal=config.causal))
                        for dilated, plain in zip(block.convs1, block.convs2, strict=True)
                    )
                    for block in blocks
                ),
            )
        )
    return Plan(
        first=_plain(generator.conv_pre.conv1d, causal=config.causal),
        stages=tuple(stages),
        last=_plain(generator.conv_post.conv1d, causal=config.causal),
        slope=config.negative_slope,
        config=config,
    )


def waveform(ops: Operations[Value], plan: Plan, mel: Value, mask: Value | None, excitation: Value | None) -> Value:
    """Runs or builds the generator with a runtime's operations.

    Args:
        ops: The runtime.
        plan: From `plan_of`.
        mel: [B, M, F]; zeros at and after the end of an utterance.
        mask: [B, 1, F]; 1 for frames of the utterance, 0 after its end; None where all windows are full.
        excitation: [B, 1, S], zeros after the end; None for voices without a source.

    Returns:
        [B, 1, S] in [-1, 1]; what comes after the end of an utterance means nothing.
    """
    x = ops.convolution(mel, plan.first)
    for stage in plan.stages:
        x = ops.leaky_relu(ops.add(ops.sin(x), x), plan.slope)
        channels = stage.upsample.weight_OIK.shape[0] // stage.scale
        x = ops.interleave(ops.convolution(_masked(ops, x, mask), stage.upsample), stage.scale, channels)
        if stage.source is not None and excitation is not None:
            x = ops.add(x, ops.convolution(excitation, stage.source))
        mask = None if mask is None else ops.repeat(mask, stage.scale)
        mixed = None
        for block in stage.blocks:
            made = _residual_block(ops, x, mask, block, plan.slope)
            mixed = made if mixed is None else ops.add(mixed, made)
        assert mixed is not None
        x = ops.scale(mixed, 1.0 / len(stage.blocks))
    x = _masked(ops, ops.leaky_relu(x, FINAL_SLOPE), mask)
    return ops.tanh(ops.convolution(x, plan.last))


def _masked(ops: Operations[Value], x: Value, mask: Value | None) -> Value:
    return x if mask is None else ops.multiply(x, mask)


def _residual_block(
    ops: Operations[Value],
    x: Value,
    mask: Value | None,
    block: Block,
    slope: float,
) -> Value:
    for dilated, plain in block:
        y = ops.convolution(_masked(ops, ops.leaky_relu(x, slope), mask), dilated)
        y = ops.convolution(_masked(ops, ops.leaky_relu(y, slope), mask), plain)
        x = ops.add(x, y)
    return x


def _plain(layer: torch.nn.Conv1d, *, causal: bool) -> Convolution:
    kernel, dilation = layer.kernel_size[0], layer.dilation[0]
    reach = (kernel - 1) * dilation
    left = reach if causal else reach // 2
    return Convolution(_array(layer.weight), _array(layer.bias), dilation, 1, left, reach - left)


def _source(layer: SourceConvolution) -> Convolution:
    inner = layer.conv1d
    scale, kernel = inner.stride[0], inner.kernel_size[0]
    left = layer.left_pad or int(inner.padding[0])
    # As many outputs as the stage has steps need kernel - scale zeros in all; causal layers have more on the left.
    return Convolution(_array(inner.weight), _array(inner.bias), 1, scale, left, max(0, kernel - scale - left))


def _merged_upsampling(generator: HifiGan, stage: int) -> Convolution:
    """One convolution for both upsampling paths of a stage.

    Input step n reaches output step scale n + u with the weight response[u] of both paths together; output step
    scale n + p therefore takes response[p - scale m] from input step n + m.
    """
    config = generator.config
    scale, kernel = config.upsample_scales[stage], config.kernel_size
    repeat_path: Any = generator.repeat_upsamples[stage]
    transpose_path: Any = generator.transpose_upsamples[stage]
    repeat, transpose = repeat_path[2].conv1d, transpose_path[1].deconv
    repeat_OIK = repeat.weight.double()
    transpose_OIK = transpose.weight.double().transpose(0, 1)
    behind = kernel - 1 if config.causal else (kernel - 1) // 2
    padding = int(transpose.padding[0])
    first = min(behind + 1 - kernel, -padding)
    last = max(scale - 1 + behind, transpose_OIK.shape[2] - 1 - padding)
    response_OIU = repeat_OIK.new_zeros(*repeat_OIK.shape[:2], last - first + 1)
    for step in range(scale):  # the same input stands at `scale` steps of the upsampled signal
        low = step + behind - (kernel - 1) - first
        response_OIU[:, :, low : low + kernel] += repeat_OIK.flip(2)
    response_OIU[:, :, -padding - first : -padding - first + transpose_OIK.shape[2]] += transpose_OIK
    before, after = last // scale, (scale - 1 - first) // scale
    weight_POIK = response_OIU.new_zeros(scale, *repeat_OIK.shape[:2], before + 1 + after)
    for phase in range(scale):
        for tap in range(before + 1 + after):
            place = phase - scale * (tap - before)
            if first <= place <= last:
                weight_POIK[phase, :, :, tap] = response_OIU[:, :, place - first]
    bias_O = (repeat.bias.double() + transpose.bias.double()).repeat(scale)
    return Convolution(_array(weight_POIK.flatten(0, 1)), _array(bias_O), 1, 1, before, after)


def _array(tensor: torch.Tensor | None) -> NDArray[np.float32]:
    assert tensor is not None
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32).contiguous().numpy()
    return array
