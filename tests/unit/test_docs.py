"""The guides tell the truth: links, files, settings, series, errors, targets exist; commands are tested or marked."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel
from ray.serve.schema import ServeDeploySchema
from test_monitoring import RULES, SERIES

from deployments.errors import all_errors
from deployments.settings import Settings, VoicesSettings

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "docs" / name for name in ("architecture.md", "operating.md", "extending.md")]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in GUIDES}
NEEDS = re.compile(r"# needs (the service|a cluster|a Kubernetes cluster|Docker|a GPU)\b")


def keys(settings, prefix=""):
    """Every dotted key of the settings, groups included."""
    for name in type(settings).model_fields:
        yield f"{prefix}{name}"
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from keys(value, f"{prefix}{name}.")


KEYS = set(keys(Settings()))
STAGE_KEYS = {key.partition(".")[2] for key in KEYS}


def blocks(text, language):
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def code(text):
    """What stands in backquotes outside of blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!http)([^)#]+)\)", TEXTS[path.name])
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_files_that_are_named_exist(name):
    found = [
        word
        for word in code(TEXTS[name])
        if re.fullmatch(r"(deployments|tests|configs|load_tests|docs)/[\w./-]+", word)
    ]
    assert found
    assert [word for word in found if not (ROOT / word).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_settings_that_are_named_exist(name):
    groups = "|".join(type(Settings()).model_fields)
    named = [word for word in code(TEXTS[name]) if re.fullmatch(rf"({groups}|replicas|batching)(\.\w+)+", word)]
    assert [word for word in named if word not in KEYS | STAGE_KEYS] == []


@pytest.mark.parametrize("name", TEXTS)
def test_series_that_are_named_exist(name):
    named = set(re.findall(r"\bray_(?:sambert|serve)_\w*[a-z]\b", TEXTS[name]))
    assert named <= set(SERIES), named - set(SERIES)


@pytest.mark.parametrize("name", TEXTS)
def test_make_targets_exist(name):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {word.removeprefix("make ") for word in code(TEXTS[name]) if word.startswith("make ")}
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_errors_that_are_named_exist():
    codes = {error.code for error in all_errors()}
    assert {"rate_limit_exceeded", "overloaded"} <= codes & set(code(TEXTS["operating.md"]))


def test_yaml_is_valid():
    live, tracing = blocks(TEXTS["operating.md"], "yaml")
    application = ServeDeploySchema.model_validate(yaml.safe_load(live)).applications[0]
    Settings.load(application.args)
    (stage,) = application.deployments
    assert Settings().acoustic.batching.changed(stage.user_config).max_batch_size == 32
    ServeDeploySchema.model_validate({"applications": [], **yaml.safe_load(tracing)})
    (voices,) = blocks(TEXTS["extending.md"], "yaml")
    assert VoicesSettings.model_validate(yaml.safe_load(voices)["voices"]).default == "mine"


def test_alerts_lead_to_headings_of_the_guide():
    headings = set(re.findall(r"^#+ (.+)$", TEXTS["operating.md"], re.MULTILINE))
    named = [re.search(r"docs/operating.md, ([^.]+)\.", rule["annotations"]["fix"]) for rule in RULES]
    assert {match.group(1) for match in named if match} <= headings
    assert sum(match is not None for match in named) == len(RULES) - 1  # one leads to the README's table of errors


@pytest.mark.parametrize("name", TEXTS)
def test_commands_that_need_more_say_so(name):
    """Anything else runs in tests/readme/test_docs_commands.py, what needs the service in tests/serve."""
    for block in blocks(TEXTS[name], "sh"):
        if re.search(r"curl|docker|kubectl|serve (deploy|status)|ray (start|status)", block):
            assert NEEDS.match(block.strip()), block
