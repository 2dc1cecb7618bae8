"""Results of start-up trials, kept beside the model so that the next start is quick."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import tempfile
from importlib import metadata
from pathlib import Path

import torch

from deployments.settings import VocoderSettings
from deployments.vocoder.hifigan import HifiGanConfig
from deployments.voices.folder import VoiceFolder

PACKAGES = ("sambert-serve", "torch", "onnxruntime", "onnxruntime-gpu", "openvino")
FILE_NAME = "runtime.json"
TRIAL = 2
"""Goes up with every change of a runtime or of the trial, so that what older ones found is not believed."""
log = logging.getLogger(__name__)


class TrialMemory:
    """Keeps which runtime won, per machine, versions, threads and sizes of the voice.

    A trial's result lies in the voice's folder; where that is read-only, or is the package's own, in the cache folder.

    Args:
        settings: Threads, precision and cache folder count.
        device: Of torch.
    """

    def __init__(self, settings: VocoderSettings, device: str) -> None:
        self._settings = settings
        self._device = device
        self._in_process: dict[str, str] = {}

    def key(self, config: HifiGanConfig, lengths: tuple[int, ...]) -> str:
        """A hash of everything that may decide which runtime is the fastest."""
        facts = [
            TRIAL,
            {package: _version(package) for package in PACKAGES},
            platform.platform(),
            _processor(),
            os.cpu_count(),
            torch.cuda.get_device_name(self._device) if self._device.startswith("cuda") else "cpu",
            self._settings.threads,
            self._settings.precision,
            repr(config),
            lengths,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def recall(self, folder: VoiceFolder, key: str) -> str | None:
        """The runtime that won a trial under this key, or None."""
        if key in self._in_process:
            return self._in_process[key]
        for path in self._places(folder):
            try:
                name = json.loads(path.read_text(encoding="utf-8"))[key]["backend"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            return str(name)
        return None

    def keep(self, folder: VoiceFolder, key: str, backend: str, times_s: dict[str, float]) -> None:
        """Keeps a result; where no folder can be written to, in this process only."""
        self._in_process[key] = backend
        entry = {"backend": backend, "times_ms": {name: round(time_s * 1e3, 2) for name, time_s in times_s.items()}}
        for path in self._places(folder):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, {**_read(path), key: entry})
            except OSError:
                continue
            return
        log.info("vocoder: the result of the trial could not be kept; the next start tries again")

    def _places(self, folder: VoiceFolder) -> list[Path]:
        beside = [] if folder.model == "bundled" else [folder.path / "voc" / FILE_NAME]
        return [*beside, Path(self._settings.runtime_cache_dir).expanduser() / FILE_NAME]


def _read(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: Path, content: dict[str, object]) -> None:
    """Replaces a file in one step, as other replicas may read it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{FILE_NAME}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The name of the CPU; Linux tells it in /proc alone."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
