"""Work-conserving batching: whatever waits when the model is free goes together, up to a padded-cost budget.

A `WorkLoop` owns one thread and one `Stepper` (a model with state). Callers submit items and get a `Ticket` each at
once; the loop admits waiting tickets between steps, so new work joins work in progress and nothing waits for a batch to
close. Tickets whose caller has gone or whose time is up are dropped before they cost anything. A step that outlives its
limit is given up with its tickets alone: a fresh thread with a fresh stepper carries on.

No Ray, no torch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol

from deployments.errors import NotReady, SpeechError, StageStuck, SynthesisFailed
from deployments.settings import Batching
from deployments.ticket import Item, Result, Ticket

log = logging.getLogger(__name__)


class Stepper(Protocol[Item, Result]):
    """A model with work in progress. All calls come from the loop's thread."""

    @property
    def in_progress(self) -> Sequence[Ticket[Item, Result]]:
        """Tickets admitted and not yet settled."""

    def admit(self, tickets: list[Ticket[Item, Result]]) -> None:
        """Takes new work in; may settle tickets. A fault of one item must fail that ticket alone."""

    def step(self) -> None:
        """Moves the work in progress on, settles what is finished, drops what is no longer wanted."""

    @property
    def running_since(self) -> float | None:
        """Start of the oldest model call still running, time.monotonic(), where calls may outlast a step; else None."""

    def wake(self) -> None:
        """New work waits: a step that waits for model calls may return. Called from any thread."""

    def close(self) -> None:
        """No step will follow. Called from any thread, maybe while a step is stuck."""


class Synchronous:
    """What a stepper needs not do whose model calls all end within their step."""

    running_since: float | None = None

    def wake(self) -> None:
        """See Stepper."""

    def close(self) -> None:
        """See Stepper."""


def choose(
    waiting: Sequence[Ticket[Item, Result]], in_progress: Sequence[Ticket[Item, Result]], limits: Batching
) -> list[Ticket[Item, Result]]:
    """Picks the waiting tickets that may join now.

    They go in the order in which they are needed: a ticket gives way to those that arrive up to priority_s later for
    each level of its priority, max_priority_s at most. So first segments go before later ones that a listener does not
    yet miss, and whatever waits is served in the end, however many keep arriving.

    The cost of a set is its number of tickets times the longest size, in progress included. An empty model takes the
    first ticket whatever it costs, so that nothing waits for ever. Tickets behind one that does not fit wait with it:
    a long item cannot be starved by short ones.
    """
    chosen: list[Ticket[Item, Result]] = []
    number = len(in_progress)
    longest = max((ticket.size for ticket in in_progress), default=0)

    def needed_at(ticket: Ticket[Item, Result]) -> float:
        return ticket.arrived_at + min(ticket.priority * limits.priority_s, limits.max_priority_s)

    for ticket in sorted(waiting, key=needed_at):
        longest = max(longest, ticket.size)
        number += 1
        if number > 1 and (number > limits.max_batch_size or number * longest > limits.max_batch_cost):
            break
        chosen.append(ticket)
    return chosen


class WorkLoop(Generic[Item, Result]):
    """One thread that keeps one stepper busy.

    Args:
        make_stepper: Builds a stepper with no work in progress; called again after a step got stuck.
        size_of: Length of an item in the unit of the padded cost.
        limits: Batch size, cost and timeouts.
        name: Of the thread and in messages.
    """

    def __init__(
        self,
        make_stepper: Callable[[], Stepper[Item, Result]],
        size_of: Callable[[Item], int],
        limits: Batching,
        name: str,
    ) -> None:
        self._make_stepper = make_stepper
        self._size_of = size_of
        self._limits = limits
        self._name = name
        self._changed = threading.Condition()
        self._waiting: list[Ticket[Item, Result]] = []
        self._admitting: list[Ticket[Item, Result]] = []
        self._closed = False
        self._ended = threading.Event()
        self._broken = ""
        self._timeouts_in_a_row = 0
        self._generation = 0
        self._step_started_at: float | None = None
        self._stepper: Stepper[Item, Result] = make_stepper()
        self._start_thread()
        threading.Thread(target=self._watch, name=f"{name}-watchdog", daemon=True).start()

    @property
    def limits(self) -> Batching:
        """The limits in force."""
        return self._limits

    def reconfigure(self, limits: Batching) -> None:
        """Changes the limits; work in progress goes on."""
        with self._changed:
            self._limits = limits
            self._changed.notify_all()

    def submit(
        self, items: Sequence[Item], priorities: Sequence[int], timeouts_s: Sequence[float | None]
    ) -> list[Ticket[Item, Result]]:
        """Queues items together and returns a ticket per item at once.

        Raises:
            NotReady: The loop is closed.
        """
        tickets: list[Ticket[Item, Result]] = [
            Ticket(item, self._size_of(item), priority, timeout_s)
            for item, priority, timeout_s in zip(items, priorities, timeouts_s, strict=True)
        ]
        with self._changed:
            if self._closed:
                raise NotReady(f"The {self._name} is shutting down; retry.", retry_after_s=1.0)
            if self._broken:
                raise NotReady(f"The {self._name} cannot start again: {self._broken}; retry.", retry_after_s=1.0)
            self._waiting.extend(tickets)
            self._changed.notify_all()
            self._stepper.wake()
        return tickets

    @property
    def num_waiting(self) -> int:
        """Tickets that are not yet admitted."""
        return len(self._waiting)

    @property
    def num_in_progress(self) -> int:
        """Tickets that are admitted and not yet settled."""
        return len(self._stepper.in_progress)

    def why_unhealthy(self) -> str:
        """Empty while the loop is fit to serve, else the reason."""
        if self._closed:
            return f"the {self._name} is closed"
        if self._broken:
            return f"the {self._name} cannot start again: {self._broken}"
        if self._timeouts_in_a_row >= self._limits.max_timeouts:
            return f"{self._timeouts_in_a_row} batches in a row ran past batch_timeout_s={self._limits.batch_timeout_s}"
        return ""

    def close(self) -> None:
        """Refuses new work and fails what waits; work in progress is finished by its thread if it can be."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for ticket in waiting:
            ticket.fail(NotReady(f"The {self._name} is shutting down; retry.", retry_after_s=1.0))

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits until a closed loop has finished its work in progress; False when the time was up before."""
        return self._ended.wait(timeout_s)

    def _start_thread(self) -> None:
        threading.Thread(target=self._run, args=(self._generation,), name=self._name, daemon=True).start()

    def _run(self, generation: int) -> None:
        while True:
            with self._changed:
                if not self._wait_for_work(generation):
                    if generation == self._generation:
                        self._stepper.close()
                        self._ended.set()
                    return
                stepper = self._stepper
                admitted = choose(self._waiting, stepper.in_progress, self._limits)
                taken = set(map(id, admitted))
                self._waiting = [ticket for ticket in self._waiting if id(ticket) not in taken]
                self._admitting = admitted
                self._step_started_at = time.monotonic()
            intact = self._advance(stepper, admitted)
            with self._changed:
                if generation != self._generation:
                    return
                self._admitting = []
                self._step_started_at = None
                self._timeouts_in_a_row = 0
                if not intact and not self._renew():
                    return

    def _wait_for_work(self, generation: int) -> bool:
        """Waits, holding the condition, until there is work; False when this thread has to end."""
        while generation == self._generation:
            self._waiting = [ticket for ticket in self._waiting if ticket.wanted()]
            if self._waiting or self._stepper.in_progress:
                return True
            if self._closed:
                return False
            self._changed.wait()
        return False

    def _advance(self, stepper: Stepper[Item, Result], admitted: list[Ticket[Item, Result]]) -> bool:
        """One admission and one step; a fault that escapes the stepper fails all it held and returns False."""
        now = time.monotonic()
        for ticket in admitted:
            ticket.admitted_at = now
        held = [*stepper.in_progress, *admitted]
        try:
            if admitted:
                stepper.admit(admitted)
            stepper.step()
        except Exception as error:
            log.exception("%s: a step failed with %d requests in it", self._name, len(held))
            fault = error if isinstance(error, SpeechError) else SynthesisFailed(f"The {self._name} failed: {error!r}.")
            for ticket in held:
                ticket.fail(fault)
            return False
        return True

    def _renew(self) -> bool:
        """Replaces the stepper, holding the condition; where that fails the loop ends and says why."""
        self._stepper.close()
        try:
            self._stepper = self._make_stepper()
        except Exception as error:
            log.exception("%s: could not be built again", self._name)
            self._broken = repr(error)
            waiting, self._waiting = self._waiting, []
            for ticket in waiting:
                ticket.fail(NotReady(f"The {self._name} cannot start again; retry.", retry_after_s=1.0))
            self._ended.set()
            return False
        return True

    def _watch(self) -> None:
        """Gives up steps that outlive their limit.

        It looks four times per limit, so that steps stay free of its cost, and once a second at least, so that a
        shorter limit holds soon after it is set.
        """
        while not self._ended.wait(min(self._limits.batch_timeout_s / 4, 1.0)):
            limit_s = self._limits.batch_timeout_s
            with self._changed:
                starts = (self._step_started_at, self._stepper.running_since)
                started = min((start for start in starts if start is not None), default=None)
                if started is None or time.monotonic() - started < limit_s:
                    continue
                stuck = [*self._stepper.in_progress, *self._admitting]
                self._timeouts_in_a_row += 1
                self._step_started_at = None
                self._admitting = []
                self._generation += 1  # the stuck thread ends should it ever come back
                if self._renew():
                    self._start_thread()
            log.error("%s: a batch of %d ran past %.1f s and was given up", self._name, len(stuck), limit_s)
            fault = StageStuck(f"The {self._name} did not finish a batch within {limit_s} s; retry.", retry_after_s=1.0)
            for ticket in stuck:
                ticket.fail(fault)
