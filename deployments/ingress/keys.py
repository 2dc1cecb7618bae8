"""API keys: who may use the service, told apart by the SHA-256 of what they send, and how much each may ask for.

Keys are random and long, so that a plain hash of them is as good as a slow one: there are no likely keys to try, and a
slow one would let anybody keep the service busy with wrong keys.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers

from deployments.errors import ConfigurationInvalid, KeyRejected, RateLimited
from deployments.settings import IngressSettings

log = logging.getLogger("deployments.ingress")
NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
HASH: Final = re.compile(r"[0-9a-fA-F]{64}")
QUOTA: Final = re.compile(r"(requests|characters)=([1-9][0-9]{0,8})")
MAX_KEY_CHARS: Final = 512
CHECK_EVERY_S: Final = 1.0
MINUTE_S: Final = 60.0


class Bucket:
    """A token bucket: so much per minute, of which a minute's worth may come at once.

    Args:
        per_min: Tokens per minute, None for no limit.
        clock: Seconds.
    """

    def __init__(self, per_min: int | None, clock: Callable[[], float]) -> None:
        self.per_min = per_min
        self._clock = clock
        self._tokens = float(per_min or 0)
        self._filled_at = clock()

    def take(self, number: int) -> float | None:
        """Takes tokens.

        Returns:
            None, or the seconds until there are enough; then none were taken. More than a minute's worth is given when
            the bucket is full, and what is missing is owed.
        """
        if self.per_min is None:
            return None
        now = self._clock()
        rate = self.per_min / MINUTE_S
        self._tokens = min(float(self.per_min), self._tokens + rate * (now - self._filled_at))
        self._filled_at = now
        missing = min(number, self.per_min) - self._tokens
        if missing > 0:
            return missing / rate
        self._tokens -= number
        return None


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key that is known.

    Attributes:
        name: For the log; two keys of one name are told apart by their hashes.
        digest: SHA-256 of the key.
        requests_per_min: Its own limit, None for that of the settings.
        characters_per_min: Its own limit, None for that of the settings.
    """

    name: str
    digest: bytes
    requests_per_min: int | None = None
    characters_per_min: int | None = None


class Caller:
    """Who sent a request, with what is left of its quota.

    Args:
        key: None where the service is open; then nothing is limited.
        settings: Limits of keys that have none of their own.
        clock: Seconds.
    """

    def __init__(self, key: ApiKey | None, settings: IngressSettings, clock: Callable[[], float]) -> None:
        self.name = key.name if key else "anyone"
        requests = (key.requests_per_min or settings.key_requests_per_min) if key else None
        characters = (key.characters_per_min or settings.key_characters_per_min) if key else None
        self._requests = Bucket(requests, clock)
        self._characters = Bucket(characters, clock)

    def charge_request(self) -> None:
        """Counts a request.

        Raises:
            RateLimited: It is one too many.
        """
        self._charge(self._requests, 1, "requests")

    def charge(self, num_chars: int) -> None:
        """Counts characters of text.

        Raises:
            RateLimited: They are too many.
        """
        self._charge(self._characters, num_chars, "characters")

    def _charge(self, bucket: Bucket, number: int, what: str) -> None:
        if (wait_s := bucket.take(number)) is not None:
            raise RateLimited(
                f"This key may send {bucket.per_min} {what} per minute. Retry in {max(1, round(wait_s + 0.5))} s.",
                param=f"key_{what}",
                retry_after_s=max(1.0, wait_s),
            )


class ApiKeys:
    """The keys that are known now.

    Args:
        settings: File, environment variable, limits.
        environ: The environment.
        clock: Seconds.

    Raises:
        ConfigurationInvalid: The file cannot be read, or a line is wrong.
    """

    def __init__(
        self,
        settings: IngressSettings,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        listed = (os.environ if environ is None else environ).get(settings.api_keys_env, "")
        self._fixed, faults = _parsed(re.split(r"[\n;]", listed), f"Environment variable {settings.api_keys_env}")
        self._path = None if settings.api_keys_file is None else Path(settings.api_keys_file).expanduser()
        self._is_open = self._path is None and not listed.strip()
        self._anyone = Caller(None, settings, clock)
        self._callers: dict[ApiKey, Caller] = {}
        self._looked_at = clock()
        self._stamp: tuple[int, int, int] | None = None
        in_file: tuple[ApiKey, ...] = ()
        if self._path is not None:
            self._stamp, in_file, more_faults = _read(self._path)
            faults = [*faults, *more_faults]
        if faults:
            raise ConfigurationInvalid(faults[0], "ingress.api_keys_file")
        self._take((*self._fixed, *in_file))

    @property
    def is_open(self) -> bool:
        """Whether the service asks for no keys."""
        return self._is_open

    def caller(self, headers: Headers) -> Caller:
        """Who sends these headers.

        Raises:
            KeyRejected: The key is missing or wrong.
        """
        if self._is_open:
            return self._anyone
        self._look()
        sent = _sent(headers)
        digest = hashlib.sha256(sent).digest()
        found = None
        for key in self._callers:  # all of them, whichever it is, so that the time tells nothing
            if hmac.compare_digest(key.digest, digest):
                found = key
        if found is None or not sent:
            raise KeyRejected("The API key is missing or wrong. Send it as: authorization: Bearer KEY.")
        return self._callers[found]

    def _look(self) -> None:
        """Reads the file again if it has changed; lines that are wrong are left out, so that a revoked key is gone."""
        now = self._clock()
        if self._path is None or now - self._looked_at < CHECK_EVERY_S:
            return
        self._looked_at = now
        try:
            if _stamp_of(self._path) == self._stamp:
                return
            self._stamp, in_file, faults = _read(self._path)
        except ConfigurationInvalid as error:
            if self._stamp is not None:
                log.warning("%s The earlier keys stay valid.", error.message)
            self._stamp = None
            return
        for fault in faults:
            log.warning("%s The line is left out.", fault)
        self._take((*self._fixed, *in_file))
        log.info("%d API keys are valid now", len(self._callers))

    def _take(self, keys: tuple[ApiKey, ...]) -> None:
        """A key that stays keeps what it has used of its quota."""
        self._callers = {key: self._callers.get(key) or Caller(key, self._settings, self._clock) for key in keys}
        if not keys and not self._is_open:
            log.warning("no API key is valid: every request is refused")


def _sent(headers: Headers) -> bytes:
    """The key in the headers; empty where there is none or it is too long to be one."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    sent = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()
    return b"" if len(sent) > MAX_KEY_CHARS else sent.encode("utf-8", "surrogatepass")


def _stamp_of(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationInvalid(
            f"The file of API keys {path} cannot be read ({error.strerror}). Create it or remove the setting.",
            "ingress.api_keys_file",
        ) from error
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> tuple[tuple[int, int, int], tuple[ApiKey, ...], list[str]]:
    """Stamp, keys and faults of a file.

    Raises:
        ConfigurationInvalid: It cannot be read.
    """
    stamp = _stamp_of(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid(
            f"The file of API keys {path} cannot be read ({type(error).__name__}). It must be UTF-8 text.",
            "ingress.api_keys_file",
        ) from error
    keys, faults = _parsed(text.splitlines(), f"The file of API keys {path}")
    return stamp, keys, faults


def _parsed(lines: list[str], where: str) -> tuple[tuple[ApiKey, ...], list[str]]:
    """Keys and faults of lines: a name, the SHA-256 of the key in hex, maybe requests=N and characters=N."""
    keys: list[ApiKey] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        quotas = [QUOTA.fullmatch(word) for word in words[2:]]
        if len(words) < 2 or not (NAME.fullmatch(words[0]) and HASH.fullmatch(words[1])) or not all(quotas):
            faults.append(
                f"{where}, line {number}, is no key. Write a name, the SHA-256 of the key in hex, and "
                "if need be requests=N and characters=N per minute."
            )
            continue
        limits = {match[1]: int(match[2]) for match in quotas if match}
        keys.append(ApiKey(words[0], bytes.fromhex(words[1]), limits.get("requests"), limits.get("characters")))
    return tuple(keys), faults
