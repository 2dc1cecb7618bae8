"""What operators see of the real service: series for Prometheus, JSON logs by request, spans over the stages."""

import json
import re
import sys
import time
from pathlib import Path

import httpx
import ray

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from test_monitoring import SERIES, SERVES_OWN

SECRET = "我的口令是蓝色的大象。"
STAGES = {"Ingress", "Normalizer", "Acoustic", "Vocoder"}
UNSEEN = {  # needs a replica that dies, a cache tier that fails, a queue that runs over, two askers at once
    "segments_sent_again",
    "cache_faults",
    "cache_dropped_writes",
    "cache_shared",
    "refusals",
    "drain_rate",
    "audio_room",
}


def scrape():
    """Names and samples of Ray's metrics endpoint, as Prometheus reads it."""
    (node,) = ray.nodes()
    answer = httpx.get(f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics", timeout=30)
    lines = [line for line in answer.text.splitlines() if line and not line.startswith("#")]
    return [(re.match(r"[a-zA-Z_:0-9]+", line).group(), line) for line in lines]


def wait_for(condition, limit_s=60):
    """Polls what no event tells of; returns what it returned at last."""
    ends = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < ends:
        time.sleep(0.5)
    return found


async def speak_in_every_way(speech):
    body = {"input": SECRET, "response_format": "pcm"}
    async with speech.client(headers={"x-request-id": "seen-through"}) as client:
        assert (await client.post("/v1/audio/speech", json=body | {"stream": False})).status_code == 200
        anew = await client.post("/v1/audio/speech", json=body, headers={"cache-control": "no-cache"})
        assert anew.status_code == 200
        assert (await client.post("/v1/audio/speech", json=body)).status_code == 200
        assert (await client.post("/v1/audio/speech", json=body | {"voice": "nobody"})).status_code == 400


async def test_prometheus_finds_every_series_that_dashboard_and_alerts_ask_for(speech):
    await speak_in_every_way(speech)
    wanted = {name for name in SERIES if not any(unseen in name for unseen in UNSEEN)}
    wanted -= {name for name in SERIES if "live_sessions" in name}
    samples = []

    def refused():
        return [
            line for name, line in samples if name == "ray_sambert_http_requests_total" and "voice_not_found" in line
        ]

    def all_seen():  # Ray shows a gauge only for as long as it has been set since its last report
        samples.extend(scrape())
        return refused() and wanted <= {name for name, _ in samples}

    wait_for(all_seen)
    assert wanted - {name for name, _ in samples} == set()
    assert refused()
    assert all('status="400"' in line and 'route="POST /v1/audio/speech"' in line for line in refused())
    for name, line in samples:
        if name in SERIES and name not in SERVES_OWN:
            tags = set(re.findall(r'(\w+)="', line))
            assert SERIES[name] <= tags, line


def logged():
    """All that all processes have logged."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in logs.rglob("*.log"))


def records():
    """What all replicas of the service have logged."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path()) / "serve"
    for path in logs.glob("replica_speech_*.log"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.endswith("Successfully set up tracing for replica"):  # Serve's, before it reads logging_config
                yield json.loads(line)


async def test_logs_are_json_and_follow_a_request_through_all_stages_without_its_text(speech):
    await speak_in_every_way(speech)

    def followed():
        return {
            record["deployment"].split("_")[-1] for record in records() if record.get("request_id") == "seen-through"
        }

    assert wait_for(lambda: followed() >= STAGES)
    assert followed() == STAGES
    own = [record for record in records() if record["message"].startswith("POST /v1/audio/speech 400")]
    assert any(record["filename"] == "middleware.py" for record in own)
    everything = logged()
    escaped = json.dumps(SECRET)[1:-1]
    assert [piece for piece in (SECRET, SECRET[-5:-1], escaped, "口令") if piece in everything] == []


async def test_spans_of_a_request_lie_over_all_stages(speech, collector):
    await speak_in_every_way(speech)

    def traces():
        by_trace = {}
        with collector.arrived:
            for span in collector.spans:
                by_trace.setdefault(span.trace_id, []).append(span.name)
        return by_trace.values()

    def is_whole(names):
        return all(any(stage in name for name in names) for stage in ("speak", "infer", "vocode"))

    assert wait_for(lambda: any(is_whole(names) for names in traces())), list(traces())
