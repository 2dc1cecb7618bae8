"""Dashboard and alert rules ask for series and tags that exist, in PromQL that parses."""

import json
import re
from pathlib import Path

import promql_parser
import pytest
import yaml

from deployments.ingress.admission import ADMISSION
from deployments.metrics import METRICS
from deployments.normalization.cache.metrics import METRICS as CACHE

MONITORING = Path(__file__).parents[2] / "configs" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
GROUPS = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
OF_SERVE = {"deployment", "replica", "application"}
SERVES_OWN = {  # tests/serve looks them up on the real service
    "ray_serve_deployment_replica_healthy": OF_SERVE,
    "ray_serve_deployment_queued_queries": OF_SERVE,
}
ENDINGS = {"count": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SERIES = SERVES_OWN | {
    f"ray_sambert_{metric.name}{ending}": {*metric.tags, *OF_SERVE, *(["le"] if ending == "_bucket" else [])}
    for metric in (*METRICS, *ADMISSION, *CACHE)
    for ending in ENDINGS[metric.kind]
}
EXPRESSIONS = {
    f"{panel['title']}: {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
EXPRESSIONS |= {rule["alert"]: rule["expr"] for rule in RULES}


def parsed(text):
    return promql_parser.parse(text.replace("$__rate_interval", "5m"))


def selectors(node):
    """Every selector of an expression, with the tags that it is grouped by."""
    kind = type(node).__name__
    if kind == "VectorSelector":
        yield node, set()
    elif kind == "MatrixSelector":
        yield node.vector_selector, set()
    elif kind == "BinaryExpr":
        yield from selectors(node.lhs)
        yield from selectors(node.rhs)
    elif kind == "Call":
        for argument in node.args:
            yield from selectors(argument)
    elif kind == "AggregateExpr":
        grouped = set(node.modifier.labels) if node.modifier else set()
        yield from ((found, tags | grouped) for found, tags in selectors(node.expr))
    elif kind in ("ParenExpr", "UnaryExpr", "SubqueryExpr"):
        yield from selectors(node.expr)
    else:
        assert kind in ("NumberLiteral", "StringLiteral"), kind


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_ask_for_what_exists(name):
    found = list(selectors(parsed(EXPRESSIONS[name])))
    assert found
    for selector, grouped in found:
        asked = grouped | {matcher.name for matcher in selector.matchers.matchers}
        assert selector.name in SERIES, f"there is no series {selector.name}"
        assert asked <= SERIES[selector.name], f"{selector.name} has no tags {asked - SERIES[selector.name]}"


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_legends_name_tags_of_the_expression(panel):
    for target in panel["targets"]:
        grouped = set().union(*(tags for _, tags in selectors(parsed(target["expr"]))))
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped
        if len(panel["targets"]) > 1:
            assert target["legendFormat"]


def test_every_series_is_on_the_dashboard():
    """What is counted is shown; the hit rate since the start is seen in the rates of hits and misses."""
    shown = {
        selector.name for panel in PANELS for t in panel["targets"] for selector, _ in selectors(parsed(t["expr"]))
    }
    missing = {
        m.name
        for m in (*METRICS, *ADMISSION, *CACHE)
        if not any(name.startswith(f"ray_sambert_{m.name}") for name in shown)
    }
    assert missing == {"cache_hit_rate"}


def test_panels_have_ids_and_places_of_their_own():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (column, row)
        for panel in DASHBOARD["panels"]
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_say_what_is_wrong_and_what_to_do(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "fix"}
    grouped = set().union(*(tags for _, tags in selectors(parsed(rule["expr"]))))
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= grouped
