"""Model folders fetched by their id from ModelScope into a cache folder."""

from __future__ import annotations

from pathlib import Path

from deployments.errors import VoiceInvalid


def download_model(model: str, revision: str | None, cache_dir: Path) -> Path:
    """The local folder of a model id, downloaded first where needed."""
    raise VoiceInvalid(f"{model} {revision} {cache_dir}")
