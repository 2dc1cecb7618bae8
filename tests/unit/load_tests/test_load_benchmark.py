"""The command line, the modes and what is said."""

from pathlib import Path

import pytest

from load_tests.benchmark import EFFORTS, QUICK_EFFORTS, STAGES, VOICES, parse, short_phrases
from load_tests.modes import modes, scenarios
from load_tests.phrases import spoken_length
from load_tests.stages import vocoder_backends


def test_everything_is_measured_unless_asked_otherwise():
    options = parse([])
    assert (options.voices, options.stages, options.output) == (VOICES, STAGES, None)
    assert options.efforts is EFFORTS
    options = parse(["--voice", "full-size", "--stage", "vocoder", "--output", "x.json", "--quick"])
    assert (options.voices, options.stages, options.output) == (("full-size",), ("vocoder",), Path("x.json"))
    assert options.efforts is QUICK_EFFORTS


@pytest.mark.parametrize("wrong", [["--voice", "other"], ["--stage", "cache"], ["--rounds"], ["more"]])
def test_a_wrong_command_line_is_refused(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(wrong)
    assert caught.value.code == 2
    assert "usage: python -m load_tests.benchmark" in capsys.readouterr().err


@pytest.mark.parametrize("efforts", [EFFORTS, QUICK_EFFORTS])
def test_sentences_have_the_syllables_that_the_goals_name(efforts):
    assert spoken_length(efforts["bundled"].sentence) == 15
    assert spoken_length(efforts["full-size"].sentence) == 28


def test_modes_differ_in_what_their_names_say(tmp_path):
    found = {mode.name: mode.settings({"sources": [{"model": "bundled"}]}) for mode in modes(tmp_path, 2, "redis://x")}
    assert list(found) == ["plain", "fast", "batching", "memory", "sqlite", "redis"]
    plain, fast, batching = found["plain"], found["fast"], found["batching"]
    assert (plain.vocoder.backend, fast.vocoder.backend) == ("torch", "auto")
    assert [mode.cache.enabled for mode in found.values()] == [False, False, False, True, True, True]
    for stage in ("acoustic", "vocoder"):
        assert [getattr(mode, stage).batching.max_batch_size for mode in (plain, fast, batching)] == [1, 1, 16]
    assert [mode.acoustic.threads for mode in found.values()] == [2, 1, 1, 1, 1, 1]
    assert [mode.vocoder.threads for mode in found.values()] == [2] * 6
    assert [found[name].cache.tier for name in ("memory", "sqlite", "redis")] == ["none", "sqlite", "redis"]
    assert found["sqlite"].cache.sqlite.folder == str(tmp_path / "cache")
    assert found["redis"].cache.redis.url == "redis://x"


def test_rows_are_those_of_the_modes_that_are_served(tmp_path):
    rows = scenarios(modes(tmp_path, 2))
    assert [(row.mode, row.concurrency) for row in rows if not row.is_sentence] == [
        ("plain", 1),
        ("fast", 1),
        ("batching", 1),
        ("batching", 4),
        ("batching", 16),
        ("memory", 4),
        ("sqlite", 4),
    ]
    assert [(row.mode, row.concurrency) for row in rows if row.is_sentence] == [("batching", 1), ("batching", 16)]
    assert {row.mode for row in scenarios(modes(tmp_path, 2)[:1])} == {"plain"}


def test_mixed_phrases_have_5_to_50_syllables():
    lengths = [phrase.num_spoken for phrase in short_phrases(24)]
    assert len(lengths) == 24
    assert min(lengths) >= 5
    assert max(lengths) <= 50
    assert max(lengths) > 2 * min(lengths)


def test_the_settings_name_the_runtimes():
    assert "torch" in vocoder_backends()
    assert "auto" not in vocoder_backends()
