"""One decoder step as few operations as possible: the network's weights, multiplied out once.

Shapes: B rows (sequences), D decoder width, H heads, K width of one head, W columns of the band, C memory width,
L layers, N memory steps, P width of the first prenet layer, M mel width, r frames per step.
"""

from __future__ import annotations

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

    def forward(self, x_BD: Tensor, keys: Tensor, values: Tensor, new_2BHK: Tensor, bias: Tensor) -> Tensor:
        """One step of one block.

        Args:
            x_BD: [B, D].
            keys: [B 2H, W, K]; of each row the heads over its own steps, then the heads over memory.
            values: As keys.
            new_2BHK: [2, B, H, K], where key and value of this step belong; a view into keys and values.
            bias: [B 2H, 1, W], 0 where a head may look and -inf elsewhere.

        Returns:
            [B, D].
        """
        rows = x_BD.shape[0]
        qkv_BD = F.linear(F.layer_norm(x_BD, (self.width,), eps=LAYER_NORM_EPS), self.w_qkv, self.b_qkv)
        queries = qkv_BD.view(rows, 3, self.num_heads, -1)
        new_2BHK.copy_(queries[:, 1:].transpose(0, 1))
        twice = queries[:, :1].expand(-1, 2, -1, -1).reshape(keys.shape[0], 1, -1)
        weights = torch.baddbmm(bias, twice, keys.transpose(1, 2)).softmax(2)
        attended_BD = torch.bmm(weights, values).view(rows, 2 * self.width)
        x_BD = x_BD + F.linear(attended_BD, self.w_out, self.b_out)
        inner = F.linear(F.layer_norm(x_BD, (self.width,), eps=LAYER_NORM_EPS), self.w_1, self.b_1).relu_()
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
            Input of the first block without the prenet's part [..., N, D], and keys and values
            [..., N, L, 2, H, K].
        """
        projected = F.linear(memory_NC, self.w_memory, self.b_memory)
        keys_values = projected[..., self.width :]
        shape = (*keys_values.shape[:-1], self.num_layers, 2, self.num_heads, -1)
        return projected[..., : self.width], keys_values.reshape(shape)

    def forward(
        self, before_BP: Tensor, memory_BD: Tensor, window: Tensor, new: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step of all rows.

        Args:
            before_BP: [B, P], the step before as the first prenet layer hears it, before its ReLU.
            memory_BD: [B, D], this step's memory as the first block's input.
            window: [L, 2, B 2H, W, K], keys and values of the band; see FusedBlock.
            new: [L, 2, B, H, K], views into window where this step's own keys and values belong.
            bias: [B 2H, 1, W]; see FusedBlock.

        Returns:
            Frames of this step [B, r M] and before_BP of the next one.
        """
        hidden = before_BP.relu()
        for layer in self.prenet:
            hidden = layer(hidden).relu_()
        x_BD = torch.addmm(memory_BD, hidden, self.w_in.t())
        keys, values = window.unbind(1)
        layer_keys, layer_values, layer_new = keys.unbind(0), values.unbind(0), new.unbind(0)
        for index, block in enumerate(self.blocks):
            x_BD = block(x_BD, layer_keys[index], layer_values[index], layer_new[index], bias)
        out = F.linear(F.layer_norm(x_BD, (self.width,), eps=LAYER_NORM_EPS), self.w_out, self.b_out)
        return out[:, : self.step_width], out[:, self.step_width :]
