"""The guides' commands, run as they stand, but for those that say in their first line that they need more."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def commands():
    """Every block of shell that needs no service, cluster or engine."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for number, block in enumerate(re.findall(r"^ *```sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE), start=1):
            if not dedent(block).startswith("# needs "):
                yield pytest.param(dedent(block), id=f"{path.name} {number}")


@pytest.mark.parametrize("command", list(commands()))
def test_commands_work_as_they_stand(command, tmp_path):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
