"""The variance adaptor: pitch, energy and duration of every token, and the memory that the decoder reads.

Shapes: B batch, T tokens, D width, P text width, Q width of text, speaker and emotion together, N decoder steps of
all items one after another, r frames per step, C memory width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deployments.acoustic.fsmn import FsmnEncoder


class VariancePredictor(nn.Module):
    """One number per token from its surroundings: FSMN encoder, bidirectional LSTM, linear.

    Args:
        in_width: Width of a token.
        inner_width: Inner width of the FSMN encoder.
        memory_width: Width of the FSMN encoder.
        num_layers: Layers of the FSMN encoder.
        filter_size: Of its memory blocks.
        shift: Of its memory blocks.
        lstm_width: Width of each direction of the LSTM.
    """

    def __init__(
        self,
        in_width: int,
        inner_width: int,
        memory_width: int,
        num_layers: int,
        filter_size: int,
        shift: int,
        lstm_width: int,
    ) -> None:
        super().__init__()
        self.in_width = in_width
        self.fsmn = FsmnEncoder(in_width, inner_width, memory_width, num_layers, filter_size, shift)
        self.blstm = nn.LSTM(memory_width, lstm_width, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * lstm_width, 1)

    def forward(self, z_BTQ: Tensor, mask_BT: Tensor, length_B: Tensor) -> Tensor:
        """Predicts.

        Args:
            z_BTQ: [B, T, in_width].
            mask_BT: bool [B, T], True on true tokens.
            length_B: int64 [B] on the CPU.

        Returns:
            [B, T], 0 on pads.
        """
        encoded_BTD = self.fsmn(z_BTQ, mask_BT)
        packed = nn.utils.rnn.pack_padded_sequence(encoded_BTD, length_B, batch_first=True, enforce_sorted=False)
        run, _ = self.blstm(packed)
        run_BTD, _ = nn.utils.rnn.pad_packed_sequence(run, batch_first=True, total_length=z_BTQ.shape[1])
        out_BT: Tensor = self.fc(run_BTD)[..., 0]
        return out_BT.masked_fill(~mask_BT, 0.0)


class Prenet(nn.Module):
    """Linear layers with ReLU, and a last one without where out_width is given.

    Args:
        in_width: Width of the input.
        widths: Widths of the layers with ReLU.
        out_width: Width of the last linear layer, or None.
    """

    def __init__(self, in_width: int, widths: tuple[int, ...], out_width: int | None = None) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            # The identity stands where training has dropout: the published names count it.
            layers += [nn.Linear(in_width, width), nn.ReLU(), nn.Identity()]
            in_width = width
        if out_width is not None:
            layers.append(nn.Linear(in_width, out_width))
        self.fcs = nn.ModuleList(layers)

    def forward(self, x_BD: Tensor) -> Tensor:
        """[B, in_width] to the last width."""
        for layer in self.fcs:
            x_BD = layer(x_BD)
        return x_BD


class DurationPredictor(nn.Module):
    """log(duration + 1) of one token after the other, each fed back into the next.

    Args:
        in_width: Width of a token.
        prenet_widths: Widths of the layers on the fed-back value.
        lstm_width: Width of the two-layer LSTM.
    """

    def __init__(self, in_width: int, prenet_widths: tuple[int, ...], lstm_width: int) -> None:
        super().__init__()
        self.prenet = Prenet(1, prenet_widths)
        self.lstm = nn.LSTM(prenet_widths[-1] + in_width, lstm_width, num_layers=2, batch_first=True)
        self.fc = nn.Linear(lstm_width, 1)

    def forward(self, z_BTQ: Tensor, mask_BT: Tensor) -> Tensor:
        """Predicts.

        Args:
            z_BTQ: [B, T, in_width].
            mask_BT: bool [B, T], True on true tokens.

        Returns:
            [B, T], at least 0, and 0 on pads.
        """
        num_items = z_BTQ.shape[0]
        lstm = self.lstm
        prenet_width = lstm.input_size - z_BTQ.shape[2]
        (in_0, w_hidden_0, b_in_0, b_hidden_0), (in_1, w_hidden_1, b_in_1, b_hidden_1) = lstm.all_weights
        # The part of the first layer's gates that does not depend on the fed-back value, for all tokens at once.
        gates_TBD = F.linear(z_BTQ.transpose(0, 1), in_0[:, prenet_width:], b_in_0 + b_hidden_0)
        w_0 = torch.cat([in_0[:, :prenet_width], w_hidden_0], dim=1)
        w_1 = torch.cat([in_1, w_hidden_1], dim=1)
        b_1 = b_in_1 + b_hidden_1
        h_0 = c_0 = h_1 = c_1 = z_BTQ.new_zeros(num_items, lstm.hidden_size)
        out_B1 = z_BTQ.new_zeros(num_items, 1)
        outs = []
        for gates_BD in gates_TBD.unbind(0):
            h_0, c_0 = _lstm_cell(gates_BD + F.linear(torch.cat([self.prenet(out_B1), h_0], dim=1), w_0), c_0)
            h_1, c_1 = _lstm_cell(F.linear(torch.cat([h_0, h_1], dim=1), w_1, b_1), c_1)
            out_B1 = self.fc(h_1).relu()
            outs.append(out_B1)
        return torch.cat(outs, dim=1).masked_fill(~mask_BT, 0.0)


def _lstm_cell(gates_BD: Tensor, c_BD: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step from its gates in the order input, forget, cell, output."""
    i, f, g, o = gates_BD.chunk(4, dim=1)
    c_BD = f.sigmoid() * c_BD + i.sigmoid() * g.tanh()
    return o.sigmoid() * c_BD.tanh(), c_BD


class FrameSinusoid(nn.Module):
    """Position of a frame inside its token.

    Args:
        width: Width of the text, even.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inv_timescales = nn.Parameter(torch.empty(width), requires_grad=False)

    def forward(self, index_N: Tensor) -> Tensor:
        """[N] indices, 1 for a token's first frame and 0 for padding, to [N, P]."""
        angle = index_N[:, None] / self.inv_timescales  # they divide, whatever their name says
        return torch.stack([angle[:, 0::2].sin(), angle[:, 1::2].cos()], dim=2).flatten(1)


class Variances(NamedTuple):
    """What the adaptor says of every token.

    Attributes:
        text_BTP: Text with the embeddings of pitch and energy, as the decoder reads it.
        pitch_BT: Predicted pitch before any shift, 0 on pads.
        energy_BT: Predicted energy, 0 on pads.
        log_duration_BT: log(duration in frames + 1), 0 on pads.
    """

    text_BTP: Tensor
    pitch_BT: Tensor
    energy_BT: Tensor
    log_duration_BT: Tensor


class VarianceAdaptor(nn.Module):
    """Predicts pitch, energy and duration and adds the first two to the text.

    Args:
        text_width: Width of the text.
        in_width: Width of text, speaker and emotion together.
        predictor: Arguments of VariancePredictor after in_width.
        prenet_widths: Of the duration predictor.
        duration_lstm_width: Of the duration predictor.

    Source:
        FastSpeech 2, Ren et al. 2021, section 2.3, with the predictors of the published checkpoints.
    """

    def __init__(
        self,
        text_width: int,
        in_width: int,
        predictor: tuple[int, int, int, int, int, int],
        prenet_widths: tuple[int, ...],
        duration_lstm_width: int,
    ) -> None:
        super().__init__()
        self.pitch_predictor: nn.Module = VariancePredictor(in_width, *predictor)
        self.energy_predictor: nn.Module = VariancePredictor(in_width, *predictor)
        self.duration_predictor: nn.Module = DurationPredictor(in_width, prenet_widths, duration_lstm_width)
        self.dur_position_encoder = FrameSinusoid(text_width)
        self.pitch_emb = nn.Conv1d(1, text_width, 9, padding=4)
        self.energy_emb = nn.Conv1d(1, text_width, 9, padding=4)

    def forward(
        self,
        text_BTP: Tensor,
        voice_BTD: Tensor,
        mask_BT: Tensor,
        length_B: Tensor,
        pitch_ratio_B: Tensor,
        pitch_zero: float,
    ) -> Variances:
        """Predicts and embeds.

        Args:
            text_BTP: [B, T, P].
            voice_BTD: [B, T, D], speaker and emotion side by side.
            mask_BT: bool [B, T], True on true tokens.
            length_B: int64 [B] on the CPU.
            pitch_ratio_B: [B]; the decoder hears the predicted pitch times this.
            pitch_zero: The value in the predictor's unit that stands for 0 Hz.

        Returns:
            The predictions. Durations come from the pitch before the shift: a higher voice keeps its pace.
        """
        z_BTQ = torch.cat([text_BTP, voice_BTD], dim=2)
        pitch_BT = self.pitch_predictor(z_BTQ, mask_BT, length_B)
        energy_BT = self.energy_predictor(z_BTQ, mask_BT, length_B)
        own_BTP = text_BTP + self._embed(self.pitch_emb, pitch_BT) + self._embed(self.energy_emb, energy_BT)
        log_duration_BT = self.duration_predictor(torch.cat([own_BTP, voice_BTD], dim=2), mask_BT)
        if bool((pitch_ratio_B == 1).all()):
            return Variances(own_BTP, pitch_BT, energy_BT, log_duration_BT)
        # x + (ratio - 1) (x - zero) leaves items of ratio 1 untouched to the last bit.
        shifted_BT = pitch_BT + (pitch_ratio_B[:, None] - 1) * (pitch_BT - pitch_zero)
        shifted_BT = shifted_BT.masked_fill(~mask_BT, 0.0)
        heard_BTP = text_BTP + self._embed(self.pitch_emb, shifted_BT) + self._embed(self.energy_emb, energy_BT)
        return Variances(heard_BTP, pitch_BT, energy_BT, log_duration_BT)

    @staticmethod
    def _embed(convolution: nn.Conv1d, value_BT: Tensor) -> Tensor:
        """[B, T] to [B, T, P], as a product: torch is slow at a convolution of one channel."""
        kernel = convolution.weight.shape[2]
        around_BTK = F.pad(value_BT, (kernel // 2, kernel // 2)).unfold(1, kernel, 1)
        return F.linear(around_BTK, convolution.weight[:, 0], convolution.bias)

    def regulate(
        self, text_BTP: Tensor, speaker_BTD: Tensor, emotion_BTD: Tensor, repeats_BT: Tensor, r: int
    ) -> tuple[Tensor, Tensor]:
        """Repeats each token for its frames and folds r frames into one decoder step; no padding between items.

        Args:
            text_BTP: [B, T, P] with pitch and energy.
            speaker_BTD: [B, T, D].
            emotion_BTD: [B, T, D].
            repeats_BT: int64 [B, T], frames per token, 0 on pads.
            r: Frames per step.

        Returns:
            memory_NC: [N, C] of all items one after another.
            steps_B: int64 [B], their numbers of steps.
        """
        num_tokens = repeats_BT.shape[1]
        num_frames_B = repeats_BT.sum(1)
        steps_B = (num_frames_B + r - 1) // r
        # One zero token at the end of each item fills its last step; its frames have index 0.
        filled_BT = torch.cat([repeats_BT, (steps_B * r - num_frames_B)[:, None]], dim=1)
        features_BTD = F.pad(torch.cat([text_BTP, speaker_BTD, emotion_BTD], dim=2), (0, 0, 0, 1))
        repeats = filled_BT.flatten()
        token_N = torch.repeat_interleave(torch.arange(repeats.numel(), device=repeats.device), repeats)
        starts = repeats.cumsum(0) - repeats
        index_N = torch.arange(token_N.numel(), device=repeats.device) - starts[token_N] + 1
        index_N = index_N.masked_fill(token_N % (num_tokens + 1) == num_tokens, 0)
        frames_ND = features_BTD.flatten(0, 1)[token_N]
        text_width = text_BTP.shape[2]
        text_NP = frames_ND[:, :text_width] + self.dur_position_encoder(index_N.to(frames_ND.dtype))
        memory_NC = torch.cat([text_NP.reshape(-1, r * text_width), frames_ND[::r, text_width:]], dim=1)
        return memory_NC, steps_B
