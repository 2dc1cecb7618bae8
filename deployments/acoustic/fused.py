"""One decoder step as few operations as possible: the network's weights, multiplied out once.

Shapes: B rows (utterances), D decoder width, H heads, W own steps in reach, V = W + 1 memory steps in reach, C memory
width, L layers, N memory steps, P width of the first prenet layer, M mel width, r frames per step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deployments.acoustic.attention import LAYER_NORM_EPS
from deployments.acoustic.mel_decoder import BandDecoder, DecoderBlock


def _weights(layer: nn.Linear | nn.Conv1d) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear layer or kernel-1 convolution, in float64: their products round once."""
    assert layer.bias is not None
    return layer.weight.double().flatten(1), layer.bias.double()


def _after_norm(norm: nn.LayerNorm, layer: nn.Linear | nn.Conv1d) -> tuple[Tensor, Tensor]:
    """A layer that takes in the scale and offset of the norm before it."""
    weight, bias = _weights(layer)
    return weight * norm.weight.double(), bias + weight @ norm.bias.double()


def _laid_out(tensor: Tensor) -> Tensor:
    """float32, in the order that the matrix product reads fastest.

    Weights with more outputs than inputs are stored by input: measured on 1 to 16 rows, 128 to 1024 takes 25 to 40 %
    less time so, 1024 to 128 more.
    """
    tensor = tensor.detach().float()
    if tensor.dim() == 2 and tensor.shape[0] > tensor.shape[1]:
        return tensor.t().contiguous().t()
    return tensor.contiguous()


def _normed(x_BD: Tensor) -> Tensor:
    return F.layer_norm(x_BD, x_BD.shape[1:], eps=LAYER_NORM_EPS)


class FusedBlock(nn.Module):
    """A decoder block for one step, with keys and values of the band at hand.

    Args:
        block: The block of the network.
    """

    def __init__(self, block: DecoderBlock) -> None:
        super().__init__()
        attention, feed_forward = block.pnca_attn, block.pos_ffn
        self.num_heads: int = attention.num_heads
        self.width: int = attention.fc_x.in_features
        w_qkv, b_qkv = _after_norm(attention.layer_norm, attention.w_x_qkv)
        scale = torch.ones_like(b_qkv)
        scale[: self.width] = (self.width // self.num_heads) ** -0.5
        self._keep("w_qkv", w_qkv * scale[:, None])
        self._keep("b_qkv", b_qkv * scale)
        (w_own, b_own), (w_memory, b_memory) = _weights(attention.fc_x), _weights(attention.fc_h)
        self._keep("w_out", torch.cat([w_own, w_memory], dim=1))
        self._keep("b_out", b_own + b_memory)
        for name, (weight, bias) in {
            "1": _after_norm(feed_forward.layer_norm, feed_forward.w_1),
            "2": _weights(feed_forward.w_2),
        }.items():
            self._keep(f"w_{name}", weight)
            self._keep(f"b_{name}", bias)

    w_qkv: Tensor
    b_qkv: Tensor
    w_out: Tensor
    b_out: Tensor
    w_1: Tensor
    b_1: Tensor
    w_2: Tensor
    b_2: Tensor

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, _laid_out(tensor))

    def forward(self, x_BD: Tensor, own: Tensor, ahead: Tensor, bias: Tensor, new_1BE: Tensor) -> Tensor:
        """One step of one block.

        Args:
            x_BD: [B, D].
            own: [2, W, B, D], keys and values of own steps in reach.
            ahead: [2, V, B, D], keys and values of memory in reach.
            bias: [V, B, 2H], 0 where a head may look and -inf elsewhere; heads over own steps first, this one last.
            new_1BE: [1, B, 3D], filled with query, key and value of this step.

        Returns:
            [B, D].
        """
        torch.addmm(self.b_qkv, _normed(x_BD), self.w_qkv.t(), out=new_1BE[0])
        query_1BD, key_1BD, value_1BD = new_1BE.chunk(3, dim=2)
        by_head = (-1, x_BD.shape[0], 2 * self.num_heads, self.width // self.num_heads)
        keys = torch.cat([torch.cat([own[0], key_1BD]), ahead[0]], dim=2).view(by_head)
        values = torch.cat([torch.cat([own[1], value_1BD]), ahead[1]], dim=2).view(by_head)
        query = torch.cat([query_1BD, query_1BD], dim=2).view(by_head)
        weights = ((keys * query).sum(3) + bias).softmax(0)
        attended_BD = (weights[..., None] * values).sum(0).flatten(1)
        x_BD = x_BD + F.linear(attended_BD, self.w_out, self.b_out)
        inner = F.linear(_normed(x_BD), self.w_1, self.b_1).relu_()
        return x_BD + F.linear(inner, self.w_2, self.b_2)


class FusedDecoder(nn.Module):
    """The decoder of one voice in the form that steps; holds weights only, so any number of step decoders share it.

    Args:
        decoder: The network's decoder.
    """

    def __init__(self, decoder: BandDecoder) -> None:
        super().__init__()
        self.width: int = decoder.dec_in_proj.out_features
        self.step_width: int = decoder.dec_out_proj.out_features
        self.mel_width = decoder.mel_width
        blocks = [block for block in decoder.pnca if isinstance(block, DecoderBlock)]
        self.num_layers = len(blocks)
        self.num_heads: int = blocks[0].pnca_attn.num_heads
        self.blocks = nn.ModuleList(FusedBlock(block) for block in blocks)

        linears = [layer for layer in decoder.prenet.fcs if isinstance(layer, nn.Linear)]
        first, middle, last = linears[0], linears[1:-1], linears[-1]
        self.prenet = nn.ModuleList(middle)
        (w_first, b_first), (w_last, b_last) = _weights(first), _weights(last)
        w_in, b_in = (tensor * self.width**0.5 for tensor in _weights(decoder.dec_in_proj))
        w_memory, w_prenet = torch.split(w_in, [w_in.shape[1] - self.width, self.width], dim=1)
        self._keep("w_in", w_prenet @ w_last)
        memory_layers = [(w_memory, b_in + w_prenet @ b_last), *(_weights(block.pnca_attn.w_h_kv) for block in blocks)]
        self._keep("w_memory", torch.cat([weight for weight, _ in memory_layers]))
        self._keep("b_memory", torch.cat([bias for _, bias in memory_layers]))

        w_out, b_out = _after_norm(decoder.ln, decoder.dec_out_proj)
        # The next step hears only the last frame, through its first prenet layer: that product is known beforehand.
        last_frame = slice(self.step_width - self.mel_width, self.step_width)
        self._keep("w_out", torch.cat([w_out, w_first @ w_out[last_frame]]))
        self._keep("b_out", torch.cat([b_out, w_first @ b_out[last_frame] + b_first]))
        self._keep("start_P", b_first)  # the frame before the first is zero

    w_in: Tensor
    w_memory: Tensor
    b_memory: Tensor
    w_out: Tensor
    b_out: Tensor
    start_P: Tensor

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, _laid_out(tensor))

    def project(self, memory_NC: Tensor) -> tuple[Tensor, Tensor]:
        """What all layers need of the memory, in one product.

        Args:
            memory_NC: [..., N, C].

        Returns:
            Input of the first block without the prenet's part [..., N, D], and keys and values [..., N, L, 2, D].
        """
        projected = F.linear(memory_NC, self.w_memory, self.b_memory)
        keys_values = projected[..., self.width :]
        return projected[..., : self.width], keys_values.reshape(
            *keys_values.shape[:-1], self.num_layers, 2, self.width
        )

    def forward(self, buffers: StepBuffers) -> None:
        """One step of all rows: reads and fills the buffers."""
        hidden = buffers.before_BP.relu()
        for layer in self.prenet:
            hidden = layer(hidden).relu_()
        x_BD = torch.addmm(buffers.memory_BD, hidden, self.w_in.t())
        for index, block in enumerate(self.blocks):
            x_BD = block(x_BD, buffers.own[index], buffers.ahead[index], buffers.bias, buffers.new[index])
        torch.addmm(self.b_out, _normed(x_BD), self.w_out.t(), out=buffers.out)

    def bind(self, buffers: StepBuffers) -> Callable[[], None]:
        """What makes one step on these buffers, in torch."""
        return lambda: self(buffers)


class StepBuffers:
    """What one step of some rows reads and fills; the places stay while the rows do, so that runtimes may hold them.

    Args:
        fused: The decoder.
        num_rows: B.
        band: W, at least 1.

    Attributes:
        before_BP: Read: the step before as the first prenet layer hears it, before its ReLU.
        memory_BD: Read: this step's memory as the first block's input.
        own: Read: [L, 2, W, B, D], keys and values of own steps in reach, in any order.
        ahead: Read: [L, 2, V, B, D], keys and values of memory in reach, in any order.
        bias: Read: [V, B, 2H]; see FusedBlock.
        out: Filled: [B, r M + P], the frames of this step and before_BP of the next one.
        new: Filled: [L, 1, B, 3D], query, key and value of this step.
        is_open: Whether the bias is all 0; whoever writes the bias says so.
    """

    def __init__(self, fused: FusedDecoder, num_rows: int, band: int) -> None:
        zeros = fused.w_in.new_zeros
        self.band = band
        self.before_BP = zeros(num_rows, fused.start_P.shape[0])
        self.memory_BD = zeros(num_rows, fused.width)
        self.own = zeros(fused.num_layers, 2, band, num_rows, fused.width)
        self.ahead = zeros(fused.num_layers, 2, band + 1, num_rows, fused.width)
        self.bias = zeros(band + 1, num_rows, 2 * fused.num_heads)
        self.out = zeros(num_rows, fused.w_out.shape[0])
        self.new = zeros(fused.num_layers, 1, num_rows, 3 * fused.width)
        self.is_open = True

    @property
    def num_bytes(self) -> int:
        """Size of all of them."""
        return sum(tensor.nbytes for tensor in vars(self).values() if isinstance(tensor, Tensor))
