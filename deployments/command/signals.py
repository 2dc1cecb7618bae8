"""The signals that ask a program to end, as something to wait for instead of something that interrupts."""

from __future__ import annotations

import select
import signal
import socket
from typing import Any, Final

STOPPING: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Signals:
    """While this context is open, stopping signals and ends of child processes do nothing but end `wait`.

    For the main thread alone, as Python's signal handlers are.
    """

    def __enter__(self) -> Signals:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        watched = (*STOPPING, signal.SIGCHLD)
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in watched}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def wait(self, timeout_s: float | None) -> bool:
        """Waits for a signal.

        Args:
            timeout_s: Seconds, None for ever.

        Returns:
            Whether a signal that asks to end has come.
        """
        ready, _, _ = select.select([self._reader], [], [], timeout_s)
        arrived: Any = self._reader.recv(4096) if ready else b""
        return any(number in STOPPING for number in arrived)
