"""The files of the page agree with each other and with what the service knows."""

import csv
import json
import re
from importlib import resources

import pytest

from deployments import errors
from deployments.ingress.page_routes import read_files

PAGE = resources.files("deployments.ingress").joinpath("page")
NAMES = sorted(name for name in read_files() if name.endswith((".js", ".html")))
TEXTS = json.loads(PAGE.joinpath("texts.json").read_text(encoding="utf-8"))
SOURCE = {name: PAGE.joinpath(name).read_text(encoding="utf-8") for name in NAMES}


def test_both_languages_have_the_same_texts():
    assert TEXTS["en"].keys() == TEXTS["zh"].keys()
    for key, text in TEXTS["en"].items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", TEXTS["zh"][key])), key


@pytest.mark.parametrize("name", NAMES)
def test_every_text_that_is_named_exists(name):
    used = re.findall(r'data-(?:text|label|tip|placeholder)="([^"]+)"', SOURCE[name])
    used += re.findall(r'\bt\("([^"]+)"', SOURCE[name])
    used += re.findall(r'"((?:status|report|error)\.\w+)"', SOURCE[name])
    assert [key for key in used if key not in TEXTS["en"]] == []


def test_every_emotion_and_error_has_a_name():
    table = resources.files("deployments.voices").joinpath("emotions.tsv").read_text(encoding="utf-8")
    emotions = {row["emotion"] for row in csv.DictReader(table.splitlines(), delimiter="\t")}
    assert [emotion for emotion in emotions if f"emotion.{emotion}" not in TEXTS["zh"]] == []
    codes = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    titled = {key.removeprefix("error.") for key in TEXTS["en"] if key.startswith("error.")}
    assert {"text_not_speakable", "overloaded", "invalid_request"} <= codes & titled


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup(name):
    assert re.findall(r"(?:src|href|url\()\s*=?\s*[\"']?(?:https?:)?//", SOURCE[name]) == []
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", SOURCE[name]) == []
    )


def test_every_file_that_is_named_is_served():
    served = read_files()
    named = set(re.findall(r'(?:src|href)="page/([^"]+)"', SOURCE["index.html"]))
    for name in NAMES:
        named.update(re.findall(r'from "\./([^"]+)"', SOURCE[name]))
    assert named - served.keys() == set()
    assert served.keys() - named == {"index.html", "texts.json"}
