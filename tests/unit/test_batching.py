"""The work loop with steppers that wait for events instead of time."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.batching import Synchronous, WorkLoop, choose
from deployments.errors import DeadlineExceeded, InvalidRequest, NotReady, StageStuck, SynthesisFailed
from deployments.settings import Batching
from deployments.ticket import Ticket

WAIT_S = 10.0  # of a test that would otherwise hang; never waited for in full


class Batches(Synchronous):
    """A stepper that finishes in one step what it holds, once the gate is open; the record tells what went together."""

    def __init__(self, record: list[list[int]], gate: threading.Event, started: threading.Event) -> None:
        self.record, self.gate, self.started = record, gate, started
        self.held: list[Ticket[int, int]] = []

    @property
    def in_progress(self) -> Sequence[Ticket[int, int]]:
        return tuple(self.held)

    def admit(self, tickets: list[Ticket[int, int]]) -> None:
        for ticket in tickets:
            if ticket.item < 0:
                ticket.fail(InvalidRequest("negative; give a positive number"))
            else:
                self.held.append(ticket)

    def step(self) -> None:
        held = [ticket for ticket in self.held if ticket.wanted()]
        if held:
            self.record.append([ticket.item for ticket in held])
        self.started.set()
        assert self.gate.wait(WAIT_S)
        if any(ticket.item == 666 for ticket in held):
            raise ValueError("a poisoned item")
        for ticket in held:
            ticket.resolve(2 * ticket.item)
        self.held = []


class Bench:
    """A loop with its record and gate."""

    def __init__(self, **limits: float) -> None:
        self.record: list[list[int]] = []
        self.gates = [threading.Event()]
        self.started = threading.Event()
        self.num_built = 0
        self.fail_to_build = False
        self.loop = WorkLoop(self._build, lambda item: 1, Batching(**limits), "model")

    def _build(self) -> Batches:
        if self.fail_to_build:
            raise OSError("no memory")
        self.num_built += 1
        self.started.clear()
        return Batches(self.record, self.gates[-1], self.started)

    def submit(self, *items: int, timeout_s: float | None = None) -> list[Ticket[int, int]]:
        return self.loop.submit(items, [0] * len(items), [timeout_s] * len(items))

    def busy(self, *items: int) -> list[Ticket[int, int]]:
        """Submits and returns once the model is at work on them."""
        tickets = self.submit(*items)
        assert self.started.wait(WAIT_S)
        return tickets


@pytest.fixture
def bench_of():
    benches = []

    def build(**limits: float) -> Bench:
        benches.append(Bench(**limits))
        return benches[-1]

    yield build
    for bench in benches:
        for gate in bench.gates:
            gate.set()
        bench.loop.close()
        assert bench.loop.join(WAIT_S)


def results(tickets: list[Ticket[int, int]]) -> list[int]:
    return [ticket.future.result(WAIT_S) for ticket in tickets]


def test_all_that_arrives_during_a_step_goes_together_in_the_next(bench_of):
    bench = bench_of()
    first = bench.busy(1)
    others = [*bench.submit(2), *bench.submit(3, 4), *bench.submit(5)]
    assert bench.loop.num_waiting == 4
    bench.gates[0].set()
    assert results([*first, *others]) == [2, 4, 6, 8, 10]
    assert bench.record == [[1], [2, 3, 4, 5]]
    assert bench.loop.num_waiting == 0


def test_a_batch_is_no_larger_than_the_limit_and_the_limit_changes_live(bench_of):
    bench = bench_of(max_batch_size=2)
    first = bench.busy(1)
    others = bench.submit(2, 3, 4, 5, 6)
    bench.loop.reconfigure(Batching(max_batch_size=3))
    bench.gates[0].set()
    results([*first, *others])
    assert bench.record == [[1], [2, 3, 4], [5, 6]]


def test_unwanted_tickets_cost_nothing(bench_of):
    bench = bench_of()
    first = bench.busy(1)
    gone, late, kept = *bench.submit(2), *bench.submit(3, timeout_s=0.0), *bench.submit(4)
    assert gone.future.cancel()
    bench.gates[0].set()
    assert results([*first, kept]) == [2, 8]
    assert bench.record == [[1], [4]]
    with pytest.raises(DeadlineExceeded):
        late.future.result(WAIT_S)


def test_a_bad_item_fails_alone_and_a_fault_of_the_model_fails_its_batch_alone(bench_of):
    bench = bench_of()
    first = bench.busy(1)
    bad, good = bench.submit(-1, 2)
    bench.gates[0].set()
    assert results([*first, good]) == [2, 4]
    with pytest.raises(InvalidRequest):
        bad.future.result(WAIT_S)
    (poisoned,) = bench.submit(666)
    with pytest.raises(SynthesisFailed, match="poisoned"):
        poisoned.future.result(WAIT_S)
    assert results(bench.submit(7)) == [14]
    assert bench.num_built == 2
    assert bench.loop.why_unhealthy() == ""


def test_a_stuck_step_is_given_up_alone(bench_of):
    bench = bench_of(batch_timeout_s=0.1, max_timeouts=2)
    (stuck,) = bench.busy(1)
    (waiting,) = bench.submit(2)
    bench.gates.append(threading.Event())
    bench.gates[-1].set()  # the next stepper is free to go
    with pytest.raises(StageStuck):
        stuck.future.result(WAIT_S)
    assert results([waiting]) == [4]
    assert bench.record == [[1], [2]]
    assert bench.loop.why_unhealthy() == ""
    # The stuck thread comes back at last: its result is no one's, and it takes no more work.
    bench.gates[0].set()
    assert results(bench.submit(3)) == [6]
    assert bench.num_built == 2


def test_timeouts_in_a_row_make_it_unhealthy_and_a_success_well_again(bench_of):
    bench = bench_of(batch_timeout_s=0.1, max_timeouts=2)
    for item in (1, 2):
        assert bench.loop.why_unhealthy() == ""
        (stuck,) = bench.submit(item)
        with pytest.raises(StageStuck):
            stuck.future.result(WAIT_S)
    assert "2 batches in a row" in bench.loop.why_unhealthy()
    for gate in bench.gates:
        gate.set()
    results(bench.submit(3))
    assert results(bench.submit(4)) == [8]  # the step that made 3 has ended by now
    assert bench.loop.why_unhealthy() == ""


def test_a_stepper_that_cannot_be_built_again_makes_it_unhealthy(bench_of):
    bench = bench_of()
    (poisoned,) = bench.busy(666)
    bench.fail_to_build = True
    (waiting,) = bench.submit(1)
    bench.gates[0].set()
    with pytest.raises(SynthesisFailed):
        poisoned.future.result(WAIT_S)
    with pytest.raises(NotReady):
        waiting.future.result(WAIT_S)
    assert "no memory" in bench.loop.why_unhealthy()
    with pytest.raises(NotReady):
        bench.submit(2)


def test_close_fails_what_waits_finishes_what_runs_and_refuses_more(bench_of):
    bench = bench_of()
    (running,) = bench.busy(1)
    (waiting,) = bench.submit(2)
    bench.loop.close()
    with pytest.raises(NotReady):
        waiting.future.result(WAIT_S)
    with pytest.raises(NotReady):
        bench.submit(3)
    assert "closed" in bench.loop.why_unhealthy()
    bench.gates[0].set()
    assert results([running]) == [2]
    assert bench.loop.join(WAIT_S)


async def test_cancelling_the_waiting_task_gives_the_ticket_up(bench_of):
    bench = bench_of()
    first = bench.busy(1)
    (ticket,) = bench.submit(2)
    task = asyncio.create_task(ticket.result())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not ticket.wanted()
    bench.gates[0].set()
    results([*first, *bench.submit(3)])
    assert bench.record == [[1], [3]]


async def test_times_of_a_ticket(bench_of):
    bench = bench_of()
    bench.gates[0].set()
    (ticket,) = bench.submit(1)
    assert await ticket.result() == 2
    assert 0 <= ticket.queue_s < WAIT_S
    assert 0 < ticket.model_s < WAIT_S


def test_limits_are_those_of_the_settings(bench_of):
    bench = bench_of()
    assert bench.loop.limits == Batching()
    batching = Batching(
        max_batch_size=3, max_batch_cost=70, batch_timeout_s=1.5, max_timeouts=2, priority_s=0.5, max_priority_s=4.0
    )
    bench.loop.reconfigure(batching)
    limits = bench.loop.limits
    assert (limits.max_batch_size, limits.max_batch_cost, limits.batch_timeout_s) == (3, 70, 1.5)
    assert (limits.max_timeouts, limits.priority_s, limits.max_priority_s) == (2, 0.5, 4.0)


def tickets_of(sizes_and_priorities: list[tuple[int, int]]) -> list[Ticket[int, int]]:
    return [Ticket(index, size, priority) for index, (size, priority) in enumerate(sizes_and_priorities)]


@settings(derandomize=True, deadline=None, database=None, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), max_size=12),
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), max_size=6),
    st.integers(1, 8),
    st.integers(1, 200),
)
def test_choose(waiting_sizes, running_sizes, max_batch_size, max_batch_cost):
    waiting, running = tickets_of(waiting_sizes), tickets_of(running_sizes)
    limits = Batching(max_batch_size=max_batch_size, max_batch_cost=max_batch_cost)
    chosen = choose(waiting, running, limits)
    order = sorted(waiting, key=lambda ticket: (ticket.priority, ticket.arrived_at))  # they arrived within moments

    def fits(tickets: list[Ticket[int, int]]) -> bool:
        longest = max(ticket.size for ticket in tickets)
        return len(tickets) <= max_batch_size and len(tickets) * longest <= max_batch_cost

    assert chosen == order[: len(chosen)]  # in order, and no one overtakes
    if waiting and not running:
        assert chosen  # nothing waits for ever
    together = [*running, *chosen]
    assert len(together) == 1 or not chosen or fits(together)
    if len(chosen) < len(order):
        assert not fits([*together, order[len(chosen)]])  # nothing waits that could go


def arrivals(*times_and_priorities: tuple[float, int]) -> list[Ticket[int, int]]:
    tickets = tickets_of([(1, priority) for _, priority in times_and_priorities])
    for ticket, (arrived_at, _) in zip(tickets, times_and_priorities, strict=True):
        ticket.arrived_at = arrived_at
    return tickets


def test_a_later_segment_gives_way_until_it_is_needed():
    limits = Batching(max_batch_size=8, priority_s=2.0, max_priority_s=6.0)
    waiting = arrivals((0.0, 1), (1.9, 0), (2.1, 0), (0.5, 2), (0.1, 200), (6.0, 0), (6.2, 0))
    assert [ticket.item for ticket in choose(waiting, [], limits)] == [1, 0, 2, 3, 5, 4, 6]


def test_no_segment_starves_however_many_first_ones_arrive():
    limits = Batching(max_batch_size=1, priority_s=2.0, max_priority_s=8.0)
    (late,) = waiting = arrivals((0.0, 50))
    now, served = 0.0, None
    while served is not late:
        now += 0.5
        waiting += arrivals((now, 0), (now, 0))  # twice as many as can be served
        (served,) = choose(waiting, [], limits)
        waiting.remove(served)
    assert now <= 2 * 8.0 + 0.5  # those that were needed before it, and no later ones
