import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from voice_files import (
    NSF,
    edit_yaml,
    make_nsf,
    make_voice,
    opened,
    refused,
    set_am,
    set_voc,
    write_checkpoint,
    write_yaml,
)

from deployments.errors import VoiceInvalid
from deployments.settings import VoicesSettings
from deployments.voices.folder import newest_checkpoint, open_model
from deployments.voices.store import VoiceStore
from deployments.voices.symbols import RESERVED

GOLDEN = Path(__file__).parents[2] / "golden/data"


def test_voices_come_in_the_order_of_the_list_with_all_that_a_stage_needs(model: Path) -> None:
    first, second = open_model(model, "some/model")
    assert (first.name, second.name) == ("zhiyan", "zhibei")
    assert first.model == "some/model"
    assert first.path == model / "voices/zhiyan"
    assert first.acoustic_params["num_mels"] == 80
    assert first.vocoder_params["upsample_scales"] == [10, 5, 2, 2]
    assert first.speakers == ("F7", "F74", "M7")
    assert first.symbols.speaker == ("F7", "F74", "M7", *RESERVED)
    assert first.acoustic_checkpoint == first.path / "am/ckpt/checkpoint_90.pth"
    assert first.vocoder_checkpoint == first.path / "voc/ckpt/checkpoint_7.pth"
    assert (first.sample_rate_hz, first.hop_samples) == (16000, 200)
    assert (first.is_nsf, first.f0_scale_hz, first.f0_offset_hz) == (False, 1.0, 0.0)
    assert first.speaker_vector is None
    assert (first.language, first.license, first.has_english) == ("zh-CN", "unknown", True)
    info = second.info(is_default=True)
    assert (info.name, info.model, info.speaker, info.is_default) == ("zhibei", "some/model", "F7", True)
    assert info.fingerprint == second.fingerprint


def test_only_the_named_voices_are_opened(model: Path) -> None:
    shutil.rmtree(model / "voices/zhiyan")
    assert [folder.name for folder in open_model(model, "some/model", ["zhibei"])] == ["zhibei"]
    with pytest.raises(VoiceInvalid, match=r"no voice 'zhimeng'\. Its voices: zhiyan, zhibei"):
        open_model(model, "some/model", ["zhimeng"])


def test_without_a_list_the_folders_are_the_voices(model: Path) -> None:
    (model / "voices/voices.json").unlink()
    (model / "voices/notes").mkdir()
    assert [folder.name for folder in open_model(model, "some/model")] == ["zhibei", "zhiyan"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", 'is not {"voices": [names]}'),
        ("[]", 'is not {"voices": [names]}'),
        ('{"voice": []}', 'is not {"voices": [names]}'),
        ('{"voices": []}', "must list at least one voice"),
        ('{"voices": "zhiyan"}', "must list at least one voice"),
        ('{"voices": ["zhiyan", "zhiyan"]}', "must list at least one voice, each once"),
        ('{"voices": [3]}', "3 is not the name of a voice folder"),
        ('{"voices": ["../zhiyan"]}', "'../zhiyan' is not the name of a voice folder"),
        ('{"voices": [".."]}', "'..' is not the name of a voice folder"),
        ('{"voices": ["zhimeng"]}', "voices/zhimeng is missing"),
        ("[" * 100_000, 'is not {"voices": [names]}'),
    ],
)
def test_a_broken_list_of_voices_is_refused(model: Path, content: str, said: str) -> None:
    (model / "voices/voices.json").write_text(content, encoding="utf-8")
    with pytest.raises(VoiceInvalid) as raised:
        open_model(model, "some/model")
    assert said in raised.value.message
    assert str(model / "voices") in raised.value.message


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VoiceInvalid, match="is no model folder: it has no folder voices/"):
        open_model(tmp_path, "some/model")


def test_the_highest_step_counts_as_a_number(voice: Path) -> None:
    for name in ("checkpoint_1000.pth", "checkpoint_999.pth", "checkpoint_2000.pth.part", "checkpoint_x.pth", "b.pth"):
        write_checkpoint(voice / "am/ckpt" / name, {"model": {}})
    assert newest_checkpoint(voice / "am/ckpt").name == "checkpoint_1000.pth"
    assert opened(voice).acoustic_checkpoint.name == "checkpoint_1000.pth"


def test_nsf_with_mean_and_deviation(voice: Path) -> None:
    make_nsf(voice)
    folder = opened(voice)
    assert (folder.is_nsf, folder.f0_scale_hz, folder.f0_offset_hz) == (True, 55.25, 220.5)


@pytest.mark.parametrize(
    ("params", "scale_hz", "offset_hz"),
    [({}, 700.0, 30.0), ({"nsf_f0_global_maximum": 500.0, "nsf_f0_global_minimum": 60.0}, 440.0, 60.0)],
)
def test_nsf_with_a_global_range_needs_no_file(
    voice: Path, params: dict[str, float], scale_hz: float, offset_hz: float
) -> None:
    make_nsf(voice, nsf_norm_type="global", **params)
    (voice / "am/mvn.npy").unlink()
    folder = opened(voice)
    assert (folder.is_nsf, folder.f0_scale_hz, folder.f0_offset_hz) == (True, scale_hz, offset_hz)


def test_a_speaker_vector_is_float32_and_read_only(voice: Path) -> None:
    set_am(voice, SE=True)
    np.save(voice / "am/se.npy", np.arange(16.0).reshape(1, 16))
    vector = opened(voice).speaker_vector
    assert vector is not None
    assert vector.dtype == np.float32
    np.testing.assert_array_equal(vector, np.arange(16.0))
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


@pytest.mark.parametrize("file", ["am/config.yaml", "voc/config.yaml"])
def test_the_sample_rate_may_stand_in_either_config(voice: Path, file: str) -> None:
    (voice / "audio_config.yaml").unlink()
    edit_yaml(voice / file, lambda c: c.update(audio_config={"sampling_rate": 16000, "hop_length": 200}))
    assert (opened(voice).sample_rate_hz, opened(voice).hop_samples) == (16000, 200)


def test_the_sample_rate_may_stand_in_the_nsf_params_alone_and_the_hop_nowhere(voice: Path) -> None:
    make_nsf(voice)
    (voice / "audio_config.yaml").unlink()
    set_voc(voice, upsample_scales=[10, 6, 2, 2])
    assert (opened(voice).sample_rate_hz, opened(voice).hop_samples) == (16000, 240)


def write_table(voice: Path, name: str, rows: list[str], end: str = "\n") -> None:
    (voice / "dict").mkdir(exist_ok=True)
    (voice / "dict" / f"{name}_dict.txt").write_text(end.join(rows) + end, encoding="utf-8")


def test_tables_of_the_voice_win_and_tell_its_emotions(voice: Path) -> None:
    write_table(voice, "emo_category", ["emotion_none", "emotion_sad", "emotion_neutral", "emotion_placeholder1"])
    write_table(voice, "tone", ["tone5", "tone4", "tone3", "tone2", "tone1", "tone_none"], end="\r\n")
    write_table(voice, "speaker", ["X1", "F7", "F74", "M7"])
    folder = opened(voice)
    assert folder.emotions == ("neutral", "sad")
    assert folder.symbols.index("emotion", "emotion_sad") == 1
    assert folder.symbols.index("tone", "tone5") == 0
    assert folder.symbols.index("speaker", "F7") == 1
    assert folder.speakers == ("F7", "F74", "M7")
    assert folder.info(is_default=False).speaker == "F7"


def test_phone_rows_may_carry_the_published_at_sign(voice: Path) -> None:
    published = opened(voice).symbols.phone[: -len(RESERVED)]
    write_table(voice, "sy", ["", *(f"@{phone}" for phone in published), ""])
    assert opened(voice).symbols.phone == (*published, *RESERVED)


def test_without_table_or_card_all_emotions_of_the_published_table_are_offered(voice: Path) -> None:
    emotions = opened(voice).emotions
    assert len(emotions) == 23
    assert emotions[:3] == ("neutral", "angry", "disgust")
    assert not {"none", "placeholder1", "_", "~"} & set(emotions)


def test_a_card_says_what_the_files_cannot(voice: Path) -> None:
    card = {"emotions": ["sad", "neutral"], "language": "zh-TW", "license": "MIT", "english": False, "made_from": "x"}
    write_yaml(voice / "card.yaml", card)
    edit_yaml(voice / "am/config.yaml", lambda c: c["linguistic_unit"].update(language="Taiwanese"))
    folder = opened(voice)
    assert folder.emotions == ("neutral", "sad")
    assert (folder.language, folder.license, folder.has_english) == ("zh-TW", "MIT", False)
    assert (folder.phrase_break, folder.info(is_default=True).phrase_break) == ("#2", "#2")
    write_yaml(voice / "card.yaml", {**card, "phrase_break": "#3"})
    assert opened(voice).info(is_default=True).phrase_break == "#3"


def test_readings_that_lie_in_the_folder_are_found(model: Path, voice: Path) -> None:
    (voice / "lexicon.tsv").write_text("行\thang2\n", encoding="utf-8")
    store = VoiceStore.open(VoicesSettings.model_validate({"sources": [{"model": str(model)}]}))
    assert store.lexicon_files == {"zhiyan": voice / "lexicon.tsv"}


def test_a_table_without_english_vowels_has_no_english(voice: Path) -> None:
    phones = [phone for phone in opened(voice).symbols.phone if phone not in ("aa", *RESERVED)]
    write_table(voice, "sy", phones)
    assert opened(voice).has_english is False


@pytest.mark.parametrize(
    ("table", "rows", "said"),
    [
        ("emo_category", ["emotion_neutral", "emotion_sad"], "lacks emotion_none"),
        ("emo_category", ["emotion_none"], "lists no emotion"),
        ("tone", ["tone1", "tone_none"], "lacks tone2, tone3"),
        ("sy", ["a_c", "#1"], "lacks #2, #3, #4"),
        ("speaker", ["F7", "F74"], "lacks M7"),
        ("word_segment", ["word_begin", "word_begin"], "word segment 'word_begin' stands twice"),
        ("syllable_flag", ["", " "], "is empty"),
    ],
)
def test_broken_tables_of_a_voice_are_refused(voice: Path, table: str, rows: list[str], said: str) -> None:
    write_table(voice, table, rows)
    message = refused(voice)
    assert said in message
    assert str(voice / "dict") in message


def test_the_fingerprint_follows_what_decides_the_sound_and_nothing_else(tmp_path: Path, model: Path) -> None:
    voice = model / "voices/zhiyan"
    original = opened(voice).fingerprint
    assert len(original) == 64
    assert opened(model / "voices/zhibei").fingerprint == original  # the same bytes under another name
    (voice / "card.yaml").write_text("license: MIT\n")
    assert opened(voice).fingerprint == original
    copied = shutil.copytree(model, tmp_path / "copy")
    assert opened(copied / "voices/zhiyan").fingerprint == original
    seen = {original}
    changes: list[Callable[[], Any]] = [
        lambda: set_am(voice, speaker_units=17),
        lambda: set_voc(voice, kernel_size=7),
        lambda: edit_yaml(voice / "audio_config.yaml", lambda c: c.update(n_mels=80)),
        lambda: write_checkpoint(voice / "am/ckpt/checkpoint_91.pth", {"model": {"w": torch.ones(5)}}),
        lambda: write_checkpoint(voice / "voc/ckpt/checkpoint_7.pth", {"model": {"generator": {"w": torch.ones(5)}}}),
        lambda: write_table(voice, "tone", ["tone5", "tone4", "tone3", "tone2", "tone1", "tone_none"]),
        lambda: make_nsf(voice),
        lambda: np.save(voice / "am/mvn.npy", np.array([[220.5], [55.5]])),
    ]
    for change in changes:
        change()
        fingerprint = opened(voice).fingerprint
        assert fingerprint not in seen
        seen.add(fingerprint)


def test_an_unchanged_file_is_hashed_once_per_process(voice: Path) -> None:
    from deployments.voices.fingerprint import _file_hash

    opened(voice)
    before = _file_hash.cache_info()
    opened(voice)
    after = _file_hash.cache_info()
    assert after.misses == before.misses
    assert after.hits > before.hits


@pytest.mark.parametrize(
    ("am", "voc", "is_nsf"),
    [
        ("am_plain", "voc_noncausal", False),
        ("am_r2", "voc_causal", False),
        ("am_nsf", "voc_nsf", True),
        ("am_speaker_embedding", "voc_causal", False),
    ],
)
def test_golden_folders_open_as_voices(tmp_path: Path, am: str, voc: str, is_nsf: bool) -> None:
    voice = tmp_path / "voices/golden"
    shutil.copytree(GOLDEN / am, voice / "am")
    shutil.copytree(GOLDEN / voc, voice / "voc")
    write_yaml(voice / "audio_config.yaml", {"audio_config": {"sampling_rate": 16000}})
    if is_nsf:
        np.save(voice / "am/mvn.npy", np.array([[200.0], [50.0]]))
    (folder,) = open_model(tmp_path, "golden")
    params = yaml.safe_load((GOLDEN / am / "config.yaml").read_text())["Model"]["KanTtsSAMBERT"]["params"]
    assert folder.acoustic_params == params
    assert folder.is_nsf is is_nsf
    assert (folder.sample_rate_hz, folder.hop_samples, folder.speakers) == (16000, 200, ("F7", "F74", "M7"))
    assert (folder.speaker_vector is not None) == (am == "am_speaker_embedding")
    if folder.speaker_vector is not None:
        np.testing.assert_array_equal(folder.speaker_vector, np.load(GOLDEN / am / "se.npy")[0].astype(np.float32))
    for case in json.loads((GOLDEN / am / "cases.json").read_text()):
        assert folder.symbols.parse(case["symbols"]).ling_T4.shape[1] == 4


def test_two_voices_of_different_make_live_in_one_folder(model: Path) -> None:
    make_voice(model / "voices/zhibei", am={**NSF, "nsf_norm_type": "global"}, voc={"nsf_params": {}})
    assert [folder.is_nsf for folder in open_model(model, "m")] == [False, True]
