"""The command line in this process, with settings that keep it away from the home folder."""

import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "voices"))
sys.path.insert(0, str(Path(__file__).parents[1] / "ingress"))

from deployments.command.main import main


@pytest.fixture
def write_config(tmp_path):
    """Writes a serve config with these settings; returns its path as an argument."""

    def write(args, **others):
        path = tmp_path / "serve.yaml"
        application = {"name": "speech", "import_path": "graph:build", "args": args}
        path.write_text(yaml.safe_dump({"applications": [application], **others}, allow_unicode=True), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def run(capsys):
    """Runs a command; returns exit code, stdout and stderr."""

    def run_command(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_command


@pytest.fixture
def refused(run):
    """Runs a command that must fail with one line on stderr; returns the exit code, the error's code and message."""

    def run_refused(*arguments):
        code, out, err = run(*arguments)
        assert out == ""
        (line,) = err.splitlines()
        program, error_code, message = line.split(": ", 2)
        assert program == "sambert-serve"
        return code, error_code, message

    return run_refused
