import json
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from deployments import voices
from deployments.errors import ConfigurationInvalid
from deployments.settings import VocoderSettings
from deployments.vocoder.backends import choice
from deployments.vocoder.backends.base import Backend
from deployments.vocoder.backends.builder import Builder
from deployments.vocoder.backends.choice import Chooser, Runtime
from deployments.vocoder.backends.fused import FusedHifiGan
from deployments.vocoder.backends.memory import TrialMemory
from deployments.vocoder.backends.onnxruntime import providers_for
from deployments.vocoder.backends.probe import probe_of
from deployments.vocoder.checkpoint import config_of, load_generator
from deployments.vocoder.hifigan import HifiGan, HifiGanConfig
from deployments.vocoder.plan import plan_of
from deployments.voices.folder import VoiceFolder, open_model

AnyFolder = Callable[[str], VoiceFolder]
LENGTHS = (64, 96)
ON_CPU = [runtime.name for runtime in choice.RUNTIMES if "cpu" in runtime.devices]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


TINY = {
    "in_channels": 80,
    "channels": 16,
    "kernel_size": 7,
    "upsample_scales": [10, 2],
    "upsample_kernal_sizes": [20, 4],
    "resblock_kernel_sizes": [3],
    "resblock_dilations": [[1, 3]],
}
KINDS = {
    "tiny causal": {**TINY, "causal": True},
    "tiny causal nsf": {**TINY, "causal": True, "nsf_params": {"nb_harmonics": 7, "sampling_rate": 16000}},
    "tiny nsf": {**TINY, "causal": False, "nsf_params": {"nb_harmonics": 7, "sampling_rate": 16000}},
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], VoiceFolder]:
    """Voices with few layers, so that runtimes start quickly."""
    root = tmp_path_factory.mktemp("voices")
    bundled = open_model(Path(voices.__file__).parent / "bundled", "bundled")[0]
    folders = {"demo": bundled}
    for kind, params in KINDS.items():
        torch.manual_seed(4)
        path = root / f"{kind}.pth"
        torch.save({"model": {"generator": HifiGan(config_of(params)).state_dict()}}, path)
        folders[kind] = replace(bundled, name=kind, vocoder_params=params, vocoder_checkpoint=path, hop_samples=20)
    return folders.__getitem__


@pytest.fixture
def settings(tmp_path: Path) -> VocoderSettings:
    return VocoderSettings(trial_s=0.01, runtime_cache_dir=str(tmp_path / "cache"), warm_up=False)


def with_(settings: VocoderSettings, **changes: object) -> VocoderSettings:
    return settings.model_copy(update=changes)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("scales", [((8, 5, 3, 2), (16, 10, 6, 4)), ((10, 5, 2, 2), (20, 11, 4, 4)), ((3,), (3,))])
def test_the_plan_is_the_network(scales: tuple[tuple[int, ...], tuple[int, ...]], causal: bool) -> None:
    torch.manual_seed(1)
    config = HifiGanConfig(
        in_channels=5,
        channels=32,
        kernel_size=7,
        upsample_scales=scales[0],
        upsample_kernel_sizes=scales[1],
        resblock_kernel_sizes=(3, 5),
        resblock_dilations=((1, 2), (1, 3)),
        negative_slope=0.1,
        causal=causal,
        num_harmonics=3 if causal or scales[0][0] != 8 else 0,
    )
    generator = HifiGan(config).double().requires_grad_(False)
    plan = plan_of(generator.float())
    probe = probe_of(generator, 20, "cpu")
    others = [probe.mask_B1F] if probe.excitation_B1S is None else [probe.mask_B1F, probe.excitation_B1S]
    made_BS = FusedHifiGan(plan, is_masked=True)(probe.mel_BMF, *others)
    audible_BS = probe.mask_B1F[:, 0].repeat_interleave(config.hop_samples, dim=1)
    torch.testing.assert_close(made_BS * audible_BS, probe.wave_BS, rtol=0, atol=2e-6)
    full_BS = FusedHifiGan(plan, is_masked=False)(probe.mel_BMF[:1], *[other[:1] for other in others[1:]])
    torch.testing.assert_close(full_BS, probe.wave_BS[:1], rtol=0, atol=2e-6)
    assert probe.end < 20
    assert not probe.wave_BS[1, probe.end * config.hop_samples :].any()
    assert probe.wave_BS.abs().max() > 0.01


@pytest.mark.parametrize("name", ON_CPU)
@pytest.mark.parametrize("kind", ["demo", *KINDS])
def test_every_runtime_agrees_with_eager_torch(
    name: str, kind: str, tiny: AnyFolder, settings: VocoderSettings
) -> None:
    generator = load_generator(tiny(kind))
    backend = Chooser(with_(settings, backend=name), "cpu").choose(tiny(kind), generator, LENGTHS)
    assert backend.name == name
    for frames in (96, 64, 96):  # a length comes back after another
        assert probe_of(generator, frames, "cpu").difference(backend) < 1e-5


def test_runtimes_take_any_length_or_a_mask(tiny: AnyFolder, settings: VocoderSettings) -> None:
    folder = tiny("tiny nsf")
    kinds = {name: choose(with_(settings, backend=name), folder).any_length for name in ON_CPU}
    assert kinds == {"torch": True, "torchscript": True, "onnxruntime": True, "openvino": False}


class Counting(Builder):
    """Counts what is built and timed."""

    built: ClassVar[list[str]] = []
    timed: ClassVar[list[str]] = []

    def checked(self, name: str) -> Backend:
        self.built.append(name)
        return super().checked(name)

    def times_s(self, backends):
        self.timed.extend(backends)
        return super().times_s(backends)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[Counting]:
    monkeypatch.setattr(choice, "Builder", Counting)
    Counting.built, Counting.timed = [], []
    return Counting


def choose(settings: VocoderSettings, folder: VoiceFolder) -> Backend:
    return Chooser(settings, "cpu").choose(folder, load_generator(folder), LENGTHS)


def test_auto_times_what_fits_once_and_remembers_it(
    tiny: AnyFolder, settings: VocoderSettings, counting: type[Counting]
) -> None:
    first = choose(settings, tiny("tiny nsf"))
    assert counting.timed == ON_CPU
    kept = json.loads((Path(settings.runtime_cache_dir) / "runtime.json").read_text())
    (entry,) = kept.values()
    assert entry["backend"] == first.name == min(entry["times_ms"], key=entry["times_ms"].get)
    counting.built.clear()
    assert choose(settings, tiny("tiny nsf")).name == first.name
    assert counting.built == [first.name]
    choose(with_(settings, threads=2), tiny("tiny nsf"))  # another number of threads is another trial
    assert len(counting.timed) == 2 * len(ON_CPU)


def test_the_result_lies_beside_a_downloaded_model(tiny: AnyFolder, settings: VocoderSettings, tmp_path: Path) -> None:
    (tmp_path / "voice" / "voc").mkdir(parents=True)
    folder = replace(tiny("tiny causal"), model="some/model", path=tmp_path / "voice")
    choose(settings, folder)
    assert (tmp_path / "voice" / "voc" / "runtime.json").is_file()
    assert not Path(settings.runtime_cache_dir).exists()


@pytest.mark.parametrize("content", ["", "[]", "not json", '{"KEY": 3}', '{"KEY": {"backend": "gone"}}'])
def test_a_spoilt_memory_means_a_new_trial(tiny: AnyFolder, settings: VocoderSettings, content: str) -> None:
    folder = tiny("tiny causal")
    memory = TrialMemory(settings, "cpu")
    key = memory.key(load_generator(folder).config, LENGTHS)
    path = Path(settings.runtime_cache_dir) / "runtime.json"
    path.parent.mkdir(parents=True)
    path.write_text(content.replace("KEY", key))
    best = choose(settings, folder)
    assert json.loads(path.read_text())[key]["backend"] == best.name


def test_folders_that_cannot_be_written_to_are_no_error(
    tiny: AnyFolder, settings: VocoderSettings, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert choose(with_(settings, runtime_cache_dir=str(tmp_path / "file" / "below")), tiny("tiny causal")).name


class Wrong:
    """A runtime that is off by a little."""

    name = "onnxruntime"
    max_batch = 1
    lanes = 1
    any_length = True

    def __init__(self, right: Backend, error: float) -> None:
        self.right = right
        self.error = error

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        return self.right.run(mel_BMF, mask_B1F, excitation_B1S) + self.error


@pytest.mark.parametrize("error", [2e-3, float("nan")])
def test_a_runtime_that_differs_is_refused(
    tiny: AnyFolder, settings: VocoderSettings, monkeypatch: pytest.MonkeyPatch, caplog, error: float
) -> None:
    build = Builder._onnxruntime
    monkeypatch.setattr(Builder, "_onnxruntime", lambda self: Wrong(build(self), error))
    with pytest.raises(ConfigurationInvalid, match=r"onnxruntime differs from eager torch by (0\.002|inf)"):
        choose(with_(settings, backend="onnxruntime"), tiny("tiny causal"))
    with caplog.at_level(logging.WARNING):
        assert choose(settings, tiny("tiny causal")).name != "onnxruntime"
    assert "does without onnxruntime" in caplog.text


def test_a_runtime_that_does_not_start_is_an_error_only_when_named(
    tiny: AnyFolder, settings: VocoderSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Builder) -> Backend:
        raise OSError("libsomething.so: cannot open shared object file")

    monkeypatch.setattr(Builder, "_openvino", broken)
    assert choose(settings, tiny("tiny causal")).name != "openvino"
    with pytest.raises(ConfigurationInvalid, match=r"openvino does not start here: libsomething\.so"):
        choose(with_(settings, backend="openvino"), tiny("tiny causal"))


def test_a_missing_runtime_is_an_error_only_when_named(
    tiny: AnyFolder, settings: VocoderSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Runtime("openvino", ("no_such_package",), ("cpu",), ("float32",))
    monkeypatch.setattr(choice, "RUNTIMES", (choice.RUNTIMES[0], missing))
    assert choose(settings, tiny("tiny causal")).name == "torch"
    with pytest.raises(ConfigurationInvalid, match="no_such_package") as caught:
        choose(with_(settings, backend="openvino"), tiny("tiny causal"))
    assert caught.value.param == "vocoder.backend"


@pytest.mark.parametrize(
    ("backend", "precision", "named"), [("compile", "float32", "openvino"), ("torch", "int8", "openvino")]
)
def test_what_a_runtime_cannot_do_names_those_that_can(
    tiny: AnyFolder, settings: VocoderSettings, backend: str, precision: str, named: str
) -> None:
    with pytest.raises(ConfigurationInvalid, match=f"{backend} does not run on cpu in {precision}.*{named}"):
        choose(with_(settings, backend=backend, precision=precision), tiny("tiny causal"))


def test_reduced_precision_reports_its_difference(tiny: AnyFolder, settings: VocoderSettings, caplog) -> None:
    folder = tiny("tiny nsf")
    with caplog.at_level(logging.WARNING):
        backend = choose(with_(settings, backend="openvino", precision="int8"), folder)
    assert "openvino in int8 differs from eager torch by" in caplog.text
    probe = probe_of(load_generator(folder), 64, "cpu")
    assert 1e-6 < probe.difference(backend) < 0.5 * float(probe.wave_BS.abs().max())


def test_openvino_reports_nothing_to_anybody(tiny: AnyFolder, settings: VocoderSettings) -> None:
    choose(with_(settings, backend="openvino"), tiny("tiny causal"))
    assert sys.modules["openvino_telemetry"] is None


def test_onnxruntime_on_a_gpu_prefers_tensorrt_and_keeps_float32_exact(tiny: AnyFolder, tmp_path: Path) -> None:
    plan = plan_of(load_generator(tiny("tiny nsf")))
    (tensorrt, trt), (cuda, options) = providers_for(plan, "cuda:1", "float32", LENGTHS, 8, tmp_path)
    assert (tensorrt, cuda) == ("TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert trt["trt_profile_max_shapes"] == "mel:8x80x96,mask:8x1x96,excitation:8x1x1920"
    assert (trt["device_id"], trt["trt_fp16_enable"]) == ("1", "0")
    assert options == {"device_id": "1", "use_tf32": "0"}
    assert [name for name, _ in providers_for(plan, "cuda", "float16", LENGTHS, 8, tmp_path)] == [tensorrt]
    assert providers_for(plan, "cpu", "bfloat16", LENGTHS, 8, tmp_path) == []
