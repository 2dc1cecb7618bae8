"""Warm-up: phrases as text or JSON, faults that name the line, progress, failures that stop nothing."""

import asyncio
import logging
from pathlib import Path

import pytest

from deployments.errors import ConfigurationInvalid, TextNotSpeakable
from deployments.messages import SpeechRequest
from deployments.normalization.cache.warmup import read_phrases, warm_up

EXAMPLE = Path(__file__).parents[4] / "configs" / "phrases.example.txt"


def test_phrases_of_every_form(tmp_path):
    path = tmp_path / "phrases.txt"
    path.write_text(
        "\ufeff# a comment\n\n  您好，世界。  \r\n"
        '{"text": "再见", "voice": "demo", "emotion": "happy", "speed": 2, "pitch": -1.5, "normalize": false}\n'
        "您好，世界。\n",
        encoding="utf-8",
    )
    assert read_phrases(path) == (
        SpeechRequest(text="您好，世界。"),
        SpeechRequest(text="再见", voice="demo", emotion="happy", speed=2.0, pitch=-1.5, normalize=False),
    )


def test_the_example_is_read():
    requests = read_phrases(EXAMPLE)
    assert len(requests) >= 5
    assert any(request.speed != 1.0 for request in requests)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('{"text": "a", "vioce": "demo"}', "vioce"),
        ('{"text": "a"', "JSON"),
        ('{"voice": "demo"}', "text"),
        ('{"text": "  "}', "text"),
        ('{"text": "a", "speed": "fast"}', "speed"),
        ('{"text": 3}', "text"),
        ("{" * 5000, "JSON"),
    ],
)
def test_a_line_that_is_no_phrase_is_named(tmp_path, line, word):
    path = tmp_path / "phrases.txt"
    path.write_text(f"您好\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigurationInvalid, match=r"phrases\.txt:3") as caught:
        read_phrases(path)
    assert word in caught.value.message
    assert caught.value.param == "cache.warmup_file"


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ConfigurationInvalid, match=r"absent\.txt"):
        read_phrases(tmp_path / "absent.txt")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigurationInvalid, match=r"latin\.txt"):
        read_phrases(tmp_path / "latin.txt")


async def test_warm_up_speaks_all_skips_failures_and_logs_progress(caplog):
    requests = [SpeechRequest(text=str(number)) for number in range(25)]
    spoken, at_once = [], [0, 0]

    async def speak(request):
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0)
        at_once[0] -= 1
        if request.text == "3":
            raise TextNotSpeakable("nothing to say")
        if request.text == "4":
            raise ZeroDivisionError
        spoken.append(request.text)

    with caplog.at_level(logging.INFO):
        assert await warm_up(requests, speak, concurrency=4) == 23
    assert sorted(spoken, key=int) == [str(number) for number in range(25) if number not in {3, 4}]
    assert at_once[1] == 4
    assert "phrase 4 is skipped: nothing to say" in caplog.text
    assert "warm-up: 25 of 25 phrases" in caplog.text
    assert await warm_up([], speak, 2) == 0
