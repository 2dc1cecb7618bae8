"""Where a service is to be found, and what it answers there while it starts."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from deployments.errors import ConfigurationInvalid, NotReady

ANY: Final = ("0.0.0.0", "::")  # noqa: S104 (compared with, never bound)
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Address:
    """What a serve config says under http_options.

    Attributes:
        host: The interface it listens on.
        port: TCP port.
    """

    host: str = LOOPBACK
    port: int = 8000

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Address:
        """The address in a serve config; what it leaves out has Ray Serve's default.

        Raises:
            ConfigurationInvalid: The port is no port.
        """
        options = config.get("http_options") or {}
        port = options.get("port", cls().port)
        if not isinstance(port, int) or not 0 < port < 1 << 16:
            raise ConfigurationInvalid(f"http_options.port is {port!r}. Give a number from 1 to 65535.", "port")
        return cls(str(options.get("host", cls().host)), port)

    @property
    def url(self) -> str:
        """As a user of this machine types it."""
        return f"http://{'localhost' if self.host in (LOOPBACK, *ANY) else self.host}:{self.port}"

    def check_free(self) -> None:
        """Refuses a port that another program listens on.

        Raises:
            NotReady: It is taken.
        """
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host if self.host not in ANY else "", self.port))
            except OSError as error:
                raise NotReady(
                    f"Cannot listen on {self.host}:{self.port} ({error.strerror}). End the program that holds it (is "
                    "the service already running?), or set another http_options.port."
                ) from error

    def answers(self, path: str, timeout_s: float) -> bytes | None:
        """What is answered with status 200, else None."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=timeout_s) as answer:  # noqa: S310 (our own http address)
                body: bytes = answer.read()
                return body
        except OSError:
            return None
