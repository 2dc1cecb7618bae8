"""Spans for OpenTelemetry: Serve makes one per stage and request, this sends them to a collector. No Ray.

A serve config names it: `tracing_config: {enabled: true, exporter_import_path: "deployments.tracing:otlp"}`.
"""

from __future__ import annotations

import os
from typing import Final

from opentelemetry.sdk.trace import SpanProcessor

from deployments.errors import ConfigurationInvalid

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def otlp() -> list[SpanProcessor]:
    """What sends spans over OTLP/HTTP to where OpenTelemetry's own environment variables say; nothing without them.

    Raises:
        ConfigurationInvalid: An endpoint is set and the exporter is not installed.
    """
    if not any(os.environ.get(name) for name in ENDPOINTS):
        return []
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationInvalid("Tracing needs the exporter: pip install 'sambert-serve[tracing]'.") from error
    return [BatchSpanProcessor(OTLPSpanExporter())]
