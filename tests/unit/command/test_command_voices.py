"""`sambert-serve voices`: what is offered, fetched and whole."""

import json
import shutil
from importlib import resources
from pathlib import Path

import pytest

BUNDLED = Path(str(resources.files("deployments.voices").joinpath("bundled")))
MODEL = "owner/some_voices"


@pytest.fixture
def copy(tmp_path):
    """A copy of the bundled voice under another name."""
    folder = tmp_path / "model"
    shutil.copytree(BUNDLED, folder)
    (folder / "voices/demo").rename(folder / "voices/copy")
    (folder / "voices/voices.json").write_text('{"voices": ["copy"]}', encoding="utf-8")
    return folder


@pytest.fixture
def config(copy, write_config, tmp_path):
    """The copy, the bundled voice, and a model that is not downloaded."""
    sources = [{"model": str(copy)}, {"model": "bundled"}, {"model": MODEL, "revision": "v2"}]
    return write_config({"voices": {"sources": sources, "default": "demo", "cache_dir": str(tmp_path / "cache")}})


def test_list(run, config, copy):
    code, out, err = run("voices", "list", "--config", config)
    heading, *rows = [line.split() for line in out.splitlines()]
    assert heading == ["VOICE", "LANGUAGE", "HZ", "LICENSE", "EMOTIONS", "MODEL"]
    assert [row[0] for row in rows] == ["copy", "demo"]
    assert rows[1][1] == "(default)"
    assert [row[-1] for row in rows] == [str(copy), "bundled"]
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.endswith(f"{MODEL}@v2 is not downloaded yet. Run: sambert-serve voices download {MODEL}@v2\n")


def test_list_as_json(run):
    code, out, err = run("voices", "list", "--json")
    assert (code, err) == (0, "")
    (voice,) = json.loads(out)["voices"]
    assert (voice["id"], voice["default"], voice["sample_rate"]) == ("demo", True, 16000)


def test_verify_tells_of_every_voice(run, config, copy):
    code, out, err = run("voices", "verify", "--config", config)
    assert code == 1
    assert [line.split(":")[0] for line in out.splitlines()] == ["copy", "demo"]
    assert MODEL in err
    checkpoint = next((copy / "voices/copy/voc/ckpt").iterdir())
    checkpoint.write_bytes(checkpoint.read_bytes()[:10_000])
    code, out, err = run("voices", "verify", "--config", config)
    assert [line.split(":")[0] for line in out.splitlines()] == ["demo"]
    first, second = err.splitlines()
    assert first.startswith(f"sambert-serve: voice_invalid: {checkpoint} is truncated or damaged")
    assert MODEL in second


def test_verify_of_a_folder(run, copy):
    code, out, err = run("voices", "verify", copy)
    assert (code, out, err) == (0, f"copy: whole ({copy / 'voices/copy'})\n", "")


def test_weights_of_another_network_are_found(run, copy):
    """A checkpoint that is whole and safe, but not of this network: only loading it tells."""
    acoustic = next((copy / "voices/copy/am/ckpt").iterdir())
    vocoder = next((copy / "voices/copy/voc/ckpt").iterdir())
    shutil.copy(vocoder, acoustic)
    code, out, err = run("voices", "verify", copy)
    assert (code, out) == (1, "")
    assert str(acoustic) in err


def test_names_that_come_twice(refused, run, write_config, tmp_path):
    shutil.copytree(BUNDLED, tmp_path / "model")
    config = write_config({"voices": {"sources": [{"model": "bundled"}, {"model": str(tmp_path / "model")}]}})
    code, _, err = run("voices", "verify", "--config", config)
    assert code == 2
    assert "configuration_invalid" in err


def test_download_of_what_is_complete_asks_nobody(run, copy, tmp_path, write_config):
    cache = tmp_path / "cache"
    folder = cache / "owner--some_voices@v2"
    shutil.copytree(copy, folder)
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    (folder / ".complete.json").write_text(json.dumps({"files": sizes}), encoding="utf-8")
    config = write_config({"voices": {"cache_dir": str(cache)}})
    code, out, err = run("voices", "download", f"{MODEL}@v2", "bundled", "--config", config)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"{MODEL}@v2: {folder}", "  voices: copy", f"bundled: {BUNDLED}", "  voices: demo"]


@pytest.mark.parametrize(
    ("command", "model"), [("download", "nothing"), ("download", "a/b@"), ("verify", "/missing"), ("verify", "a/b")]
)
def test_what_is_not_there(refused, write_config, tmp_path, command, model):
    config = write_config({"voices": {"cache_dir": str(tmp_path)}})
    code, error_code, message = refused("voices", command, model, "--config", config)
    assert (code, error_code) == (1, "voice_invalid")
    assert model in message


def test_a_config_is_needed_where_it_is_named(refused, tmp_path):
    path = tmp_path / "serve.yaml"
    for content in ("a: [", "applications: 3", "applications: [{import_path: 'other:app'}]"):
        path.write_text(content, encoding="utf-8")
        assert refused("voices", "list", "--config", path)[:2] == (2, "configuration_invalid")
