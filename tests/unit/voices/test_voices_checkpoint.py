import os
import pickle
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from deployments.errors import VoiceInvalid
from deployments.voices import archive
from deployments.voices.checkpoint import explain_mismatch, read_tensors

STATE = {"encoder.weight": torch.arange(6.0).reshape(2, 3), "encoder.bias": torch.ones(2)}


class Code:
    """Unpickling this runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def saved(path: Path, content: Any, *, zipped: bool = True) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    return path


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes], method: int) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return target


def refused(path: Path, *keys: str) -> str:
    with pytest.raises(VoiceInvalid) as raised:
        read_tensors(path, *keys)
    assert str(path) in raised.value.message
    assert raised.value.param == str(path)
    assert "weights_only" not in raised.value.message  # torch recommends to switch its guard off
    return raised.value.message


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("keys", [(), ("model",), ("model", "generator")])
def test_tensors_come_back_from_wherever_they_lie(tmp_path: Path, keys: tuple[str, ...], zipped: bool) -> None:
    content: Any = STATE
    for key in reversed(keys):
        content = {key: content, "steps": 3}
    path = saved(tmp_path / "checkpoint_3.pth", content, zipped=zipped)
    archive.check(path)
    tensors = read_tensors(path, *keys)
    assert list(tensors) == list(content) if not keys else list(tensors) == list(STATE)
    for name, value in STATE.items():
        assert tensors[name].dtype == torch.float32
        torch.testing.assert_close(tensors[name], value, rtol=0, atol=0)


def test_half_precision_becomes_float32_and_whole_numbers_stay(tmp_path: Path) -> None:
    state = {
        "half": torch.tensor([0.1, 65504.0]).half(),
        "double": torch.tensor([0.25], dtype=torch.float64),
        "brain": torch.tensor([1.5]).bfloat16(),
        "count": torch.tensor([7]),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    tensors = read_tensors(saved(tmp_path / "c.pth", {"model": state}), "model")
    assert {name: str(tensor.dtype) for name, tensor in tensors.items()} == {
        "half": "torch.float32",
        "double": "torch.float32",
        "brain": "torch.float32",
        "count": "torch.int64",
        "parameter": "torch.float32",
    }
    assert tensors["half"].tolist() == [float(np.float16(0.1)), 65504.0]
    assert not tensors["parameter"].requires_grad


@pytest.mark.parametrize("module", ["numpy._core.multiarray", "numpy.core.multiarray"])
def test_numpy_numbers_of_an_optimizer_state_are_read_and_the_allow_list_stays(tmp_path: Path, module: str) -> None:
    numbers = [np.float64(0.5), np.float32(1.5), np.int64(3), np.int32(4), np.bool_(True)]
    path = saved(tmp_path / "new.pth", {"model": STATE, "optimizer": {"state": {0: numbers}, "lr": np.float64(1e-3)}})
    path = rewritten(
        path,
        tmp_path / "c.pth",
        lambda name, data: data.replace(b"cnumpy._core.multiarray\n", f"c{module}\n".encode()),
        zipfile.ZIP_STORED,
    )
    with zipfile.ZipFile(path) as opened:
        pickled = next(opened.read(name) for name in opened.namelist() if name.endswith("data.pkl"))
    assert f"c{module}\nscalar".encode() in pickled
    archive.check(path)
    before = set(torch.serialization.get_safe_globals())
    assert read_tensors(path, "model").keys() == STATE.keys()
    assert set(torch.serialization.get_safe_globals()) == before


def test_threads_read_at_once(tmp_path: Path) -> None:
    path = saved(tmp_path / "c.pth", {"model": STATE, "loss": np.float64(0.5)})
    before = set(torch.serialization.get_safe_globals())
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: read_tensors(path, "model"), range(32)))
    assert all(result.keys() == STATE.keys() for result in results)
    assert set(torch.serialization.get_safe_globals()) == before


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_is_refused_and_does_not_run(tmp_path: Path, zipped: bool) -> None:
    ran = tmp_path / "ran"
    path = saved(tmp_path / "c.pth", {"model": STATE, "extra": Code(f"touch {ran}")}, zipped=zipped)
    message = refused(path, "model")
    assert "holds code" in message
    assert "system" in message
    assert "Take the file from its publisher" in message
    assert not ran.exists()
    if zipped:
        with pytest.raises(VoiceInvalid, match=r"holds code or objects \(posix\.system\)"):
            archive.check(path)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_bare_pickle_with_code_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    ran = tmp_path / "ran"
    path = tmp_path / "c.pth"
    path.write_bytes(pickle.dumps({"model": Code(f"touch {ran}")}, protocol=protocol))
    refused(path, "model")
    with pytest.raises(VoiceInvalid, match="is no torch checkpoint"):
        archive.check(path)
    assert not ran.exists()


@pytest.mark.parametrize(
    "thing",
    [
        np.arange(3),  # an array may hold objects; only numbers are allowed
        np.array(["a"], dtype=object)[:1],
        Path("/etc/passwd"),
        slice(3),
        torch.nn.Linear(2, 2),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_objects_beyond_weights_and_numbers_are_refused(tmp_path: Path, thing: Any) -> None:
    message = refused(saved(tmp_path / "c.pth", {"model": STATE, "extra": thing}), "model")
    assert "holds code or objects" in message


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float, zipped: bool) -> None:
    path = saved(tmp_path / "c.pth", {"model": STATE, "more": torch.ones(1000)}, zipped=zipped)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    message = refused(path, "model")
    assert "truncated" in message
    assert "download it again" in message
    if zipped or share < 0.01:
        with pytest.raises(VoiceInvalid, match="Delete the file and download it again"):
            archive.check(path)


@pytest.mark.parametrize("content", [b"not a model\n", b"\x89PNG\r\n\x1a\n" + bytes(64), b"version https://git-lfs"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.pth"
    path.write_bytes(content)
    assert "not a torch checkpoint" in refused(path, "model")
    with pytest.raises(VoiceInvalid, match="is no torch checkpoint"):
        archive.check(path)


def test_another_zip_and_a_packed_checkpoint_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.pth"
    with zipfile.ZipFile(other, "w") as opened:
        opened.writestr("readme.txt", "hello")
    assert "not a torch checkpoint" in refused(other, "model")
    with pytest.raises(VoiceInvalid, match="a zip file but no torch checkpoint"):
        archive.check(other)
    bomb = rewritten(
        saved(tmp_path / "c.pth", {"model": {"w": torch.zeros(10**6)}}),
        tmp_path / "packed.pth",
        lambda name, data: data,
        zipfile.ZIP_DEFLATED,
    )
    assert bomb.stat().st_size < 10_000
    with pytest.raises(VoiceInvalid, match="was packed again"):
        archive.check(bomb)


def test_a_flipped_name_in_the_pickle_is_refused(tmp_path: Path) -> None:
    path = rewritten(
        saved(tmp_path / "old.pth", {"model": STATE}),
        tmp_path / "c.pth",
        lambda name, data: data[:-20] if name.endswith("data.pkl") else data,
        zipfile.ZIP_STORED,
    )
    refused(path, "model")
    with pytest.raises(VoiceInvalid, match="truncated or damaged"):
        archive.check(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "is missing" in refused(tmp_path / "checkpoint_1.pth", "model")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"state": STATE}, "has no 'model' (found: state)"),
        ({"model": STATE}, "has no 'model -> generator' (found: encoder.bias, encoder.weight)"),
        ({"model": [1, 2]}, "has no 'model -> generator' (found: list)"),
        ([STATE], "has no 'model' (found: list)"),
        ({"model": {"generator": {}}}, "model -> generator holds no tensors"),
        ({"model": {"generator": 3}}, "model -> generator holds no tensors"),
        ({"model": {"generator": {"w": [1.0]}}}, "'w' is a list, not a tensor"),
        ({"model": {"generator": {"w": torch.tensor([1.0, float("nan")])}}}, "'w' holds values that are not finite"),
        ({"model": {"generator": {"w": torch.tensor([float("inf")])}}}, "'w' holds values that are not finite"),
        ({"model": {"generator": {"w": torch.eye(3).to_sparse()}}}, "'w' is sparse, quantized or without data"),
        ({"model": {"generator": {"w": torch.zeros(1, device="meta")}}}, "'w' is sparse, quantized or without data"),
        ({"model": {"generator": {"w": torch.ones(2, dtype=torch.complex64)}}}, "'w' holds complex numbers"),
    ],
)
def test_what_is_not_the_expected_state_dict_is_refused(tmp_path: Path, content: Any, said: str) -> None:
    assert said in refused(saved(tmp_path / "c.pth", content), "model", "generator")


def test_a_view_that_claims_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "c.pth", {"model": {"w": torch.zeros(1, dtype=torch.half).expand(10**12)}})
    assert path.stat().st_size < 10_000
    assert "'w' claims more elements than the file holds" in refused(path, "model")


def test_a_mismatch_names_the_file_the_first_tensors_and_the_fix() -> None:
    error = explain_mismatch(
        Path("am/ckpt/checkpoint_5.pth"), ["a", "b", "c", "d"], ["x"], ["emb: [36, 8] in the file, [37, 8] expected"]
    )
    assert error.message == (
        "am/ckpt/checkpoint_5.pth does not fit the config.yaml beside it: 4 tensors missing (a, b, c, ...); "
        "1 tensors not known (x); 1 tensors of another shape (emb: [36, 8] in the file, [37, 8] expected). "
        "Take checkpoint and config.yaml from the same download of the voice."
    )
    assert error.param == "am/ckpt/checkpoint_5.pth"
