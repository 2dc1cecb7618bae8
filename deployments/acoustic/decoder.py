"""Continuous batching: utterances join and leave the mel decoder between steps.

Each step sees, for every utterance, a band of its own last steps and a band of its memory ahead. Both lie in rings: a
step writes its keys and values where the oldest ones of its own ring lie, and the memory that comes into reach takes
the place of what has gone out of it. What an attention weighs has no order, so nothing moves. A bias tells of every
place of the rings whether a row may look there; rows may have bands of different widths.

Memory is projected a stretch of steps ahead, for all rows at once. Buffers do not grow with the length of an utterance.

Shapes: B rows, R rows there is room for, D decoder width, H heads, W columns of the ring over own steps, V = W + 1 of
the one over memory, L layers, N steps of one utterance, A steps of a stretch, C memory width, F frames, M mel width,
r frames per step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from deployments.acoustic.fused import FusedDecoder, StepBuffers

NUM_AHEAD = 32
"""Steps of a stretch: few enough that projecting memory never stalls the rows for long."""


class Utterance:
    """One utterance in the decoder.

    Args:
        memory_NC: [N, memory width].
        band_width: Its own w.
        mel_width: M.

    Attributes:
        num_steps: N.
        done: Whether all steps are made.
        origin: Step of the decoder that is its first one.
    """

    def __init__(self, memory_NC: Tensor, band_width: int, mel_width: int) -> None:
        self.memory_NC = memory_NC
        self.band_width = band_width
        self.num_steps = memory_NC.shape[0]
        self.done = False
        self.origin = 0
        self._mel_width = mel_width
        self._pieces: list[Tensor] = []

    @property
    def end(self) -> int:
        """Step of the decoder after its last one."""
        return self.origin + self.num_steps

    def memory_between(self, first: int, last: int) -> Tensor:
        """Its memory at the decoder's steps from first to before last, at or after its origin; none past its end."""
        return self.memory_NC[first - self.origin : last - self.origin]

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
    """Decodes many utterances together, one step of all of them at a time. Not for use by several threads.

    Args:
        fused: Weights of the voice, shared.
        bind: Prepares a runtime for a set of buffers and returns what makes one step on them; None takes torch.
        num_ahead: Steps of a stretch.
    """

    def __init__(
        self,
        fused: FusedDecoder,
        bind: Callable[[StepBuffers], Callable[[], None]] | None = None,
        num_ahead: int = NUM_AHEAD,
    ) -> None:
        self._fused = fused
        self._bind = bind or fused.bind
        self._num_ahead = num_ahead
        self._rows: list[Utterance] = []
        self._now = 0  # steps made so far
        self._base = 0  # first step of the stretch
        self._kept = 0  # steps of which the frames are handed over
        self._next_end = 0
        self._buffers = StepBuffers(fused, 0, 1)
        self._run: Callable[[], None] = lambda: None
        self._memory, self._keys_values, self._made = self._ahead_of(1)

    @property
    def num_active(self) -> int:
        """Utterances that are not done."""
        return len(self._rows)

    @property
    def num_bytes(self) -> int:
        """Size of the buffers."""
        return self._buffers.num_bytes + sum(tensor.nbytes for tensor in (self._memory, self._keys_values, self._made))

    @torch.inference_mode()
    def join(self, memories: Sequence[Tensor], band_widths: Sequence[int]) -> list[Utterance]:
        """Adds utterances; their first step is the next one.

        Args:
            memories: [N, memory width] each, N at least 1.
            band_widths: w of each.

        Returns:
            Their handles.
        """
        joining = []
        for memory_NC, band_width in zip(memories, band_widths, strict=True):
            # Beyond its own length a band holds nothing.
            utterance = Utterance(memory_NC, min(band_width, memory_NC.shape[0] - 1), self._fused.mel_width)
            utterance.origin = self._now
            joining.append(utterance)
        if not joining:
            return []
        self.hand_over()
        had_rows, had_band = len(self._rows), self._buffers.band
        band = max(1, had_band if had_rows else 1, *(utterance.band_width for utterance in joining))
        self._arrange([*range(had_rows)], joining, band)
        if not had_rows or band != had_band:
            self._begin_stretch()
        else:
            self._project(had_rows)
        return joining

    def leave(self, utterance: Utterance) -> None:
        """Drops an utterance that is no longer wanted; one that is done or gone is left alone."""
        self._drop([row for row, other in enumerate(self._rows) if other is utterance])

    def num_made(self, utterance: Utterance) -> int:
        """Steps made of an utterance that has not left."""
        return utterance.num_steps if utterance.done else self._now - utterance.origin

    @torch.inference_mode()
    def hand_over(self) -> None:
        """Lets every utterance have the frames made so far."""
        if self._kept < self._now:
            for row, utterance in enumerate(self._rows):
                utterance.keep(self._made[self._kept - self._base : self._now - self._base, row])
        self._kept = self._now

    @torch.inference_mode()
    def step(self) -> list[Utterance]:
        """Makes one step of every utterance.

        Returns:
            Those that are done with it.
        """
        buffers, fused, rows = self._buffers, self._fused, len(self._rows)
        place = self._now - self._base
        entering = self._keys_values[:rows, place].permute(1, 2, 0, 3)
        buffers.ahead[:, :, (self._now + buffers.band) % (buffers.band + 1)] = entering
        buffers.memory_BD.copy_(self._memory[:rows, place])
        self._set_bias()
        self._run()
        self._made[place, :rows] = buffers.out[:, : fused.step_width]
        buffers.before_BP.copy_(buffers.out[:, fused.step_width :])
        new = buffers.new.view(fused.num_layers, rows, 3, fused.width)
        buffers.own[:, :, self._now % buffers.band] = new[:, :, 1:].transpose(1, 2)
        self._now += 1
        finished: list[Utterance] = []
        if self._now == self._next_end:
            finished = self._finish()
        if self._rows and self._now == self._base + self._num_ahead:
            self._next_stretch()
        return finished

    def _finish(self) -> list[Utterance]:
        self.hand_over()
        ended = [row for row, utterance in enumerate(self._rows) if utterance.end == self._now]
        finished = [self._rows[row] for row in ended]
        for utterance in finished:
            utterance.done = True
        self._drop(ended)
        return finished

    def _drop(self, leaving: list[int]) -> None:
        """Frees rows; the last ones move into their places."""
        if not leaving:
            return
        self.hand_over()
        order = [*range(len(self._rows))]
        for row in sorted(leaving, reverse=True):
            last = order.pop()
            if row < len(order):
                order[row] = last
        self._arrange(order, [], self._buffers.band)

    @torch.inference_mode()
    def _arrange(self, order: list[int], joining: list[Utterance], band: int) -> None:
        """Buffers for some of the rows there are and new ones behind them.

        With another band the memory ahead has to be projected anew.
        """
        old, now = self._buffers, self._now
        self._rows = [*(self._rows[row] for row in order), *joining]
        self._next_end = min((utterance.end for utterance in self._rows), default=-1)
        num_kept = len(order)
        # A fresh row is zero: what a bias hides still has to be finite, and nothing of former rows may be seen.
        new = self._buffers = StepBuffers(self._fused, len(self._rows), band)
        self._bands = np.array([utterance.band_width for utterance in self._rows])
        self._origins = np.array([utterance.origin for utterance in self._rows])
        self._ends = np.array([utterance.end for utterance in self._rows])
        new.before_BP[:num_kept] = old.before_BP[order]
        new.before_BP[num_kept:] = self._fused.start_P
        ages = range(1, min(band, old.band) + 1)
        to, of = [(now - age) % band for age in ages], [(now - age) % old.band for age in ages]
        new.own[:, :, to, :num_kept] = old.own[:, :, of][:, :, :, order]
        if band == old.band:
            new.ahead[:, :, :, :num_kept] = old.ahead[:, :, :, order]
        room = self._memory.shape[0]
        if len(self._rows) > room:
            memory, keys_values = self._memory, self._keys_values
            self._memory, self._keys_values, self._made = self._ahead_of(max(len(self._rows), 2 * room))
            self._memory[:room], self._keys_values[:room] = memory, keys_values
        for row, source in enumerate(order):
            if row != source:
                self._memory[row], self._keys_values[row] = self._memory[source], self._keys_values[source]
        if self._rows:
            self._run = self._bind(new)

    def _ahead_of(self, room: int) -> tuple[Tensor, Tensor, Tensor]:
        """For so many rows: inputs of the first block, keys and values of memory, and frames, of one stretch."""
        fused, zeros = self._fused, self._fused.w_in.new_zeros
        shape = (room, self._num_ahead, fused.num_layers, 2, fused.width)
        made = zeros(self._num_ahead, room, fused.step_width)
        return zeros(room, self._num_ahead, fused.width), zeros(shape), made

    def _next_stretch(self) -> None:
        self.hand_over()
        band = max(1, int(self._bands.max()))
        if band < self._buffers.band:
            self._arrange([*range(len(self._rows))], [], band)
        self._begin_stretch()

    def _begin_stretch(self) -> None:
        """Starts a stretch at the next step; all frames made are handed over."""
        self._base = self._now
        self._project(0)

    def _project(self, first_row: int) -> None:
        """Fills what rows need of their memory from the next step to the end of the stretch."""
        fused, band = self._fused, self._buffers.band
        place = self._now - self._base
        num = self._num_ahead - place + band
        memories = [utterance.memory_between(self._now, self._now + num) for utterance in self._rows[first_row:]]
        memory_BAC = memories[0].new_zeros(len(memories), num, memories[0].shape[1])
        for index, memory_AC in enumerate(memories):
            memory_BAC[index, : len(memory_AC)] = memory_AC
        memory_in_BAD, keys_values = fused.project(memory_BAC)
        rows = slice(first_row, len(self._rows))
        self._memory[rows, place:] = memory_in_BAD[:, : num - band]
        self._keys_values[rows, place:] = keys_values[:, band:]
        in_reach = [(self._now + column) % (band + 1) for column in range(band)]
        self._buffers.ahead[:, :, in_reach, rows] = keys_values[:, :band].permute(2, 3, 1, 0, 4)

    def _set_bias(self) -> None:
        """Where each row may look at the step to come: as far as its band and its life reach, and at itself."""
        band, now = self._buffers.band, self._now
        back = np.minimum(self._bands, now - self._origins)
        forth = np.minimum(self._bands, self._ends - 1 - now)
        if self._buffers.is_open and back.min() == band == forth.min():
            return
        age_W = (now - 1 - np.arange(band)) % band + 1
        distance_V = (np.arange(band + 1) - now) % (band + 1)
        bias = np.zeros((band + 1, len(self._rows), 2), dtype=np.float32)
        bias[:band, :, 0][age_W[:, None] > back] = -np.inf
        bias[:, :, 1][distance_V[:, None] > forth] = -np.inf
        self._buffers.is_open = not bias.any()
        by_kind = self._buffers.bias.view(*bias.shape, -1)
        by_kind.copy_(torch.from_numpy(bias)[..., None])
