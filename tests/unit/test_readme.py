"""The README tells the truth: its tables are those of the code, its links lead somewhere, its YAML is valid."""

import re

import pytest
import yaml
from readme_tables import README, TABLES, section

from deployments.settings import VoicesSettings

TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_the_code(name):
    assert section(TEXT, name).group() == TABLES[name]() + "\n", "run: make docs"


def test_links_lead_somewhere():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_voices_example_is_a_valid_configuration():
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert VoicesSettings.model_validate(yaml.safe_load(example)["voices"]).default == "zhiyan_emo"


def test_make_targets_exist():
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    assert targets >= {"serve", "test", "check"}
    assert all(f"\n{target}:" in makefile for target in targets)
