"""Waits until a service started from a serve config is ready, then says where it is and how to try it."""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

POLL_S = 0.5
TRY_IT = """
sambert-serve is ready: {base}
  web docs   {base}/docs
  try it     curl -X POST {base}/tts -d '{{"text":"您好，欢迎致电客服中心，请稍候。"}}' -o speech.wav
  stop it    Ctrl-C
"""


def base_url(config: Path) -> str:
    """The address a serve config listens on, as a user of this machine would type it."""
    options = (yaml.safe_load(config.read_text(encoding="utf-8")) or {}).get("http_options", {})
    host = options.get("host", "127.0.0.1")
    return f"http://{'localhost' if host in ('127.0.0.1', '0.0.0.0') else host}:{options.get('port', 8000)}"  # noqa: S104


def main() -> None:
    """Polls /readyz for as long as the process that started this one lives."""
    base = base_url(Path(sys.argv[1]))
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            with urllib.request.urlopen(f"{base}/readyz", timeout=5):  # noqa: S310 (the URL is our own http address)
                sys.stdout.write(TRY_IT.format(base=base))
                sys.stdout.flush()
                return
        except (OSError, urllib.error.URLError):
            time.sleep(POLL_S)


if __name__ == "__main__":
    main()
