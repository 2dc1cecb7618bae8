"""Builds, checks and times the runtimes of one generator."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from deployments.errors import ConfigurationInvalid
from deployments.settings import VocoderSettings
from deployments.vocoder.backends.base import Backend
from deployments.vocoder.backends.eager import EagerBackend
from deployments.vocoder.backends.probe import probe_of
from deployments.vocoder.hifigan import HifiGan
from deployments.vocoder.plan import Plan

FLOAT32_BOUND = 1e-3
MIN_RUNS, MAX_RUNS = 3, 50
log = logging.getLogger(__name__)


class Builder:
    """Builds, checks and times runtimes of one generator.

    Args:
        plan: Of the generator.
        generator: On the device.
        settings: See Chooser.
        device: Of torch.
        lengths: Window lengths, ascending.
    """

    def __init__(
        self, plan: Plan, generator: HifiGan, settings: VocoderSettings, device: str, lengths: tuple[int, ...]
    ) -> None:
        self.plan = plan
        self.lengths = lengths
        # Between two lengths, as most utterances are: runtimes of fixed lengths have to run the longer one.
        middle = len(lengths) // 2
        self.trial_frames = (lengths[middle] + lengths[max(0, middle - 1)]) // 2
        self._generator = generator
        self._settings = settings
        self._device = device
        self._on_cpu = torch.device(device).type == "cpu"
        self._max_batch = 1 if self._on_cpu else settings.batching.max_batch_size
        self._probe = probe_of(generator, lengths[0], device)

    def checked(self, name: str) -> Backend:
        """Builds a runtime and compares it with eager torch.

        Raises:
            ConfigurationInvalid: It differs.
        """
        backend = self._build(name)
        difference = 0.0 if name == "torch" else self._probe.difference(backend)
        precision = self._settings.precision
        if difference > (FLOAT32_BOUND if precision == "float32" else 2.0):
            raise ConfigurationInvalid(
                f"vocoder.backend={name} differs from eager torch by {difference:.2g} (bound {FLOAT32_BOUND}) and is "
                "refused; set vocoder.backend to auto or update its package.",
                "vocoder.backend",
            )
        loudest = float(self._probe.wave_BS.abs().max())
        level = log.info if precision == "float32" else log.warning
        level("vocoder: %s in %s differs from eager torch by %.2g of %.2g", name, precision, difference, loudest)
        return backend

    def times_s(self, backends: Mapping[str, Backend]) -> dict[str, float]:
        """Seconds of an utterance of a middle length, by name.

        Runtimes take turns, so that other load of the machine meets all of them, and the least of several runs counts,
        as other load only ever adds.
        """
        times_s: dict[str, list[float]] = {name: [] for name in backends}
        for backend in backends.values():
            self.time_once(backend, self.trial_frames)
        while (rounds := min(map(len, times_s.values()))) < MIN_RUNS or (
            rounds < MAX_RUNS and sum(map(sum, times_s.values())) < self._settings.trial_s * len(backends)
        ):
            for name, backend in backends.items():
                times_s[name].append(self.time_once(backend, self.trial_frames))
        return {name: min(times) for name, times in times_s.items()}

    def time_once(self, backend: Backend, frames: int) -> float:
        """Seconds that an utterance of one window takes, one of many that keep all lanes busy."""
        if not backend.any_length:
            frames = next(length for length in self.lengths if length >= frames)
        mel_BMF = torch.zeros(1, self.plan.config.in_channels, frames, device=self._device)
        excitation_B1S = None
        if self.plan.config.num_harmonics:
            excitation_B1S = mel_BMF.new_zeros(1, 1, frames * self.plan.config.hop_samples)
        mask_B1F = None if backend.any_length else mel_BMF.new_ones(1, 1, frames)

        def run(_: int) -> None:
            backend.run(mel_BMF, mask_B1F, excitation_B1S).cpu()

        if backend.lanes == 1:
            started = time.perf_counter()
            run(0)
            return time.perf_counter() - started
        with ThreadPoolExecutor(backend.lanes) as pool:
            started = time.perf_counter()
            list(pool.map(run, range(backend.lanes)))
            return (time.perf_counter() - started) / backend.lanes

    def _build(self, name: str) -> Backend:
        makers: dict[str, Callable[[], Backend]] = {
            "torch": lambda: EagerBackend(
                self._generator, self._settings.batching.max_batch_size, any_length=self._on_cpu
            ),
            "torchscript": self._torchscript,
            "compile": self._compile,
            "onnxruntime": self._onnxruntime,
            "openvino": self._openvino,
        }
        return makers[name]()

    def _torchscript(self) -> Backend:
        from deployments.vocoder.backends.fused import TracedBackend

        return TracedBackend(
            self.plan, self._device, self._settings.precision, self._max_batch, any_length=self._on_cpu
        )

    def _compile(self) -> Backend:
        from deployments.vocoder.backends.fused import CompiledBackend

        return CompiledBackend(self.plan, self._device, self._settings.precision, self._max_batch)

    def _onnxruntime(self) -> Backend:
        from deployments.vocoder.backends.onnxruntime import OnnxRuntimeBackend

        return OnnxRuntimeBackend(
            self.plan,
            self._device,
            self._settings.threads,
            self._settings.precision,
            self.lengths,
            self._max_batch,
            Path(self._settings.runtime_cache_dir).expanduser() / "tensorrt",
        )

    def _openvino(self) -> Backend:
        from deployments.vocoder.backends.openvino import OpenVinoBackend

        operations = None
        if self._settings.precision == "int8":
            from deployments.vocoder.backends.int8 import quantized_operations

            operations = quantized_operations(self.plan, self._probe.mel_BMF, self._probe.excitation_B1S)
        return OpenVinoBackend(self.plan, self._settings.threads, self._settings.precision, operations)
