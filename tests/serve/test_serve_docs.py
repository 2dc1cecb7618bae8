"""The guides' commands that need the service, against the real one on its own ports."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import ray
from test_serve_observed import wait_for

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
GUIDE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
COMMANDS = [
    block for block in re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL) if block.startswith("# needs the service")
]


def test_there_are_such_commands():
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_commands_work_against_the_service(speech, command, tmp_path):
    (node,) = ray.nodes()
    here = {
        "localhost:8000": urlsplit(speech.base_url).netloc,
        "localhost:8080": f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}",
        "/tmp/ray/session_latest": ray._private.worker._global_node.get_session_dir_path(),
    }
    for written, real in here.items():
        command = command.replace(written, real)
    environment = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "RAY_ADDRESS": ray.get_runtime_context().gcs_address,
        "RAY_DASHBOARD_ADDRESS": f"http://{ray._private.worker.get_dashboard_url()}",
    }

    def works():
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        outputs.append(done)
        return done.returncode == 0 and done.stdout

    outputs = []
    assert wait_for(works, 30), (outputs[-1].returncode, outputs[-1].stdout[-2000:], outputs[-1].stderr[-2000:])
