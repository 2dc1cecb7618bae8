"""`sambert-serve say`: the service's samples in a file, and what it refuses before it writes anything."""

import asyncio
import io
import re
import signal
import sys

import httpx
import pytest
import soundfile
from ingress_double import Tones

from deployments.command import say
from deployments.command.main import main
from deployments.command.pipeline import Pipeline
from deployments.command.spoken import spoken
from deployments.errors import SynthesisFailed
from deployments.ingress.routes import build_app
from deployments.messages import SpeechRequest, TextAnalysis
from deployments.settings import IngressSettings, Settings

# One runtime whatever this machine has, and no cache: equal samples were then synthesised twice by the same rules.
SETTINGS = {
    "cache": {"tier": "none", "memory_bytes": 0},
    "acoustic": {"backend": "torch"},
    "vocoder": {"backend": "torch", "warm_up": False},
}
TEXT = "您好，欢迎致电客服中心。"
FRAGMENT = '您好<break time="300ms"/>再见'


async def posted(body):
    """The body of the service's answer, from engines of its own."""
    settings = Settings.load(SETTINGS)
    async with Pipeline(settings) as pipeline:
        transport = httpx.ASGITransport(build_app(pipeline, settings.ingress))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            response = await client.post("/v1/audio/speech", json=body | {"stream": False})
    assert response.status_code == 200, response.text
    return response.content


def piped(monkeypatch, data):
    """Bytes on stdin; returns where stdout's bytes go."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    return written


def test_samples_and_file_are_those_of_the_service(run, write_config, tmp_path):
    output = tmp_path / "hello.flac"
    controls = {"emotion": "开心", "speed": 1.2, "pitch": 1.0, "volume": 0.8, "sample_rate": 24000}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in controls.items()]
    code, out, err = run(
        "say", TEXT, "-o", output, *options, "--intensity", "1.3", "--voice", "demo", "--config", write_config(SETTINGS)
    )
    assert (code, err) == (0, "")
    assert out.startswith(f"{output}: {soundfile.info(output).duration:.2f} s at 24000 Hz, voice demo, happy; took ")
    body = controls | {"input": TEXT, "emotion_intensity": 1.3, "response_format": "flac"}
    assert output.read_bytes() == asyncio.run(posted(body))
    assert list(tmp_path.glob("*.flac*")) == [output]


def test_markup_from_stdin_to_stdout(monkeypatch, write_config):
    written = piped(monkeypatch, f"\ufeff{FRAGMENT}\n".encode())
    assert main(["say", "--ssml", "-o", "-", "--config", write_config(SETTINGS)]) == 0
    body = {"input": f"<speak>{FRAGMENT}</speak>", "response_format": "wav"}
    expected, said = (
        soundfile.read(io.BytesIO(data), dtype="int16")[0].astype(int)
        for data in (asyncio.run(posted(body)), written.getvalue())
    )
    assert len(said) == len(expected)
    assert abs(said - expected).max() <= 33  # of two segments, which share batches as it happens: the bound for batches


@pytest.mark.parametrize(
    ("arguments", "code", "names"),
    [
        (["-o", "x.wav", "--voice", "nobody"], "voice_not_found", "demo"),
        (["-o", "x.wav", "--emotion", "bored"], "emotion_not_found", "happy"),
        (["-o", "x.wav", "--speed", "9"], "invalid_request", "speed"),
        (["-o", "x.wav", "--speed", "nan"], "invalid_request", "speed"),
        (["-o", "x.wav", "--speed", "fast"], "invalid_request", "--speed"),
        (["-o", "x.wav", "--intensity", "0"], "invalid_request", "intensity"),
        (["-o", "x.wav", "--pitch", "-13"], "invalid_request", "pitch"),
        (["-o", "x.wav", "--volume", "-1"], "invalid_request", "volume"),
        (["-o", "x.wav", "--sample-rate", "11025"], "invalid_request", "sample_rate"),
        (["-o", "x.wav", "--format", "midi"], "invalid_request", "midi"),
        (["-o", "x.wav", "--loud"], "invalid_request", "--loud"),
        (["-o", "x.midi"], "invalid_request", ".midi"),
        (["-o", "x"], "invalid_request", "--format"),
        (["-o", "folder.wav"], "invalid_request", "folder"),
        (["-o", "missing/x.wav"], "invalid_request", "missing"),
        (["-o", "file.txt/x.wav"], "invalid_request", "file.txt"),
        (["-o", "x.wav", "-f", "file.txt"], "invalid_request", "one of them"),
        (["-o", "x.wav", "--config", "missing.yaml"], "configuration_invalid", "missing.yaml"),
        ([], "invalid_request", "-o"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_made(refused, tmp_path, monkeypatch, arguments, code, names):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "file.txt").write_text("您好", encoding="utf-8")
    exit_code, error_code, message = refused("say", "您好", *arguments)
    assert (exit_code, error_code) == (2, code)
    assert names in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.txt", "folder.wav"]


@pytest.mark.parametrize("text", ["", " \n"])
def test_no_text(refused, tmp_path, text):
    assert refused("say", text, "-o", tmp_path / "x.wav")[:2] == (2, "invalid_request")


@pytest.mark.parametrize(
    ("data", "names"), [(b"\xc4\xe3\xba\xc3", "UTF-8 (byte 0)"), (b"\n", "no text"), (None, "cannot be read")]
)
def test_texts_that_cannot_be_read(refused, tmp_path, data, names):
    file = tmp_path / "text.txt"
    if data is not None:
        file.write_bytes(data)
    code, error_code, message = refused("say", "-f", file, "-o", tmp_path / "x.wav")
    assert (code, error_code) == (2, "invalid_request")
    assert names in message


class Clauses(Tones):
    """Tones that know beforehand how many there will be."""

    async def analyse(self, text, voice, normalize):
        (segment,) = (await super().analyse(text, voice, normalize)).segments
        return TextAnalysis(normalized=text, segments=(segment,) * len(re.findall(r"\w+", text)))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stderr", "text", "shown"),
    [
        (Terminal, "一，二，三，四。", "0/4"),
        (Terminal, "一。", ""),
        (io.StringIO, "一，二，三，四。", ""),
    ],
)
async def test_a_bar_for_long_texts_on_a_terminal_only(monkeypatch, stderr, text, shown):
    monkeypatch.setattr(sys, "stderr", stderr())
    whole = await spoken(Clauses(), SpeechRequest(text=text, voice="demo"), "wav", IngressSettings())
    assert soundfile.info(io.BytesIO(whole.body)).duration == whole.duration_s
    written = sys.stderr.getvalue()
    assert shown in written if shown else written == ""


async def test_a_segment_that_fails_fails_the_answer():
    service = Tones()
    service.failure = SynthesisFailed("The model failed.")
    with pytest.raises(SynthesisFailed):
        await spoken(service, SpeechRequest(text="一，二，三。", voice="demo"), "wav", IngressSettings())
    assert service.closed.is_set()


def test_ctrl_c_leaves_nothing_behind(refused, tmp_path, monkeypatch):
    async def interrupted():
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(say, "_spoken", lambda *_: asyncio.run(interrupted()))
    assert refused("say", "您好", "-o", tmp_path / "x.wav")[:2] == (130, "interrupted")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_line(refused, tmp_path, monkeypatch):
    def whole(*_):
        return asyncio.run(spoken(Tones(), SpeechRequest(text="一。", voice="demo"), "wav", IngressSettings()))

    monkeypatch.setattr(say, "_spoken", whole)
    code, error_code, message = refused("say", "您好", "-o", "/dev/full", "--format", "wav")
    assert (code, error_code, message) == (1, "system_error", "No space left on device.")


def test_a_fault_of_ours_is_one_line_and_a_traceback_only_when_asked_for(run, refused, tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("no such number")

    monkeypatch.setattr(say, "_spoken", broken)
    code, error_code, message = refused("say", "您好", "-o", tmp_path / "x.wav")
    assert (code, error_code) == (1, "internal_error")
    assert "no such number" in message
    assert "Traceback" in run("say", "您好", "-o", tmp_path / "x.wav", "--verbose")[2]
