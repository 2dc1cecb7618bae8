import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from voice_files import make_voice, write_yaml

from deployments.errors import ConfigurationInvalid, VoiceInvalid, VoiceNotFound
from deployments.settings import VoiceSource, VoicesSettings
from deployments.voices.store import VoiceStore


def settings(
    *sources: str | Path | VoiceSource, default: str | None = None, cache: Path | None = None
) -> VoicesSettings:
    return VoicesSettings(
        sources=tuple(one if isinstance(one, VoiceSource) else VoiceSource(model=str(one)) for one in sources),
        default=default,
        cache_dir=str(cache or "/nonexistent/never-made"),
    )


def test_voices_of_all_sources_in_order(model: Path) -> None:
    store = VoiceStore.open(settings(model, "bundled"))
    assert store.names == ("zhiyan", "zhibei", "demo")
    assert store.default == "zhiyan"
    assert [info.is_default for info in store.infos] == [True, False, False]
    assert [info.model for info in store.infos] == [str(model), str(model), "bundled"]
    assert store.folder("zhibei").name == "zhibei"
    assert store.folder().name == store.folder(None).name == "zhiyan"
    assert [folder.name for folder in store.folders] == list(store.names)
    assert store.infos[1].fingerprint == store.folder("zhibei").fingerprint


def test_the_default_and_the_voices_of_a_source_can_be_chosen(model: Path) -> None:
    chosen = VoiceSource(model=str(model), voices=("zhibei",))
    store = VoiceStore.open(settings(chosen, "bundled", default="demo"))
    assert store.names == ("zhibei", "demo")
    assert store.default == "demo"
    assert [info.name for info in store.infos if info.is_default] == ["demo"]


def test_an_unknown_voice_lists_those_there_are(model: Path) -> None:
    store = VoiceStore.open(settings(model))
    with pytest.raises(VoiceNotFound) as raised:
        store.folder("../zhiyan")
    assert raised.value.message == "There is no voice '../zhiyan'. The voices are: zhiyan, zhibei."
    assert raised.value.param == "voice"


def test_a_default_that_is_not_served_is_refused(model: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"'demo', which no source has. Served are: zhiyan, zhibei\."):
        VoiceStore.open(settings(model, default="demo"))
    with pytest.raises(ConfigurationInvalid, match=r"voices\.default is ''"):
        VoiceStore.open(settings(model, default=""))


def test_no_voice_left_is_refused(model: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="serve no voice"):
        VoiceStore.open(settings(VoiceSource(model=str(model), voices=())))


def test_a_name_in_two_sources_is_refused_naming_both(model: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(model, tmp_path / "copy")
    with pytest.raises(ConfigurationInvalid) as raised:
        VoiceStore.open(settings(model, copy))
    assert str(model / "voices/zhiyan") in raised.value.message
    assert str(copy / "voices/zhiyan") in raised.value.message
    both = VoiceSource(model=str(model), voices=("zhiyan",)), VoiceSource(model=str(copy), voices=("zhibei",))
    assert VoiceStore.open(settings(*both)).names == ("zhiyan", "zhibei")


def test_a_voice_that_a_source_lacks_is_refused(model: Path) -> None:
    with pytest.raises(VoiceInvalid, match=r"has no voice 'zhimeng'\. Its voices: zhiyan, zhibei"):
        VoiceStore.open(settings(VoiceSource(model=str(model), voices=("zhimeng",))))


def test_every_fault_shows_when_the_store_opens(model: Path) -> None:
    (model / "voices/zhibei/am/ckpt/checkpoint_90.pth").write_bytes(b"")
    with pytest.raises(VoiceInvalid, match=r"zhibei/am/ckpt/checkpoint_90\.pth"):
        VoiceStore.open(settings(model))


@pytest.mark.parametrize(
    "path", ["/nowhere/model", "./nowhere", "../nowhere/model", "~/nowhere/model", "~nobody-here/model", "."]
)
def test_what_looks_like_a_path_never_goes_to_the_hub(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "deployments.voices.download", None)  # importing it would raise
    with pytest.raises(VoiceInvalid, match=r"There is no folder|is no model folder"):
        VoiceStore.open(settings(path, cache=tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_home_and_relative_paths_are_found(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(model.parent))
    assert VoiceStore.open(settings("~/model")).folder().path == model / "voices/zhiyan"
    monkeypatch.chdir(model.parent)
    for relative in ("model", "./model", "model/../model"):
        assert VoiceStore.open(settings(relative)).folder().path == model / "voices/zhiyan"


def test_an_existing_folder_wins_over_a_model_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_voice(tmp_path / "owner/name/voices/zhiyan")
    monkeypatch.chdir(tmp_path)
    assert VoiceStore.open(settings("owner/name")).names == ("zhiyan",)


@pytest.mark.parametrize(
    "text", ["", "zhiyan", "a/b/c", "owner/", "https://example.org/a/b", "a b/c", "-x/y", "a/..", "a/b\n"]
)
def test_what_is_neither_folder_nor_id_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VoiceInvalid, match=re.escape("is neither a folder nor a model id")):
        VoiceStore.open(settings(text, cache=tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_opening_local_voices_imports_neither_modelscope_nor_torch(model: Path) -> None:
    write_yaml(model / "voices/zhiyan/card.yaml", {"license": "MIT"})
    sources = VoicesSettings(sources=(VoiceSource(model=str(model)), VoiceSource(model="bundled")))
    code = (
        "import json, sys\n"
        "from deployments.settings import VoicesSettings\n"
        "from deployments.voices.store import VoiceStore\n"
        "store = VoiceStore.open(VoicesSettings.model_validate_json(sys.argv[1]))\n"
        "heavy = {'torch', 'modelscope', 'modelscope_hub', 'ray', 'requests'} & sys.modules.keys()\n"
        "print(json.dumps([store.names, sorted(heavy)]))\n"
    )
    arguments = [sys.executable, "-c", code, sources.model_dump_json()]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [["zhiyan", "zhibei", "demo"], []]
