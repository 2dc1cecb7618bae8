"""The user's own readings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from as_served import analyse

from deployments.errors import ConfigurationInvalid
from deployments.normalization.text.frontend import FrontEnd
from deployments.normalization.text.lexicon import Lexicon, LexiconFile


def words(frontend: FrontEnd, text: str, lexicon: Lexicon) -> list[tuple[str, tuple[str, ...]]]:
    analysis = analyse(frontend, text, lexicon=lexicon)
    assert "".join(segment.text for segment in analysis.segments) == text
    return [(word.text, word.pinyin) for segment in analysis.segments for word in segment.words]


def test_entries_win_over_rules_and_tables(frontend: FrontEnd) -> None:
    lexicon = Lexicon({"行家": "xing2 jia1", "985": "jiu3 ba1 wu3", "AI": "ei1 ai4"})
    found = words(frontend, "985的行家用AI。", lexicon)
    assert ("985", ("jiu3", "ba1", "wu3")) in found
    assert ("行家", ("xing2", "jia1")) in found
    assert ("AI", ("ei1", "ai4")) in found


def test_tone_change_applies_to_neighbours(frontend: FrontEnd) -> None:
    assert dict(words(frontend, "不美的", Lexicon({"美": "mei4"})))["不"] == ("bu2",)


def test_normalized_text_shows_the_entry(frontend: FrontEnd) -> None:
    analysis = analyse(frontend, "去985吧", lexicon=Lexicon({"985": "jiu3 ba1 wu3"}))
    assert analysis.normalized == "去985吧"


@pytest.mark.parametrize("pinyin", ["", "hang", "xyz1", "hang2 foo"])
def test_wrong_reading_names_itself(pinyin: str) -> None:
    with pytest.raises(ConfigurationInvalid, match="行"):
        Lexicon({"行": pinyin})


def test_file_is_read_again_when_it_changes_and_kept_when_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.tsv"
    path.write_text("# mine\n行\thang2\n", encoding="utf-8")
    file = LexiconFile(path)
    first = file.current()
    path.write_text("行\txing4\n", encoding="utf-8")
    os.utime(path, ns=(1, 1))
    file.reload()
    second = file.current()
    assert second is not first
    path.write_text("行\n", encoding="utf-8")
    os.utime(path, ns=(2, 2))
    file.reload()
    assert file.current() is second


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"nowhere\.tsv"):
        LexiconFile(tmp_path / "nowhere.tsv")
