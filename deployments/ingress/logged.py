"""What the log tells of a request: no keys, no ids that are secrets, texts only where it is asked for."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from starlette.types import Scope

from deployments.settings import IngressSettings

MAX_PATH_CHARS: Final = 200
SECRET_IDS: Final = re.compile(r"(/api/(?:tasks|audio)/)[^/]+")
SALT: Final = secrets.token_bytes(16)  # of this process: nobody can look texts up in a list of hashes


def shown_path(scope: Scope) -> str:
    """A path for the log: on one line, and without the ids of tasks, which are all that is needed to hear them."""
    path = SECRET_IDS.sub(r"\1*", scope["path"][:MAX_PATH_CHARS])
    return path if path.isascii() and path.isprintable() else ascii(path)[1:-1]


def note_text(scope: Scope, text: str, settings: IngressSettings) -> None:
    """Lets the line in the log tell what was said: its length and a hash that holds for this process; or the text."""
    said = repr(text) if settings.log_texts else hashlib.blake2b(text.encode(), key=SALT, digest_size=8).hexdigest()
    scope["state"]["said"] = f"text={said} chars={len(text)}"


def shown(scope: Scope) -> str:
    """What else the line in the log tells: the name of the caller's key, and what was said."""
    state = scope["state"]
    caller = state.get("caller")
    parts = [f"key={caller.name}" if caller else "", state.get("said", "")]
    return "".join(f" {part}" for part in parts if part)
