"""`sambert-serve serve` before Ray is started, and the processes it watches, with others in Ray's place."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

from deployments.command.address import Address
from deployments.command.serve import Service
from deployments.command.signals import Signals
from deployments.errors import ConfigurationInvalid, NotReady


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_told_before_ray_starts(refused, write_config, listener):
    config = write_config({}, http_options={"port": listener})
    code, error_code, message = refused("serve", config)
    assert (code, error_code) == (1, "not_ready")
    assert f"127.0.0.1:{listener}" in message


@pytest.mark.parametrize(
    ("args", "code", "error_code"),
    [
        ({"vocoder": {"bckend": "torch"}}, 2, "configuration_invalid"),
        ({"voices": {"sources": [{"model": "/missing"}]}}, 1, "voice_invalid"),
    ],
)
def test_wrong_settings_are_told_before_ray_starts(refused, write_config, args, code, error_code):
    assert refused("serve", write_config(args))[:2] == (code, error_code)


def test_one_config(refused, write_config):
    config = write_config({})
    assert refused("serve", config, "--config", config)[:2] == (2, "invalid_request")


def test_address_of_a_config():
    assert Address.of({}).url == "http://localhost:8000"
    assert Address.of({"http_options": {"host": "0.0.0.0", "port": 9000}}).url == "http://localhost:9000"
    assert Address.of({"http_options": {"host": "10.0.0.7"}}).url == "http://10.0.0.7:8000"
    with pytest.raises(ConfigurationInvalid):
        Address.of({"http_options": {"port": "http"}})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_wait_and_nothing_else(number):
    before = signal.getsignal(number)
    with Signals() as signals:
        assert not signals.wait(0)
        signal.raise_signal(number)
        assert signals.wait(None)
        assert not signals.wait(0)
        threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, number)).start()
        assert signals.wait(None)
    assert signal.getsignal(number) is before


def test_the_end_of_a_child_ends_a_wait():
    with Signals() as signals:
        child = subprocess.Popen([sys.executable, "-c", ""])
        while child.poll() is None:
            assert not signals.wait(10)
        assert child.returncode == 0


# In Ray Serve's place: answers as its proxy does, has a child that outlives it, ends on SIGINT alone.
STAND_IN = """
import http.server, signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"/": "speech"}'
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
try:
    server.serve_forever(0.01)
except KeyboardInterrupt:
    sys.stderr.write("ended by SIGINT")
"""


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def living(group):
    """Processes of a group, without those that only wait to be forgotten."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def interrupt_when(event, number):
    """Sends a signal to this process once an event is set."""

    def send():
        assert event.wait(20)
        signal.pthread_kill(threading.main_thread().ident, number)

    threading.Thread(target=send, daemon=True).start()


def test_a_service_that_is_asked_to_end_gets_sigint_and_leaves_nothing(port, capfd, monkeypatch):
    monkeypatch.setattr("deployments.command.serve.LEFTOVERS_S", 0.2)
    with Signals() as signals:
        service = Service([sys.executable, "-c", STAND_IN, str(port)], Address(port=port))
        interrupt_when(service.is_ready, signal.SIGTERM)
        assert len(living(service.group)) >= 1
        service.watch(signals)
    assert not living(service.group)
    out, err = capfd.readouterr()
    assert f"is ready: http://localhost:{port}\n" in out
    assert out.endswith("sambert-serve has ended.\n")
    assert err == "ended by SIGINT"


def test_a_second_signal_ends_a_service_that_has_not_started(port, capfd):
    with Signals() as signals:
        service = Service([sys.executable, "-c", "import time; time.sleep(600)"], Address(port=port))
        signal.raise_signal(signal.SIGTERM)
        threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGTERM)).start()
        service.watch(signals)
    assert not living(service.group)
    assert "once more" in capfd.readouterr().out


def test_a_service_that_ends_by_itself_is_a_fault(port):
    with Signals() as signals:
        service = Service([sys.executable, "-c", "raise SystemExit(3)"], Address(port=port))
        with pytest.raises(NotReady, match="exit code 3"):
            service.watch(signals)
