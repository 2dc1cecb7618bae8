"""The real modelscope client against a stand-in hub on the loopback interface."""

import io
import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stand_in_hub import Hub

from deployments.errors import VoiceInvalid
from deployments.settings import VoiceSource, VoicesSettings
from deployments.voices.download import download_model, is_complete
from deployments.voices.store import VoiceStore

MODEL = "damo/speech_sambert-hifigan_tts_zh-cn_16k"
CHECKPOINT = "voices/zhiyan/am/ckpt/checkpoint_90.pth"


@pytest.fixture(scope="module", autouse=True)
def _client() -> None:
    with warnings.catch_warnings():  # what modelscope warns of when it is imported is not ours to mend
        warnings.simplefilter("ignore")
        import modelscope.hub.snapshot_download  # noqa: F401


@pytest.fixture
def hub(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that has the model folder under MODEL at revisions master and v1.0.5; the client's retries are short."""
    files = {path.relative_to(model).as_posix(): path.read_bytes() for path in model.rglob("*") if path.is_file()}
    files |= {"configuration.json": b"{}", "README.md": b"# voices", "resource.zip": b"PK\x03\x04" + bytes(1000)}
    files |= {"voices/zhiyan/se/ckpt/se.onnx": b"onnx"}
    monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "must-stay-empty"))
    monkeypatch.setattr("modelscope_hub.config._default_config", None)
    monkeypatch.setattr("modelscope_hub._legacy_api.REPO_TREE_PAGE_MAX_ATTEMPTS", 1)
    monkeypatch.setattr("modelscope_hub._download.DOWNLOAD_INTEGRITY_RETRY_BACKOFF", 0.0)
    monkeypatch.setattr("modelscope_hub._download.DOWNLOAD_RETRY_TIMES", 1)
    with Hub() as stand_in:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", stand_in.address)
        stand_in.repositories[MODEL, "master"] = files
        stand_in.repositories[MODEL, "v1.0.5"] = files | {"configuration.json": b'{"pinned": 1}'}
        yield stand_in


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def refused(cache: Path, model: str = MODEL, revision: str | None = None) -> str:
    with pytest.raises(VoiceInvalid) as raised:
        download_model(model, revision, cache)
    assert raised.value.param == "voices.sources"
    assert repr(model) in raised.value.message
    return raised.value.message


def test_a_model_id_becomes_voices_and_starts_offline_afterwards(hub: Hub, cache: Path, tmp_path: Path) -> None:
    settings = VoicesSettings(sources=(VoiceSource(model=MODEL),), cache_dir=str(cache))
    store = VoiceStore.open(settings)
    assert store.names == ("zhiyan", "zhibei")
    assert store.folder().model == MODEL
    folder = store.folder().path.parents[1]
    assert folder.parent == cache
    wanted = {name for name in hub.repositories[MODEL, "master"] if name.startswith("voices/") and ".onnx" not in name}
    assert hub.downloads.keys() == wanted | {"configuration.json"}  # no zip, no README, no speaker encoder
    assert set(hub.downloads.values()) == {1}
    assert not list(cache.rglob("*.zip"))
    # All of it lies in our cache, the client's locks too.
    assert not [path for path in (tmp_path / "must-stay-empty").rglob("*") if path.is_file()]
    asked = hub.asked
    again = VoiceStore.open(settings)
    assert again.infos == store.infos
    assert hub.asked == asked


def test_a_revision_is_pinned_and_has_its_own_folder(hub: Hub, cache: Path) -> None:
    pinned = download_model(MODEL, "v1.0.5", cache)
    latest = download_model(MODEL, None, cache)
    assert (pinned / "configuration.json").read_text() == '{"pinned": 1}'
    assert (latest / "configuration.json").read_text() == "{}"
    assert pinned != latest
    hub.repositories[MODEL, "../feature/x"] = hub.repositories[MODEL, "master"]
    assert download_model(MODEL, "../feature/x", cache).parent == cache


def test_an_unknown_model_or_revision_is_named_with_the_fix(hub: Hub, cache: Path) -> None:
    for model, revision in (("damo/nothing", None), (MODEL, "v9")):
        message = refused(cache, model, revision)
        assert f"(revision {revision or 'default'})" in message
        assert "the hub has no such model or revision. Mend its spelling in voices.sources" in message


@pytest.mark.parametrize("status", ["401", "403"])
def test_a_private_model_asks_for_a_token(hub: Hub, cache: Path, status: str) -> None:
    hub.faults["listing"] = [status]
    assert "Set MODELSCOPE_API_TOKEN to a token that may read it" in refused(cache)


@pytest.mark.parametrize("status", ["500", "503"])
def test_a_hub_out_of_order_is_named(hub: Hub, cache: Path, status: str) -> None:
    hub.faults["listing"] = [status]
    assert "the hub cannot be reached. Check network and proxy" in refused(cache)


def test_no_network_is_named(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hub() as gone:
        address = gone.address
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", address)
    assert "the hub cannot be reached. Check network and proxy" in refused(cache)


def test_a_connection_that_breaks_is_resumed_where_it_broke(hub: Hub, cache: Path) -> None:
    size = len(hub.repositories[MODEL, "master"][CHECKPOINT])
    hub.faults[CHECKPOINT] = ["cut"]
    folder = download_model(MODEL, None, cache)
    assert (folder / CHECKPOINT).read_bytes() == hub.repositories[MODEL, "master"][CHECKPOINT]
    assert hub.ranges == [f"{CHECKPOINT} bytes={size // 2}-"]


def test_a_download_that_failed_is_taken_up_at_the_next_start(hub: Hub, cache: Path) -> None:
    size = len(hub.repositories[MODEL, "master"][CHECKPOINT])
    hub.faults[CHECKPOINT] = ["cut", "cut"]  # once more than the client retries
    message = refused(cache)
    assert "Check network and proxy and start again (the download goes on where it ended)" in message
    (folder,) = (path for path in cache.iterdir() if path.is_dir() and "@" in path.name)
    assert not is_complete(folder)
    hub.downloads.clear()
    assert download_model(MODEL, None, cache) == folder
    assert hub.downloads == {CHECKPOINT: 1}
    assert hub.ranges[-1] == f"{CHECKPOINT} bytes={size // 2 + (size - size // 2) // 2}-"
    assert (folder / CHECKPOINT).read_bytes() == hub.repositories[MODEL, "master"][CHECKPOINT]


def test_a_file_that_arrives_damaged_is_asked_for_again_and_then_refused(hub: Hub, cache: Path) -> None:
    hub.faults[CHECKPOINT] = ["corrupt"]
    folder = download_model(MODEL, None, cache)
    assert (folder / CHECKPOINT).read_bytes() == hub.repositories[MODEL, "master"][CHECKPOINT]
    hub.faults[CHECKPOINT] = ["corrupt"] * 10
    message = refused(cache, revision="v1.0.5")
    assert "a file arrived damaged. Start again: only that file is downloaded anew" in message
    assert not [path for path in cache.rglob("checkpoint_90.pth") if "v1.0.5" in str(path) and "zhiyan" in str(path)]


def test_a_file_shorter_than_listed_is_refused(hub: Hub, cache: Path) -> None:
    hub.faults[CHECKPOINT] = ["short"] * 10
    assert "a file arrived damaged" in refused(cache)


def test_a_full_disk_is_named(hub: Hub, cache: Path) -> None:
    folder = cache / f"{MODEL.replace('/', '--')}@default"
    (folder / CHECKPOINT).parent.mkdir(parents=True)
    (folder / f"{CHECKPOINT}.incomplete").symlink_to("/dev/full")
    message = refused(cache)
    assert f"the disk of {folder} is full. Free space or set voices.cache_dir to another disk" in message


def test_a_cache_folder_that_cannot_be_made_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = refused(tmp_path / "file" / "cache")
    assert "cannot be written. Mend its permissions or set voices.cache_dir to another folder" in message


def test_a_model_of_another_kind_is_refused(hub: Hub, cache: Path) -> None:
    hub.repositories["damo/nlp", "master"] = {"configuration.json": b"{}", "pytorch_model.bin": b"x"}
    for _ in range(2):  # it is no complete voice model the second time either
        assert "has no folder voices/; it is no Sambert-HifiGan model" in refused(cache, "damo/nlp")


def test_a_listing_that_climbs_out_of_the_folder_is_not_followed(hub: Hub, cache: Path, tmp_path: Path) -> None:
    evil = {"voices/../../evil.txt": b"x", "voices/../../../evil.txt": b"x", "../evil.txt": b"x", "/evil.txt": b"x"}
    hub.repositories[MODEL, "master"] = evil | hub.repositories[MODEL, "master"]
    download_model(MODEL, None, cache)
    assert not list(tmp_path.rglob("evil.txt"))
    assert not [name for name in hub.downloads if "evil" in name]


@pytest.mark.parametrize("damage", ["gone", "grown", "marker"])
def test_a_folder_that_lost_a_file_is_mended(hub: Hub, cache: Path, damage: str) -> None:
    folder = download_model(MODEL, None, cache)
    assert is_complete(folder)
    if damage == "gone":
        (folder / CHECKPOINT).unlink()
    elif damage == "grown":
        (folder / CHECKPOINT).write_bytes((folder / CHECKPOINT).read_bytes() + b"x")
    else:
        (folder / ".complete.json").write_text("{")
    assert not is_complete(folder)
    hub.downloads.clear()
    assert download_model(MODEL, None, cache) == folder
    assert is_complete(folder)
    assert hub.downloads == ({} if damage == "marker" else {CHECKPOINT: 1})
    assert (folder / CHECKPOINT).read_bytes() == hub.repositories[MODEL, "master"][CHECKPOINT]


def test_replicas_that_start_together_download_once(hub: Hub, cache: Path) -> None:
    hub.released.clear()
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(download_model, MODEL, None, cache) for _ in range(4)]
        assert hub.started.wait(30)
        hub.released.set()
        folders = {future.result(timeout=60) for future in running}
    assert len(folders) == 1
    assert hub.listings == 1
    assert set(hub.downloads.values()) == {1}


def test_a_process_waits_for_another_that_downloads(hub: Hub, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = f"{MODEL.replace('/', '--')}@default"
    cache.mkdir()
    code = (
        "import sys, filelock\n"
        "with filelock.FileLock(sys.argv[1]):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", code, str(cache / f"{name}.lock")]
    finished = threading.Event()
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO):
            patch.setattr("deployments.voices.download._LOCK_NOTICE_S", 0.05)
            waiting = pool.submit(download_model, MODEL, None, cache)
            waiting.add_done_callback(lambda _: finished.set())
            assert not finished.wait(0.3)
            assert hub.asked == 0
            other.stdin.close()
            assert waiting.result(timeout=60) == cache / name
    assert "Another process is downloading into" in caplog.text


def test_a_log_gets_lines_and_no_bars(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from modelscope_hub import _download as hub_download

    bars = hub_download.tqdm
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with caplog.at_level(logging.INFO, "deployments.voices.download"):
        download_model(MODEL, None, cache)
    assert f"Downloading {MODEL} (revision default) into {cache}" in caplog.text
    assert f"{CHECKPOINT}: complete, " in caplog.text
    assert "is complete: " in caplog.text
    assert "it/s" not in stderr.getvalue()
    assert "B/s" not in stderr.getvalue()
    assert hub_download.tqdm is bars


def test_a_terminal_gets_a_progress_bar(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    with caplog.at_level(logging.INFO, "deployments.voices.download"):
        download_model(MODEL, None, cache)
    assert "Downloading: 100%" in stderr.getvalue()
    assert f"{CHECKPOINT}: " not in caplog.text


def test_progress_is_logged_by_tenths(caplog: pytest.LogCaptureFixture) -> None:
    from deployments.voices.download import _ProgressLog

    with caplog.at_level(logging.INFO):
        progress = _ProgressLog("a.pth", 10 * 2**20)
        for _ in range(1000):
            progress.update(10 * 2**20 // 1000 + 1)
        progress.end()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "a.pth: 10 % of 10.0 MiB."
    assert lines[-1] == "a.pth: complete, 10.0 MiB."
    assert len(lines) == 10


def test_without_modelscope_the_fix_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modelscope.hub.snapshot_download", None)
    message = refused(cache)
    assert "pip install modelscope" in message
    assert "copy the model folder to this machine" in message


def test_the_marker_says_what_was_downloaded(hub: Hub, cache: Path) -> None:
    folder = download_model(MODEL, "v1.0.5", cache)
    marker = json.loads((folder / ".complete.json").read_text())
    assert (marker["model"], marker["revision"]) == (MODEL, "v1.0.5")
    assert marker["files"][CHECKPOINT] == len(hub.repositories[MODEL, "v1.0.5"][CHECKPOINT])
