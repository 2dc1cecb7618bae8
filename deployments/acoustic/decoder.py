"""Continuous batching: sequences join and leave the mel decoder between steps.

All sequences share one timeline. Per layer there is one buffer of keys and values per row, with columns along the
timeline: the memory of a sequence that joins at column c lies at columns c, c + 1, ...; keys and values of the step at
column g are written at column g + W, W being the widest band in use. At column g both bands, [t - w, t] over a
sequence's own steps and [t, t + w] over its memory, then lie in the same columns [g, g + W] for every row: one view, no
gathering. A bias that changes only when rows come and go cuts it to each row's own band and life.

When the timeline is used up, what is still in reach moves to its start and the next stretch of memory is projected.
So buffers do not grow with the length of a utterance.

Shapes: B rows in use, R rows there are, D decoder width, H heads, K width of one head, C columns, L layers,
N steps of one sequence, F frames, M mel width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deployments.acoustic.fused import FusedDecoder

NUM_AHEAD = 64
"""Steps between two moves of the timeline: few enough that projecting memory never stalls the rows for long."""
NEVER = float("-inf")


class Utterance:
    """One utterance in the decoder.

    Args:
        memory_NC: [N, memory width].
        band_width: Its own w.
        mel_width: M.

    Attributes:
        num_steps: N.
        done: Whether all steps are made.
    """

    def __init__(self, memory_NC: Tensor, band_width: int, mel_width: int) -> None:
        self.memory_NC = memory_NC
        self.band_width = band_width
        self.num_steps = memory_NC.shape[0]
        self.done = False
        self.origin = 0  # column of its first step; negative once the timeline has moved past it
        self.row = -1
        self._mel_width = mel_width
        self._pieces: list[Tensor] = []

    @property
    def end(self) -> int:
        """Column after its last step."""
        return self.origin + self.num_steps

    def keep(self, made: Tensor) -> None:
        """Takes steps [n, r M] over from the decoder's buffer."""
        self._pieces.append(made.reshape(-1, self._mel_width).clone())

    def frames(self) -> Tensor:
        """The frames handed over and not yet taken, [F, M]; all of them once done."""
        return torch.cat(self._pieces)

    def take(self) -> Tensor:
        """The frames handed over since the last call, at least one, [F, M]."""
        frames_FM = self.frames()
        self._pieces.clear()
        return frames_FM


class StepDecoder:
    """Decodes many sequences together, one step of all of them at a time. Not for use by several threads.

    Args:
        fused: Weights of the voice, shared.
        num_ahead: Columns beyond the band.
    """

    def __init__(self, fused: FusedDecoder, num_ahead: int = NUM_AHEAD) -> None:
        self._fused = fused
        self._num_ahead = num_ahead
        self._utterances: list[Utterance | None] = []
        self._num_active = 0
        self._column = 0
        self._kept_column = 0
        self._next_end = 0
        self._band = 0
        self._allocate(1, 0)

    @property
    def num_active(self) -> int:
        """Utterances that are not done."""
        return self._num_active

    @property
    def num_bytes(self) -> int:
        """Size of the buffers."""
        return sum(buffer.nbytes for buffer in self._buffers())

    @torch.inference_mode()
    def join(self, memories: Sequence[Tensor], band_widths: Sequence[int]) -> list[Utterance]:
        """Adds utterances; their first step is the next one.

        Args:
            memories: [N, memory width] each, N at least 1.
            band_widths: w of each.

        Returns:
            Their handles.
        """
        # Beyond its own length a band holds nothing.
        joining = [
            Utterance(memory_NC, min(band_width, memory_NC.shape[0] - 1), self._fused.mel_width)
            for memory_NC, band_width in zip(memories, band_widths, strict=True)
        ]
        # Frames of the other rows made so far are handed over, so that all rows are kept from the same column on.
        self._keep_frames()
        widest = max((utterance.band_width for utterance in joining), default=0)
        if not self._num_active:
            self._column = self._kept_column = 0
            self._utterances = []
            self._fit(len(joining), widest)
        elif widest > self._band:
            self._move(widest)
        holes = [row for row, other in enumerate(self._utterances) if other is None]
        self._fit(self._num_active + len(joining), self._band)
        for utterance in joining:
            if holes:
                utterance.row = holes.pop()
                self._utterances[utterance.row] = utterance
            else:
                utterance.row = len(self._utterances)
                self._utterances.append(utterance)
            utterance.origin = self._column
            self._num_active += 1
            self._clear(utterance)
        if joining:
            self._project(joining, self._column)
        self._find_next_end()
        return joining

    def leave(self, utterance: Utterance) -> None:
        """Drops an utterance that is no longer wanted; one that is done or gone is left alone."""
        if any(other is utterance for other in self._utterances):
            self._release(utterance)
            self._find_next_end()

    def num_made(self, utterance: Utterance) -> int:
        """Steps made of an utterance that has not left."""
        return utterance.num_steps if utterance.done else self._column - utterance.origin

    def hand_over(self) -> None:
        """Lets every utterance have the frames made so far."""
        self._keep_frames()

    @torch.inference_mode()
    def step(self) -> list[Utterance]:
        """Makes one step of every utterance.

        Returns:
            Those that are done with it.
        """
        self._close_holes()
        rows, column, band = self._num_active, self._column, self._band
        in_reach = slice(column, column + band + 1)
        window = self._cache[:, :, :rows, :, in_reach].flatten(2, 3)
        new = self._cache[:, :, :rows, : self._fused.num_heads, column + band]
        bias = (self._band_bias[:rows] + self._life_bias[:rows, :, in_reach])[:, :, None]
        bias = bias.expand(-1, -1, self._fused.num_heads, -1).reshape(window.shape[2], 1, -1)
        made, before = self._fused(self._before[:rows], self._memory_in[column, :rows], window, new, bias)
        self._made[column, :rows] = made
        self._before[:rows] = before
        self._column += 1
        finished: list[Utterance] = []
        if self._column == self._next_end:
            finished = self._finish()
        if self._num_active and self._column == self._num_ahead:
            self._move(max(other.band_width for other in self._utterances if other is not None))
        return finished

    def _finish(self) -> list[Utterance]:
        self._keep_frames()
        finished = [other for other in self._utterances if other is not None and other.end == self._column]
        for utterance in finished:
            self._release(utterance)
            utterance.done = True
        self._find_next_end()
        return finished

    def _release(self, utterance: Utterance) -> None:
        self._utterances[utterance.row] = None
        self._num_active -= 1

    def _find_next_end(self) -> None:
        self._next_end = min((other.end for other in self._utterances if other is not None), default=-1)

    def _keep_frames(self) -> None:
        """Hands the frames in the buffer over to their sequences."""
        for row, utterance in enumerate(self._utterances):
            if utterance is not None and self._kept_column < self._column:
                utterance.keep(self._made[self._kept_column : self._column, row])
        self._kept_column = self._column

    def _close_holes(self) -> None:
        """Moves the last rows into the places of those that left, so that the rows in use come first."""
        if self._num_active == len(self._utterances):
            return
        self._keep_frames()
        reach = slice(self._column, None)
        for hole in range(self._num_active):
            if self._utterances[hole] is not None:
                continue
            while self._utterances[-1] is None:
                self._utterances.pop()
            last = len(self._utterances) - 1
            self._cache[:, :, hole, :, reach] = self._cache[:, :, last, :, reach]
            for rows in (self._before, self._band_bias, self._life_bias):
                rows[hole] = rows[last]
            self._memory_in[reach, hole] = self._memory_in[reach, last]
            utterance = self._utterances.pop()
            assert utterance is not None
            self._utterances[hole] = utterance
            utterance.row = hole
        del self._utterances[self._num_active :]

    def _allocate(self, num_rows: int, band: int) -> None:
        """Makes zeroed buffers: a value under a bias of -inf still has to be finite."""
        fused = self._fused
        columns = band + self._num_ahead
        weights = fused.w_in
        head_width = fused.width // fused.num_heads
        self._cache = weights.new_zeros(fused.num_layers, 2, num_rows, 2 * fused.num_heads, columns, head_width)
        self._memory_in = weights.new_zeros(columns, num_rows, fused.width)
        self._made = weights.new_zeros(self._num_ahead, num_rows, fused.step_width)
        self._before = weights.new_zeros(num_rows, fused.start_P.shape[0])
        self._band_bias = weights.new_zeros(num_rows, 2, band + 1)
        self._life_bias = weights.new_zeros(num_rows, 2, columns)
        self._band = band

    def _fit(self, num_rows: int, band: int) -> None:
        """Gives an idle decoder another band, or any decoder more rows; what is in the rows stays."""
        had_rows = self._cache.shape[2]
        if band != self._band:
            self._allocate(max(num_rows, had_rows), band)
        elif num_rows > had_rows:
            old = self._buffers()
            self._allocate(max(num_rows, 2 * had_rows), band)
            for row_dim, source, target in zip((2, 1, 1, 0, 0, 0), old, self._buffers(), strict=True):
                target.narrow(row_dim, 0, had_rows).copy_(source)

    def _buffers(self) -> tuple[Tensor, ...]:
        return self._cache, self._memory_in, self._made, self._before, self._band_bias, self._life_bias

    def _clear(self, utterance: Utterance) -> None:
        """Readies a row for a sequence that joins."""
        row = utterance.row
        # Nothing of the row's last sequence may be seen, not even through a weight of 0: it may be NaN.
        self._cache[:, :, row].zero_()
        self._before[row] = self._fused.start_P
        self._set_bias(utterance)

    def _set_bias(self, utterance: Utterance) -> None:
        row, band, width = utterance.row, self._band, utterance.band_width
        self._band_bias[row] = NEVER
        self._band_bias[row, 0, band - width :] = 0.0
        self._band_bias[row, 1, : width + 1] = 0.0
        self._life_bias[row] = 0.0
        self._life_bias[row, 0, : max(0, utterance.origin + band)] = NEVER
        self._life_bias[row, 1, max(0, utterance.end) :] = NEVER

    def _project(self, utterances: list[Utterance], first: int) -> None:
        """Fills the memory columns from `first` on."""
        columns = self._memory_in.shape[0]
        num = columns - first
        width = utterances[0].memory_NC.shape[1]
        memory_BNC = self._memory_in.new_zeros(len(utterances), num, width)
        for index, utterance in enumerate(utterances):
            part = utterance.memory_NC[first - utterance.origin :][:num]
            memory_BNC[index, : part.shape[0]] = part
        memory_in_BND, keys_values = self._fused.project(memory_BNC)
        heads = self._fused.num_heads
        for index, utterance in enumerate(utterances):
            self._memory_in[first:, utterance.row] = memory_in_BND[index]
            self._cache[:, :, utterance.row, heads:, first:] = keys_values[index].permute(1, 2, 3, 0, 4)

    def _move(self, band: int) -> None:
        """Moves the timeline on to the present and gives it room for a band of another width."""
        self._keep_frames()
        self._close_holes()
        rows, column, heads, old_band = self._num_active, self._column, self._fused.num_heads, self._band
        reach = min(band, old_band)
        own = self._cache[:, :, :rows, :heads, column + old_band - reach : column + old_band].clone()
        ahead = self._cache[:, :, :rows, heads:, column:].clone()
        memory_in, before = self._memory_in[column:, :rows].clone(), self._before[:rows].clone()
        if band != old_band:
            self._allocate(self._cache.shape[2], band)
        columns = self._memory_in.shape[0]
        known = min(ahead.shape[4], columns)
        self._cache[:, :, :rows, :heads, band - reach : band] = own
        self._cache[:, :, :rows, heads:, :known] = ahead[:, :, :, :, :known]
        self._memory_in[:known, :rows] = memory_in[:known]
        self._before[:rows] = before
        active = [utterance for utterance in self._utterances if utterance is not None]
        for utterance in active:
            utterance.origin -= column
            self._set_bias(utterance)
        self._column = self._kept_column = 0
        self._find_next_end()
        if known < columns:
            self._project(active, known)
