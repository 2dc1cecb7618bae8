"""What decides a reading beside the text: the voice, its lexicons, its breaks; and the memo that must know them all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from deployments.errors import ConfigurationInvalid, EmotionNotFound, VoiceNotFound
from deployments.messages import SpeechRequest, TextAnalysis, VoiceInfo
from deployments.normalization.analyser import Analyser
from deployments.normalization.cache.memo import TextMemo
from deployments.normalization.lexicons import Lexicons
from deployments.normalization.text import lexicon
from deployments.normalization.text.frontend import FrontEnd
from deployments.normalization.voices import Voices
from deployments.settings import NormalizerSettings

LONG = "我们公司的全体员工昨天下午在三楼的大会议室里热烈地讨论了明年的工作计划和安排"


def voice(name: str, **known: object) -> VoiceInfo:
    fields: dict[str, object] = {
        "name": name,
        "model": "m",
        "speaker": f"F_{name}",
        "emotions": ("neutral", "happy"),
        "sample_rate_hz": 16000,
        "hop_samples": 200,
        "has_english": False,
    }
    return VoiceInfo(**{**fields, **known})  # type: ignore[arg-type]


VOICES = (voice("anna", is_default=True), voice("bert", phrase_break="#3"))


def make(
    frontend: FrontEnd, in_folders: Mapping[str, Path] | None = None, memo: TextMemo | None = None, **settings: object
) -> Analyser:
    chosen = NormalizerSettings.model_validate(settings)
    voices = Voices(VOICES)
    memo = TextMemo(1 << 20) if memo is None else memo
    return Analyser(chosen, voices, Lexicons(chosen, voices.names, in_folders or {}), memo, frontend)


def read(analyser: Analyser, text: str, **fields: object) -> TextAnalysis:
    return asyncio.run(analyser.analyse(SpeechRequest(text=text, **fields)))  # type: ignore[arg-type]


def pinyin(analysis: TextAnalysis) -> str:
    return " ".join(syllable for segment in analysis.segments for word in segment.words for syllable in word.pinyin)


def table(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_a_voice_breathes_as_it_was_trained_to(frontend: FrontEnd) -> None:
    analyser = make(frontend)
    by_voice = {name: read(analyser, LONG, voice=name).segments[0].symbols for name in ("anna", "bert")}
    breaks = {name: [item[1:3] for item in items.split() if item[1] == "#"] for name, items in by_voice.items()}
    assert "#2" in breaks["anna"]
    assert "#3" not in breaks["anna"]
    assert breaks["bert"] == [mark.replace("#2", "#3") for mark in breaks["anna"]]


def test_the_voice_wins_over_the_service_and_the_setting_over_the_folder(frontend: FrontEnd, tmp_path: Path) -> None:
    everywhere = table(tmp_path / "all.tsv", "行长\txing2 zhang3\n甲乙\tyi1 jia3\n")
    folder = table(tmp_path / "lexicon.tsv", "行长\thang4 chang2\n")
    setting = table(tmp_path / "bert.tsv", "甲乙\tbing3 ding1\n")
    analyser = make(
        frontend,
        {"anna": folder, "bert": folder},
        lexicon_file=str(everywhere),
        lexicon_files={"bert": str(setting)},
    )
    assert pinyin(read(analyser, "行长，甲乙")) == "hang4 chang2 yi1 jia3"
    assert pinyin(read(analyser, "行长，甲乙", voice="bert")) == "xing2 zhang3 bing3 ding1"


def test_a_changed_lexicon_is_heard_though_the_memo_knows_the_text(
    frontend: FrontEnd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexicon, "_CHECK_EVERY_S", 0.0)
    memo = TextMemo(1 << 20)
    path = table(tmp_path / "all.tsv", "行\thang2\n")
    analyser = make(frontend, lexicon_file=str(path), memo=memo)
    first = read(analyser, "行")
    assert pinyin(first) == "hang2"
    assert read(analyser, "行") is first
    table(path, "行\txing4\n")
    os.utime(path, ns=(1, 1))
    assert pinyin(read(analyser, "行")) == "xing4"
    table(path, "行\thang2\n")
    os.utime(path, ns=(2, 2))
    assert read(analyser, "行") is first  # the same entries again, the same reading
    assert memo.num_entries == 2


def test_a_lexicon_for_a_voice_that_is_not_served_stops_the_start(frontend: FrontEnd, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"carl.*anna, bert") as caught:
        make(frontend, lexicon_files={"carl": str(tmp_path / "any.tsv")})
    assert caught.value.param == "normalizer.lexicon_files"
    with pytest.raises(ConfigurationInvalid, match=r"absent\.tsv"):
        make(frontend, lexicon_file=str(tmp_path / "absent.tsv"))


def test_unknown_voices_and_emotions_are_refused(frontend: FrontEnd) -> None:
    analyser = make(frontend)
    with pytest.raises(VoiceNotFound, match="anna, bert"):
        read(analyser, "好", voice="carl")
    with pytest.raises(EmotionNotFound, match="neutral, happy"):
        read(analyser, "好", emotion="bored")
