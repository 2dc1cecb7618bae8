"""Which runtime a voice gets: the one that is named, or the fastest that fits and agrees with eager torch."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass

import torch

from deployments.errors import ConfigurationInvalid
from deployments.settings import VocoderSettings
from deployments.vocoder.backends.base import Backend
from deployments.vocoder.backends.builder import Builder
from deployments.vocoder.backends.memory import TrialMemory
from deployments.vocoder.hifigan import HifiGan
from deployments.vocoder.plan import plan_of
from deployments.voices.folder import VoiceFolder

FLOATING = ("float32", "bfloat16", "float16")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runtime:
    """A way to run the generator.

    Attributes:
        name: As the setting names it.
        packages: To be installed.
        devices: Kinds it runs on.
        precisions: That it can compute in, on any of them.
    """

    name: str
    packages: tuple[str, ...]
    devices: tuple[str, ...]
    precisions: tuple[str, ...]

    @property
    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [package for package in self.packages if importlib.util.find_spec(package) is None]


RUNTIMES = (
    Runtime("torch", (), ("cpu", "cuda"), ("float32",)),
    Runtime("torchscript", (), ("cpu", "cuda"), FLOATING),
    Runtime("onnxruntime", ("onnxruntime", "onnx"), ("cpu", "cuda"), ("float32", "float16")),
    Runtime("openvino", ("openvino",), ("cpu",), (*FLOATING, "int8")),
    Runtime("compile", (), ("cuda",), FLOATING),
)


class Chooser:
    """Chooses and builds runtimes for the voices of one replica.

    Args:
        settings: backend, precision, threads, window lengths and where results are kept.
        device: Of torch.
    """

    def __init__(self, settings: VocoderSettings, device: str) -> None:
        self._settings = settings
        self._device = device
        self._kind = torch.device(device).type
        if self._kind == "cuda":
            # TensorFloat-32 convolutions would be off by more than the bound that float32 promises.
            torch.backends.cudnn.allow_tf32 = False
        self._memory = TrialMemory(settings, device)
        self._warm: set[str] = set()

    def choose(self, folder: VoiceFolder, generator: HifiGan, lengths: tuple[int, ...]) -> Backend:
        """The runtime of a voice, checked against eager torch and warmed up.

        Args:
            folder: Of the voice; the result of a trial is kept in it.
            generator: On the CPU; moved to the device.
            lengths: Window lengths that will be run.

        Raises:
            ConfigurationInvalid: The named runtime is not installed, does not fit the device and precision, or differs
                from eager torch; or none does.
        """
        plan = plan_of(generator)
        build = Builder(plan, generator.to(self._device), self._settings, self._device, lengths)
        backend = self._named(build) if self._settings.backend != "auto" else self._fastest(build, folder)
        kernels = f"{backend.name} {plan.config}"
        if self._settings.warm_up and not backend.any_length and kernels not in self._warm:
            self._warm.add(kernels)  # voices of the same sizes share compiled kernels
            for length in lengths:
                build.time_once(backend, length)
        return backend

    def _named(self, build: Builder) -> Backend:
        name, precision = self._settings.backend, self._settings.precision
        runtime = next(runtime for runtime in RUNTIMES if runtime.name == name)
        if self._kind not in runtime.devices or precision not in runtime.precisions:
            raise ConfigurationInvalid(
                f"vocoder.backend={name} does not run on {self._device} in {precision}; set vocoder.backend to auto "
                f"or to one of: {', '.join(self._fitting())}.",
                "vocoder.backend",
            )
        if runtime.missing:
            raise ConfigurationInvalid(
                f"vocoder.backend={name} needs packages that are not installed: {', '.join(runtime.missing)}; "
                f"pip install {' '.join(runtime.missing)}, or set vocoder.backend to auto.",
                "vocoder.backend",
            )
        try:
            return build.checked(name)
        except ConfigurationInvalid:
            raise
        except Exception as error:
            raise ConfigurationInvalid(
                f"vocoder.backend={name} does not start here: {error}; set vocoder.backend to auto.", "vocoder.backend"
            ) from error

    def _fitting(self) -> list[str]:
        precision = self._settings.precision
        return [run.name for run in RUNTIMES if self._kind in run.devices and precision in run.precisions]

    def _fastest(self, build: Builder, folder: VoiceFolder) -> Backend:
        key = self._memory.key(build.plan.config, build.lengths)
        remembered = self._memory.recall(folder, key)
        names = self._fitting() if remembered not in self._fitting() else [remembered, *self._fitting()]
        built: dict[str, Backend] = {}
        for name in names:
            runtime = next(runtime for runtime in RUNTIMES if runtime.name == name)
            if runtime.missing or name in built:
                continue
            try:
                built[name] = build.checked(name)
            except Exception as error:  # a runtime that breaks must not keep the others from serving
                log.warning("vocoder: voice %s does without %s: %s", folder.name, name, error)
                continue
            if name == remembered:
                log.info("vocoder: voice %s runs on %s, fastest in an earlier trial", folder.name, name)
                return built[name]
        if not built:
            raise ConfigurationInvalid(
                f"No installed runtime computes in {self._settings.precision} on {self._device}; "
                "set vocoder.precision to float32.",
                "vocoder.precision",
            )
        times_s = build.times_s(built)
        best = min(times_s, key=lambda name: times_s[name])
        table = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in sorted(times_s.items()))
        log.info("vocoder: voice %s runs on %s; %d frames take: %s", folder.name, best, build.trial_frames, table)
        self._memory.keep(folder, key, best, times_s)
        return built[best]
