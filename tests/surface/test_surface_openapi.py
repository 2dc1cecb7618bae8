"""The description of the interface is exact: schemathesis makes requests from it and holds every answer against it."""

import subprocess
import sys

from ingress_double import Tones
from surface_server import serving

from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings

PHASES = "examples,coverage,fuzzing"  # its stateful phase gives up with an error of its own on links of one response
# a text without words or a voice that is not served fits every schema and is refused all the same
NOT_CHECKED = "positive_data_acceptance"


def test_schemathesis_finds_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMBERT_ADMIN_KEY", "open sesame")
    app = build_app(Tones(), IngressSettings.model_validate({"tasks": {"folder": str(tmp_path / "tasks")}}))
    with serving(app) as running:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{running.address}/openapi.json", "--no-color"]
        options = [f"--phases={PHASES}", f"--exclude-checks={NOT_CHECKED}", "--max-examples=4", "--seed=1"]
        run = subprocess.run(
            [*command, *options], cwd=tmp_path, text=True, capture_output=True, timeout=240, check=False
        )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    assert "Tested: 14" in run.stdout
