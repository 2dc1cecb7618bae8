"""Spans are sent where OpenTelemetry's own variables say, and nowhere without them."""

from deployments.tracing import ENDPOINTS, otlp


def test_nothing_is_sent_without_an_endpoint(monkeypatch):
    for name in ENDPOINTS:
        monkeypatch.delenv(name, raising=False)
    assert otlp() == []


def test_spans_go_to_the_endpoint(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/collector")
    (processor,) = otlp()
    try:
        assert processor.span_exporter._endpoint == "http://127.0.0.1:9/collector/v1/traces"
    finally:
        processor.shutdown()
