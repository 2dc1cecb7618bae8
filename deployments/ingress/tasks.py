"""Texts that are spoken while nobody waits: tasks, their results, and what is left of them when a replica dies."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from deployments.errors import NotReady, Overloaded, ReplicaLost, SpeechError, TooLarge
from deployments.ingress.answer import Whole, whole_file
from deployments.ingress.faults import naming, unexpected
from deployments.ingress.service import SpeechService
from deployments.ingress.waiting import give_up
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings, TaskSettings

log = logging.getLogger("deployments.ingress")
ID_BYTES = 24
STORE_PAUSES = (0.1, 0.2)  # between tries to note how a task ended, in parts of its lease
LOST = ReplicaLost("The replica that worked on the task died; send the text again.")


@dataclass(frozen=True, slots=True)
class Task:
    """What a store knows of a task.

    Attributes:
        status: "processing" only while a replica works on it.
        duration_ms: Length of the audio of a success.
        error: What is wrong with a failure: the inner part of the one error shape.
    """

    status: Literal["processing", "success", "failed"]
    duration_ms: int = 0
    error: Mapping[str, str | None] = field(default_factory=dict)


class TaskStore(Protocol):
    """Where tasks and their audio are kept, so that any replica can answer for them.

    Everything is forgotten after a time, and the oldest results first where there are too many. Every call may raise
    NotReady: the store cannot be reached or is full.
    """

    async def begin(self, task_id: str) -> None:
        """Notes a task in progress; its claim must be renewed before the lease runs out."""
        ...

    async def renew(self, task_ids: tuple[str, ...]) -> None:
        """Renews the claims on tasks in progress; one that has run out stays lost."""
        ...

    async def succeed(self, task_id: str, audio: bytes, duration_ms: int) -> bool:
        """Keeps the result of a task in progress, or of one that was never begun.

        Args:
            task_id: Of the task and its audio.
            audio: A wav file.
            duration_ms: Its length.

        Returns:
            False when the claim was lost: the task has failed, and stays so.
        """
        ...

    async def fail(self, task_id: str, error: SpeechError) -> None:
        """Notes why a task in progress has failed."""
        ...

    async def find(self, task_id: str) -> Task | None:
        """The task, or None where there is none or it is forgotten; failed where its claim has run out."""
        ...

    async def audio(self, task_id: str) -> bytes | None:
        """The wav file of a success, or None."""
        ...

    async def close(self) -> None:
        """Gives connections and threads back."""
        ...


def check_size(audio: bytes, settings: TaskSettings) -> None:
    """Refuses audio that would push everything else out of a store and still not fit.

    Raises:
        TooLarge: It is larger than half of max_bytes.
    """
    limit = settings.max_bytes // 2
    if len(audio) > limit:
        raise TooLarge(f"The audio has {len(audio)} bytes, {limit} can be kept. Send the text in several requests.")


class Tasks:
    """Works on tasks in the background. Belongs to one event loop.

    Args:
        service: The stages.
        settings: How many tasks, for how long.
        store: Where they are kept.
    """

    def __init__(self, service: SpeechService, settings: IngressSettings, store: TaskStore) -> None:
        self.store = store
        self._service = service
        self._settings = settings
        self._running: dict[str, asyncio.Task[None]] = {}
        self._num_beginning = 0
        self._renewing: asyncio.Task[None] | None = None

    async def start(self, request: SpeechRequest) -> str:
        """Begins to speak a text.

        Args:
            request: Checked; its time limit is that of tasks.

        Returns:
            The id of the task; nobody can guess it.

        Raises:
            Overloaded: This replica works on as many tasks as it may.
            NotReady: The store cannot be reached.
        """
        limit = self._settings.tasks.max_running
        if len(self._running) + self._num_beginning >= limit:
            raise Overloaded(f"{limit} tasks are in progress already; retry later.", retry_after_s=1.0)
        task_id = secrets.token_urlsafe(ID_BYTES)
        self._num_beginning += 1
        try:
            await self.store.begin(task_id)
        finally:
            self._num_beginning -= 1
        request = replace(request, timeout_s=self._settings.tasks.timeout_s)
        work = asyncio.ensure_future(self._run(task_id, request))
        self._running[task_id] = work
        work.add_done_callback(lambda _: self._running.pop(task_id, None))
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
        return task_id

    async def keep(self, whole: Whole) -> str:
        """Keeps audio that is finished.

        Returns:
            The id of the audio; nobody can guess it.

        Raises:
            NotReady: The store cannot be reached.
        """
        task_id = secrets.token_urlsafe(ID_BYTES)
        await self.store.succeed(task_id, whole.body, whole.duration_ms)
        return task_id

    async def close(self) -> None:
        """Finishes what can be finished in drain_s; what cannot is noted as failed, so that nobody waits for it."""
        running = dict(self._running)
        if running:
            await asyncio.wait(running.values(), timeout=self._settings.tasks.drain_s)
        for task_id, work in running.items():
            if not work.done():
                await give_up(work)
                await self._note(task_id, LOST)
        if self._renewing is not None:
            await give_up(self._renewing)
        await self.store.close()

    async def _run(self, task_id: str, request: SpeechRequest) -> None:
        try:
            with naming("text"):
                whole = await whole_file(self._service, request, "wav", self._settings)
        except SpeechError as error:
            await self._note(task_id, error)
        except Exception as error:
            await self._note(task_id, unexpected(error, request.request_id))
        else:
            await self._note(task_id, whole)

    async def _note(self, task_id: str, outcome: Whole | SpeechError) -> None:
        """Writes how a task ended; where the store stays away, its claim runs out and it counts as failed."""
        pauses_s = [self._settings.tasks.lease_s * part for part in STORE_PAUSES]
        while True:
            try:
                if isinstance(outcome, SpeechError):
                    await self.store.fail(task_id, outcome)
                elif not await self.store.succeed(task_id, outcome.body, outcome.duration_ms):
                    log.warning("a task was finished after its claim had run out")
            except NotReady as error:
                log.warning("the end of a task could not be noted: %s", error)
                if not pauses_s:
                    return
                await asyncio.sleep(pauses_s.pop(0))
            except TooLarge as error:
                outcome = error
            else:
                return

    async def _renew(self) -> None:
        """Renews the claims of this replica for as long as it has any."""
        while self._running:
            await asyncio.sleep(self._settings.tasks.lease_s / 3)
            try:
                await self.store.renew(tuple(self._running))
            except NotReady as error:
                log.warning("claims on tasks are not renewed: %s", error)
