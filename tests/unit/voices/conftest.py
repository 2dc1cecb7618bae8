"""Model folders in the published layout, made on the fly, for tests to open and to break."""

import json
from pathlib import Path

import pytest
from voice_files import make_voice


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with the voices zhiyan and zhibei, neither NSF nor SE."""
    root = tmp_path / "model"
    for name in ("zhiyan", "zhibei"):
        make_voice(root / "voices" / name)
    (root / "voices/voices.json").write_text(json.dumps({"voices": ["zhiyan", "zhibei"]}), encoding="utf-8")
    return root


@pytest.fixture
def voice(model: Path) -> Path:
    """Folder of the first voice of `model`."""
    return model / "voices/zhiyan"
