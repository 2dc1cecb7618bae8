"""Cuts an utterance into windows of a few fixed lengths whose joined results equal the whole.

The generator pads zeros at both ends of what it gets. At the true ends of the utterance that is right, so the first
window starts at frame 0 and the last one is aligned to end at the last frame. At all other borders the padding spoils
only a context of a known number of frames, which is thrown away:

    frames   |0 ........................................... n|
    window 1 |keep keep keep keep|ctx|
    window 2             |ctx|keep keep keep keep|ctx|
    window 3                            |ctx|keep keep keep  |

An utterance that fits into one window is run whole. Runtimes that are slow on a length they have not seen get windows
of a few lengths only, the shortest that hold the utterance; the frames after its end are masked, layer by layer, which
to the utterance looks like the zeros that the whole would have been padded with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from deployments.vocoder.hifigan import HifiGanConfig


@dataclass(frozen=True, slots=True)
class Context:
    """Frames around a frame that its samples depend on."""

    left: int
    right: int

    @property
    def total(self) -> int:
        """Frames lost at a border between two windows."""
        return self.left + self.right


@dataclass(frozen=True, slots=True)
class Window:
    """A piece to run through the generator; all numbers are frames of the utterance.

    Attributes:
        start: First frame that goes in.
        length: Frames that go in, masked ones after the end of the utterance included.
        keep_start: First frame whose samples are right and not yet made.
        keep_end: One past the last such frame.
    """

    start: int
    length: int
    keep_start: int
    keep_end: int


def _context_of_convolution(low: int, high: int, kernel: int, dilation: int, *, causal: bool) -> tuple[int, int]:
    reach = (kernel - 1) * dilation
    return (low - reach, high) if causal else (low - reach // 2, high + reach // 2)


def context_of(config: HifiGanConfig) -> Context:
    """The exact receptive field of a generator.

    Follows the interval of inputs that the samples of frame 0 depend on, from the last layer back to the first.

    Args:
        config: Sizes of the generator.

    Returns:
        Frames to the left and right of a frame whose change may change the frame's samples.
    """
    causal, hop = config.causal, config.hop_samples
    low, high = _context_of_convolution(0, hop - 1, config.kernel_size, 1, causal=causal)
    first_source_sample, last_source_sample = 0, hop - 1
    for stage in reversed(range(len(config.upsample_scales))):
        blocks = [
            _context_of_block(low, high, kernel, dilations, causal=causal)
            for kernel, dilations in zip(config.resblock_kernel_sizes, config.resblock_dilations, strict=True)
        ]
        low, high = min(block[0] for block in blocks), max(block[1] for block in blocks)
        if config.num_harmonics:
            scale = config.source_scale(stage)
            kernel = 1 if scale == 1 else 2 * scale
            ahead = 0 if causal else kernel - 1 - scale // 2 if scale > 1 else 0
            first_source_sample = min(first_source_sample, low * scale - (kernel - 1 - ahead))
            last_source_sample = max(last_source_sample, high * scale + ahead)
        low, high = _context_of_upsampling(low, high, config, stage)
    low, high = _context_of_convolution(low, high, config.kernel_size, 1, causal=causal)
    return Context(
        left=max(-low, -(first_source_sample // hop)),
        right=max(high, last_source_sample // hop),
    )


def _context_of_block(low: int, high: int, kernel: int, dilations: Sequence[int], *, causal: bool) -> tuple[int, int]:
    for dilation in reversed(dilations):
        low, high = _context_of_convolution(low, high, kernel, 1, causal=causal)
        low, high = _context_of_convolution(low, high, kernel, dilation, causal=causal)
    return low, high


def _context_of_upsampling(low: int, high: int, config: HifiGanConfig, stage: int) -> tuple[int, int]:
    """Inputs of a stage's two upsampling paths for an interval of its outputs."""
    scale, kernel = config.upsample_scales[stage], config.upsample_kernel_sizes[stage]
    padding = 0 if config.causal else (kernel - scale) // 2
    repeat_low, repeat_high = _context_of_convolution(low, high, config.kernel_size, 1, causal=config.causal)
    transpose_low = -((kernel - 1 - padding - low) // scale)  # ceiling of (low + padding - kernel + 1) / scale
    transpose_high = (high + padding) // scale
    return min(repeat_low // scale, transpose_low), max(repeat_high // scale, transpose_high)


class Planner:
    """Chooses windows.

    Args:
        lengths: Window lengths in frames; those not longer than the context are of no use.
        context: Of the generator.
        any_length: Whether a complete utterance is cut into windows of whatever length up to the longest, all full.

    Raises:
        ValueError: All lengths are too short.
    """

    def __init__(self, lengths: Sequence[int], context: Context, *, any_length: bool = False) -> None:
        self.context = context
        self.any_length = any_length
        self.lengths = tuple(sorted({length for length in lengths if length > context.total}))
        if not self.lengths:
            raise ValueError(f"no window is longer than the context of {context.total} frames")

    def plan(self, num_frames: int, lanes: int = 1) -> list[Window]:
        """The windows of a complete utterance, in order, for the least number of frames run.

        Args:
            num_frames: Frames of the utterance, at least 1.
            lanes: Windows that will run at the same time; windows of any length are made so many, or so many times
                a number, that all lanes end together.
        """
        return self.rest(0, num_frames, lanes)

    def rest(self, made: int, num_frames: int, lanes: int = 1) -> list[Window]:
        """The windows of what is left of an utterance.

        Args:
            made: Frames whose samples exist already.
            num_frames: Frames of the utterance, more than `made`.
            lanes: See plan.
        """
        needed = num_frames - max(0, made - self.context.left)
        if self.any_length:
            return self._even(needed, made, num_frames, lanes)
        # Each further window loses a context of frames to the border before it.
        choices = [[length] for length in self.lengths if length >= needed][:1]
        if needed > self.context.total:
            choices.append(self._several(needed - self.context.total))
        return self._lay(min(choices, key=sum), made, num_frames)

    def _even(self, needed: int, made: int, num_frames: int, lanes: int) -> list[Window]:
        """As few windows as can be, of about the same length; a multiple of lanes if each keeps more than it loses."""
        lost = self.context.total
        count = max(1, -(-(needed - lost) // (self.lengths[-1] - lost)))
        for_lanes = -(-count // lanes) * lanes
        if needed - lost >= for_lanes * lost:
            count = for_lanes
        windows = self._lay([-(-(needed + (count - 1) * lost) // count)] * count, made, num_frames)
        last = windows[-1]
        start = max(0, last.keep_start - self.context.left)
        return [*windows[:-1], Window(start, num_frames - start, last.keep_start, num_frames)]

    def _several(self, target: int) -> list[int]:
        """Lengths, ascending, that less their contexts add up to the target or more, for the least sum."""
        longest = self.lengths[-1]
        # Far from the end the longest window is the best one; the table decides only the last stretch.
        num_longest = max(0, target // (longest - self.context.total) - 2)
        rest = target - num_longest * (longest - self.context.total)
        chosen = [longest] * num_longest
        while rest > 0:
            chosen.append(self._table[rest][1])
            rest -= chosen[-1] - self.context.total
        return sorted(chosen)

    @cached_property
    def _table(self) -> list[tuple[int, int]]:
        """For every target up to three of the longest windows: the least sum of lengths, and a length to start with."""
        table = [(0, 0)]
        for target in range(1, 3 * (self.lengths[-1] - self.context.total) + 1):
            rests = ((length, max(0, target - length + self.context.total)) for length in self.lengths)
            table.append(min((length + table[rest][0], length) for length, rest in rests))
        return table

    def _lay(self, lengths: Sequence[int], made: int, num_frames: int) -> list[Window]:
        windows = []
        for length in lengths[:-1]:
            start = max(0, made - self.context.left)
            windows.append(Window(start, length, made, start + length - self.context.right))
            made = windows[-1].keep_end
        start = max(0, num_frames - lengths[-1])
        return [*windows, Window(start, lengths[-1], made, num_frames)]


class Feed:
    """Windows of an utterance whose frames arrive in pieces and whose end is not yet known.

    Args:
        planner: Lengths and context.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._num_frames = 0
        self._made = 0

    @property
    def first_needed(self) -> int:
        """Frames before this one will not be asked for again; the last window may reach back its whole length."""
        longest = self._planner.lengths[-1]
        return max(0, min(self._made - self._planner.context.left, self._num_frames - longest))

    def push(self, num_frames: int) -> list[Window]:
        """Tells of new frames.

        Args:
            num_frames: How many have arrived.

        Returns:
            Every window that can run now: its right context exists. A short one first, so that sound starts early.
        """
        self._num_frames += num_frames
        windows: list[Window] = []
        context = self._planner.context
        while True:
            start = max(0, self._made - context.left)
            fitting = [length for length in self._planner.lengths if start + length <= self._num_frames]
            if not fitting:
                return windows
            length = fitting[0]
            if self._made:
                available = min(self._num_frames - start, self._planner.lengths[-1])
                length = available if self._planner.any_length else fitting[-1]
            windows.append(Window(start, length, self._made, start + length - context.right))
            self._made = start + length - context.right

    def finish(self) -> list[Window]:
        """Tells that no more frames will come; returns the windows of what is left, none for an empty utterance."""
        if self._made == self._num_frames:
            return []
        windows = self._planner.rest(self._made, self._num_frames)
        self._made = self._num_frames
        return windows
