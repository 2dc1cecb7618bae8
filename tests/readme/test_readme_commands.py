"""The README's commands, run as a stranger types them (on a free port): serve, curl, Ctrl-C, Python, serve build."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import soundfile
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
START_S = 120
STOP_S = 60


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def curl_commands():
    """Each curl command of the README, continuation lines joined."""
    joined = "\n".join(blocks("sh")).replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.startswith("curl ")]


def own_commands():
    """Each line of the README with the command line of the project."""
    return [line for line in "\n".join(blocks("sh")).splitlines() if "sambert-serve " in line]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(processes):
    """Those that still run."""
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`make serve` with configs/local.yaml on a free port; its output goes to a file."""
    folder = tmp_path_factory.mktemp("serve")
    config = yaml.safe_load((ROOT / "configs/local.yaml").read_text(encoding="utf-8"))
    port = config["http_options"]["port"] = free_port()
    path = folder / "local.yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    output = folder / "output.txt"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            ["make", "serve", f"CONFIG={path}", f"BIN={BIN}", f"READY={path}"],
            cwd=ROOT,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        ends = time.monotonic() + START_S
        while "is ready" not in output.read_text(errors="replace"):
            assert process.poll() is None, output.read_text(errors="replace")
            assert time.monotonic() < ends, output.read_text(errors="replace")
            time.sleep(0.2)
        yield process, port, output
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_ready_message_shows_a_curl_line_that_works(served):
    _, port, output = served
    assert f"http://localhost:{port}" in output.read_text(errors="replace")
    (line,) = re.findall(r"try it\s+(curl .*)", output.read_text(errors="replace"))
    subprocess.run(["bash", "-c", line.replace("-o speech.wav", f"-o {output.parent}/printed.wav")], check=True)
    assert soundfile.info(output.parent / "printed.wav").duration > 2


@pytest.mark.parametrize("command", curl_commands())
def test_curl_commands(served, command):
    _, port, output = served
    local = command.replace("localhost:8000", f"localhost:{port}").replace("curl ", "curl -sS --fail-with-body ", 1)
    answer = subprocess.run(["bash", "-c", local], cwd=output.parent, capture_output=True, check=True).stdout
    if saved := re.search(r"-o (\S+)", command):
        answer = (output.parent / saved[1]).read_bytes()
        wave, rate = soundfile.read(io.BytesIO(answer))
        assert len(wave) > rate
        assert 0.02 < abs(wave).max() < 1
    else:
        assert yaml.safe_load(answer)


def test_ctrl_c_ends_it_cleanly(served):
    """Runs last in this module: Ctrl-C in the terminal reaches the whole process group."""
    process, _, output = served
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) > 5  # sambert-serve, serve run, Ray, the stages
    os.killpg(process.pid, signal.SIGINT)
    process.wait(STOP_S)
    assert not alive(started), output.read_text(errors="replace")[-2000:]
    assert "Traceback" not in output.read_text(errors="replace")[-2000:]


def test_sigterm_ends_it_cleanly(tmp_path):
    """As systemd, Docker and Kubernetes stop a service."""
    config = yaml.safe_load((ROOT / "configs/local.yaml").read_text(encoding="utf-8"))
    config["http_options"]["port"] = free_port()
    path, output = tmp_path / "local.yaml", tmp_path / "output.txt"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with output.open("wb") as stream:
        process = subprocess.Popen([BIN / "sambert-serve", "serve", path], stdout=stream, stderr=subprocess.STDOUT)
    try:
        ends = time.monotonic() + START_S
        while "is ready" not in output.read_text(errors="replace"):
            assert process.poll() is None, output.read_text(errors="replace")
            assert time.monotonic() < ends, output.read_text(errors="replace")
            time.sleep(0.2)
        started = psutil.Process(process.pid).children(recursive=True)
        assert len(started) > 5
    finally:  # whatever went wrong, nothing stays behind
        process.terminate()
        exit_code = process.wait(STOP_S)
    assert exit_code == 0
    assert not alive(started)
    printed = output.read_text(errors="replace")
    assert printed.endswith("sambert-serve has ended.\n")
    assert "Traceback" not in printed
    assert "SIGTERM" not in printed


@pytest.mark.parametrize("command", own_commands())
def test_own_commands(command, tmp_path):
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    if saved := re.search(r"-o (\S+)", command):
        wave, rate = soundfile.read(tmp_path / saved[1])
        assert len(wave) > rate
        assert 0.02 < abs(wave).max() < 1


def test_python_example():
    (example,) = blocks("python")
    script = example + "\nserve.shutdown()\n"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=START_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("bytes of 16-bit PCM") >= 2
    assert "16000" in done.stdout


def test_serve_build(tmp_path):
    target = tmp_path / "built.yaml"
    subprocess.run([BIN / "serve", "build", "graph:app", "-o", target], cwd=ROOT, check=True, capture_output=True)
    (application,) = yaml.safe_load(target.read_text(encoding="utf-8"))["applications"]
    names = {deployment["name"] for deployment in application["deployments"]}
    assert names == {"Acoustic", "Vocoder", "Normalizer", "Ingress"}
