"""`sambert-serve analyse`: the reading of a text as a table or as the service's JSON."""

import functools
import json
import os
import sys

import pytest

from deployments.command.main import main
from deployments.command.tables import aligned, columns_of, interlinear
from deployments.normalization.text import frontend

once = functools.cache(frontend.FrontEnd)


@pytest.fixture(autouse=True)
def _front_end(monkeypatch):
    """The front end is built once for all commands of this file: that takes a second, and it keeps no state."""
    monkeypatch.setattr(frontend, "FrontEnd", once)


def test_words_above_their_pinyin(run):
    code, out, err = run("analyse", "重庆银行有3家。您好！")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1  重庆银行有3家。",
        "   重庆银行有三家。",
        "   重庆          银行        有    三家",
        "   chong2 qing4  yin2 hang2  you3  san1 jia1",
        "   (pause 0.25 s after)",
        "2  您好！",
        "   您好",
        "   nin2 hao3",
    ]


def test_what_markup_says(run):
    markup = '<speak><break time="1s"/>您好<emotion category="happy" intensity="1.5">再见</emotion></speak>'
    lines = run("analyse", markup)[1].splitlines()
    assert "   (voice demo, neutral, pause 1 s before)" in lines
    assert lines[-1] == "   (voice demo, happy, intensity 1.5)"


def test_json_is_the_answer_of_the_service(run):
    reply = json.loads(run("analyse", "--json", "行[hang2]家")[1])
    assert reply["segments"][0]["pinyin"] == ["hang2", "jia5"]
    assert set(reply["segments"][0]) == {"text", "normalized", "pinyin", "symbols", "phones"}


def test_settings_of_a_config_apply(run, write_config, tmp_path):
    lexicon = tmp_path / "lexicon.tsv"
    lexicon.write_text("您好\tnin2 hao5\n", encoding="utf-8")
    config = write_config({"normalizer": {"lexicon_file": str(lexicon)}})
    assert "nin2 hao5" in run("analyse", "您好", "--config", config)[1]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["。。。"], "text_not_speakable"),
        (["<speak><foo/></speak>"], "markup_invalid"),
        (["您好", "--voice", "nobody"], "voice_not_found"),
    ],
)
def test_refusals(refused, arguments, code):
    assert refused("analyse", *arguments)[:2] == (2, code)


def test_a_reader_that_has_seen_enough(monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", encoding="utf-8") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["analyse", "您好"]) == 1
    assert capsys.readouterr().err == ""


def test_chinese_characters_are_two_columns_wide():
    assert columns_of("好a！é") == 6
    lines = aligned([("好", "x"), ("abc", "y")])
    assert lines == ["好   x", "abc  y"]


def test_long_segments_are_folded():
    pairs = [("今天", "jin1 tian1"), ("好", "hao3"), ("天" * 9, "t")]
    lines = interlinear(pairs, 18)
    assert lines == ["今天        好", "jin1 tian1  hao3", "天" * 9, "t"]
    assert max(map(columns_of, lines)) == 18
