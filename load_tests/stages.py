"""One stage alone, in this process: for work on a stage, and for the yardstick that the whole is held against."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, get_args

import numpy as np
import torch

from deployments.acoustic.decoder import StepDecoder
from deployments.acoustic.engine import AcousticEngine
from deployments.acoustic.voice import AcousticVoice
from deployments.errors import SpeechError
from deployments.messages import AcousticRequest, MelSpectrogram, VocoderRequest
from deployments.normalization.text.frontend import FrontEnd, Pauses
from deployments.settings import AcousticSettings, VocoderSettings
from deployments.vocoder.checkpoint import load_generator
from deployments.vocoder.engine import VocoderEngine
from deployments.voices.folder import VoiceFolder
from load_tests.efficiency import mean_batch, since, waste
from load_tests.machine import num_cores
from load_tests.summary import median_seconds, medians

PUBLISHED_TO_EAGER: Final = 2.5
"""What the published code takes for a sentence, in times of its own generator in eager torch on all cores. Measured
once, where the published code runs: 2.1 s for Sambert and 1.8 s for HifiGan, where the generator alone took 1.45 to
1.8 s. It cannot be run here, so this stands for it."""
BATCHES: Final = (1, 4, 16)
LIMIT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Sentence:
    """What a stage is measured with.

    Attributes:
        text: As a caller writes it.
        symbols: As the front end reads it, one string per segment.
    """

    text: str
    symbols: tuple[str, ...]


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """So many threads of torch inside the block, as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def analysed(front_end: FrontEnd, folder: VoiceFolder, text: str) -> Sentence:
    """A text through the front end, for a voice."""
    analysis = front_end.analyse(
        text,
        normalize=True,
        emotion=folder.emotions[0],
        speaker=folder.speakers[0],
        max_segment_chars=200,
        has_english=folder.has_english,
        pauses=Pauses(),
    )
    return Sentence(text, tuple(segment.symbols for segment in analysis.segments))


def text_stage(front_end: FrontEnd, folder: VoiceFolder, texts: Sequence[str], repeats: int) -> dict[str, float]:
    """Times of the front end.

    Args:
        front_end: To time.
        folder: Of the voice.
        texts: Each is analysed by itself.
        repeats: Passes over all texts.

    Returns:
        Milliseconds per text: the median over texts, and the worst.
    """
    passes = []
    for _ in range(repeats):
        times_ms = [1000 * median_seconds(partial(analysed, front_end, folder, text), 1, 0) for text in texts]
        passes.append({"median_ms": statistics.median(times_ms), "worst_ms": max(times_ms)})
    return medians(passes)


class AcousticStage:
    """The acoustic model of one voice.

    Args:
        folder: Of the voice.
        settings: Of the stage.
    """

    def __init__(self, folder: VoiceFolder, settings: AcousticSettings) -> None:
        self._folder = folder
        self._settings = settings
        self._engine = AcousticEngine([folder], settings, "cpu")

    def close(self) -> None:
        """Ends the engine's thread."""
        self._engine.close()

    def speak(self, symbols: Sequence[str]) -> list[MelSpectrogram]:
        """Segments, submitted together."""
        requests = [AcousticRequest(voice=self._folder.name, symbols=items) for items in symbols]
        return [ticket.future.result(LIMIT_S) for ticket in self._engine.submit(requests)]

    def measure(self, sentence: Sentence, others: Sequence[Sentence], repeats: int) -> dict[str, Any]:
        """Times of whole sentences and of their parts.

        Args:
            sentence: Said alone and many times at once.
            others: Of many lengths, said together.
            repeats: Of each measurement.

        Returns:
            The report of the stage.
        """
        with torch_threads(self._settings.threads):
            mels = self.speak(sentence.symbols)
            frames = sum(len(mel.mel_FM) for mel in mels)
            sentence_s = {
                str(number): median_seconds(partial(self.speak, sentence.symbols * number), repeats) / number
                for number in BATCHES
            }
            mixed = [items for other in others for items in other.symbols]
            before = self._engine.counts
            mixed_s = median_seconds(lambda: self.speak(mixed), repeats)
            ran = since(before, self._engine.counts)
            steps = {str(number): decoder_step_ms(self._folder, sentence, number, repeats) for number in BATCHES}
        return {
            "threads": self._settings.threads,
            "symbols": sum(len(mel.frames_T) for mel in mels),
            "frames": frames,
            "sentence_s": sentence_s,
            "share_at_16": sentence_s["16"] / sentence_s["1"],
            "step_ms": steps,
            "mixed": {
                "sentences": len(others),
                "total_s": mixed_s,
                "batch": mean_batch(ran["decoder"]),
                "waste": waste(ran),
            },
        }


def decoder_step_ms(folder: VoiceFolder, sentence: Sentence, number: int, repeats: int) -> float:
    """Milliseconds of one step of the decoder with so many utterances in it, the median of all steps.

    Args:
        folder: Of the voice.
        sentence: Every row says it.
        number: Rows.
        repeats: Utterances one after the other.
    """
    voice = AcousticVoice(folder, "cpu")
    request = AcousticRequest(voice=folder.name, symbols=sentence.symbols[0])
    decoder = StepDecoder(voice.fused, voice.runtime.bind_step)
    times_s = []
    with torch.inference_mode():
        encoded = voice.encode([request] * number, [voice.parse(request)] * number)
        memories = voice.network.unroll(encoded)
        for _ in range(repeats):
            decoder.join(memories, encoded.band_B.tolist())
            while decoder.num_active:
                started = perf_counter()
                decoder.step()
                times_s.append(perf_counter() - started)
    return 1000 * statistics.median(times_s)


def vocoder_backends() -> tuple[str, ...]:
    """Runtimes that the settings know by name."""
    names = get_args(VocoderSettings.model_fields["backend"].annotation)
    return tuple(name for name in names if name != "auto")


class VocoderStage:
    """The vocoder of one voice, built anew for every runtime and window.

    Args:
        folder: Of the voice.
        settings: Of the stage.
        mels: What it is to say.
    """

    def __init__(self, folder: VoiceFolder, settings: VocoderSettings, mels: Sequence[MelSpectrogram]) -> None:
        self._folder = folder
        self._settings = settings
        self._mels = mels
        self._generator = load_generator(folder)

    def seconds(self, settings: VocoderSettings, repeats: int, number: int = 1) -> float:
        """Seconds per sentence.

        Args:
            settings: Runtime, windows, threads.
            repeats: Of the measurement.
            number: Sentences submitted together.

        Raises:
            SpeechError: The runtime is not installed or the windows are too short.
        """
        with torch_threads(settings.threads):
            engine = VocoderEngine([self._folder], settings, "cpu")
            items = [(VocoderRequest(voice=self._folder.name), mel) for mel in self._mels] * number

            def speak() -> None:
                for ticket in engine.submit(items):
                    ticket.future.result(LIMIT_S)

            try:
                return median_seconds(speak, repeats) / number
            finally:
                engine.close()

    def eager_whole_s(self, threads: int, repeats: int) -> float:
        """Seconds of the network itself in eager torch on the utterance in one piece, as the published code runs it."""
        config = self._generator.config
        mel_FM = np.concatenate([mel.mel_FM for mel in self._mels])[:, : config.in_channels]
        mel_BMF = torch.from_numpy(mel_FM.T.copy())[None]
        # What is in the excitation does not change the time.
        excitation_B1S = torch.zeros(1, 1, len(mel_FM) * config.hop_samples) if config.num_harmonics else None
        with torch_threads(threads), torch.inference_mode():
            return median_seconds(partial(self._generator, mel_BMF, excitation_B1S), repeats)

    def published_s(self) -> float:
        """What the published code would take for the sentence on this machine now; see PUBLISHED_TO_EAGER."""
        return PUBLISHED_TO_EAGER * self.eager_whole_s(num_cores(), 1)

    def measure(self, repeats: int, windows: Sequence[int]) -> dict[str, Any]:
        """Runtimes by windows, and the yardstick.

        Args:
            repeats: Of each measurement.
            windows: Each is tried as the only length; the lengths of the settings are tried together.

        Returns:
            The report of the stage; a runtime that is not installed says why it has no numbers.
        """
        eager_s = {str(threads): self.eager_whole_s(threads, repeats) for threads in sorted({1, num_cores()})}
        backends = {name: self._backend(name, repeats, windows) for name in vocoder_backends()}
        return {
            "threads": self._settings.threads,
            "frames": sum(len(mel.mel_FM) for mel in self._mels),
            "eager_whole_s": eager_s,
            "published_s": PUBLISHED_TO_EAGER * eager_s[str(num_cores())],
            "sentence_s": {str(number): self.seconds(self._settings, repeats, number) for number in BATCHES[:2]},
            "backends": backends,
        }

    def _backend(self, name: str, repeats: int, windows: Sequence[int]) -> dict[str, Any]:
        lengths = {"settings": self._settings.window_frames} | {str(window): (window,) for window in windows}
        seconds: dict[str, Any] = {}
        for title, window_frames in lengths.items():
            # No warm-up of every length: only those that the sentence takes are timed, after a run that does not count.
            change = {"backend": name, "window_frames": window_frames, "warm_up": False}
            settings = self._settings.model_copy(update=change)
            try:
                seconds[title] = self.seconds(settings, repeats)
            except SpeechError as error:
                return {**seconds, "unavailable": error.message}
        return seconds
