"""One local Ray cluster for the whole session, and the real application on it."""

import contextlib
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import httpx
import pytest
import ray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from ray import serve
from ray.serve.schema import LoggingConfig, TracingConfig
from ray.util.state import list_actors

from graph import build

APP = "speech"
SETTINGS = {
    "ingress": {"replicas": {"num_cpus": 0.1, "label_selector": {"pool": "in(text,all)"}}},
    "normalizer": {"replicas": {"num_cpus": 0.1}},
    "acoustic": {"replicas": {"num_cpus": 0.1, "health_check_period_s": 1.0}},
    "vocoder": {"replicas": {"num_cpus": 0.1, "health_check_period_s": 1.0, "max_replicas_per_node": 2}},
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Collector(BaseHTTPRequestHandler):
    """Takes spans as a collector of OpenTelemetry does."""

    spans: ClassVar = []
    arrived = threading.Condition()

    def do_POST(self):
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        with self.arrived:
            for resource in sent.resource_spans:
                for scope in resource.scope_spans:
                    self.spans.extend(scope.spans)
            self.arrived.notify_all()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def collector():
    """Gets the spans of the whole session."""
    with HTTPServer(("127.0.0.1", 0), Collector) as server, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "500")
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield Collector
        server.shutdown()
        serving.join()


@pytest.fixture(scope="session")
def cluster(collector):
    """A Ray cluster with more logical than real cores, Serve on a free port; both shut down at the end.

    It logs JSON and traces every request, so that all tests show that neither is in the way.
    """
    ray.init(
        num_cpus=8, labels={"pool": "all"}, log_to_driver=False, include_dashboard=True, dashboard_port=free_port()
    )
    port = free_port()
    serve.start(
        http_options={"host": "127.0.0.1", "port": port},
        tracing_config=TracingConfig(enabled=True, exporter_import_path="deployments.tracing:otlp", sampling_ratio=1.0),
    )
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()
    ray.shutdown()


@dataclass
class Speech:
    """The running application, from both sides."""

    handle: object
    base_url: str

    def client(self, **options):
        return httpx.AsyncClient(base_url=self.base_url, timeout=60, **options)

    def replica_pids(self, deployment):
        """Process ids of the replicas of one deployment that are alive."""
        actors = list_actors(
            filters=[("class_name", "=", f"ServeReplica:{APP}:{deployment}"), ("state", "=", "ALIVE")], detail=True
        )
        return [actor.pid for actor in actors]

    def kill_replicas(self, deployment):
        """kill -9 of every replica of one deployment; returns how many there were."""
        pids = self.replica_pids(deployment)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(pids)

    def wait_until_ready(self, limit_s=60):
        """Polls /readyz; fails when the service does not become ready in time."""
        ends = time.monotonic() + limit_s
        answer = "no answer yet"
        while time.monotonic() < ends:
            with contextlib.suppress(httpx.HTTPError):
                response = httpx.get(f"{self.base_url}/readyz", timeout=10)
                if response.status_code == 200:
                    return
                answer = response.text
            time.sleep(0.2)
        raise AssertionError(f"not ready within {limit_s} s: {answer}")


@pytest.fixture(scope="session")
def speech(cluster, tmp_path_factory):
    """The application of graph.py with the bundled voice and a cache file of its own."""
    cache = {"sqlite": {"folder": str(tmp_path_factory.mktemp("cache"))}}
    logging_config = LoggingConfig(encoding="JSON")
    handle = serve.run(build(SETTINGS | {"cache": cache}), name=APP, route_prefix="/", logging_config=logging_config)
    service = Speech(handle, cluster)
    service.wait_until_ready()
    yield service
    serve.delete(APP)


@pytest.fixture(scope="module")
def speech_at():
    """The running application at another address: speech_at(handle, base_url)."""
    return Speech
