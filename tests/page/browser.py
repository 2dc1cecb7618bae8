"""A Chromium for the tests: one that is installed, or one that is installed now."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
HOW_TO = (
    "The tests of the web page need Chromium and found none. Install it with 'apt-get install chromium' (Debian), "
    "'{python} -m playwright install --with-deps chromium' (other systems), or name one: CHROMIUM=/path/to/chromium."
)


class BrowserMissing(Exception):
    """There is no Chromium, and it could not be installed."""


def chromium(bundled: str) -> str:
    """The path of a Chromium; as root on a Debian it is installed where it is missing.

    Args:
        bundled: Where Playwright keeps its own, whether it is there or not.

    Raises:
        BrowserMissing: Says how to install it.
    """
    found = _find(bundled)
    if found is None and os.geteuid() == 0 and shutil.which(INSTALL[0]):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([INSTALL[0], "update"], check=False, capture_output=True, timeout=60)
            subprocess.run(INSTALL, check=False, capture_output=True, timeout=200)
        found = _find(bundled)
    if found is None:
        raise BrowserMissing(HOW_TO.format(python=sys.executable))
    return found


def _find(bundled: str) -> str | None:
    if named := os.environ.get("CHROMIUM"):
        return named
    installed = next(filter(None, map(shutil.which, NAMES)), None)
    return installed or (bundled if Path(bundled).exists() else None)
