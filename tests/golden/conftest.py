"""Golden folders: every sub-folder am_* and voc_* of --golden-dir is one parameter of the tests that ask."""

from pathlib import Path

import pytest

DEFAULT_DIR = Path(__file__).parent / "data"
PREFIXES = {"acoustic_golden_dir": "am_", "vocoder_golden_dir": "voc_"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-dir", default=None, help="folder with sub-folders am_* and voc_* (default: tests/golden/data)"
    )


def golden_folders(root: Path, prefix: str) -> list[Path]:
    """The sub-folders of one kind, sorted; a folder without any golden sub-folder is a mistake, not a success."""
    if not any(next(root.glob(f"{any_prefix}*"), None) for any_prefix in PREFIXES.values()):
        raise pytest.UsageError(f"--golden-dir {root} has no sub-folder am_* or voc_*; name the folder that holds them")
    return sorted(path for path in root.glob(f"{prefix}*") if path.is_dir())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The option is unknown when this file is found during collection only (pytest without a path): the default holds.
    root = Path(metafunc.config.getoption("golden_dir", default=None) or DEFAULT_DIR)
    for fixture, prefix in PREFIXES.items():
        if fixture in metafunc.fixturenames:
            folders = golden_folders(root, prefix)
            metafunc.parametrize(fixture, folders, ids=[folder.name for folder in folders])
