"""The speed report of a machine: stages alone, then the whole service in all its modes.

    python -m load_tests.benchmark --voice both --stage all --output bench.json

Everything is measured in one run and compared within it; numbers of different runs or machines say little. Takes about
a quarter of an hour on two cores, three minutes with --quick.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from deployments.normalization.text.frontend import FrontEnd
from deployments.settings import Settings
from deployments.voices.folder import VoiceFolder
from deployments.voices.store import VoiceStore
from load_tests import benchmark_report, machine
from load_tests.commandline import parser_of
from load_tests.fullsize import make_full_size
from load_tests.graph_bench import GraphBench, Plan
from load_tests.modes import modes, scenarios
from load_tests.phrases import Phrase
from load_tests.stages import AcousticStage, Sentence, VocoderStage, analysed, text_stage
from load_tests.traffic import Traffic

VOICES: Final = ("bundled", "full-size")
STAGES: Final = ("text", "acoustic", "vocoder", "graph")
QUICK_MODES: Final = ("plain", "batching", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured for one voice.

    Attributes:
        sentence: What times of single requests are measured with.
        num_calls: Requests of a mode per round at least.
        calls_per_caller: Likewise for each caller.
        repeats: Of each measurement of a stage.
        windows: Of the vocoder that are tried as the only length, where nothing but the vocoder is measured.
        pairs: Requests per round over HTTP and in one process.
        rounds: Of the service.
    """

    sentence: str
    num_calls: int
    calls_per_caller: int
    repeats: int
    windows: tuple[int, ...]
    pairs: int
    rounds: int = 3


SENTENCE_15: Final = "您好，感谢您的来电，请问您有什么事？"
SENTENCE_28: Final = "您的包裹已经到达小区门口的快递柜，请您在今天晚上以前取走它。"
EFFORTS: Final = {
    "bundled": Effort(
        sentence=SENTENCE_15, num_calls=48, calls_per_caller=6, repeats=9, windows=(64, 96, 128, 240, 480), pairs=12
    ),
    "full-size": Effort(
        sentence=SENTENCE_28,
        num_calls=12,
        calls_per_caller=2,
        repeats=3,
        windows=(64, 96, 128, 240, 480),
        pairs=6,
        rounds=2,
    ),
}
QUICK_EFFORTS: Final = {
    "bundled": Effort(sentence=SENTENCE_15, num_calls=16, calls_per_caller=2, repeats=3, windows=(), pairs=4, rounds=1),
    "full-size": Effort(
        sentence=SENTENCE_28, num_calls=3, calls_per_caller=1, repeats=1, windows=(), pairs=1, rounds=1
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for; see `parse`."""

    voices: tuple[str, ...]
    stages: tuple[str, ...]
    output: Path | None
    quick: bool
    redis: str | None

    @property
    def efforts(self) -> dict[str, Effort]:
        """How much is measured, by voice."""
        return QUICK_EFFORTS if self.quick else EFFORTS


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; ends the process where it is wrong."""
    parser = parser_of("benchmark", __doc__)
    parser.add_argument("--voice", choices=[*VOICES, "both"], default="both", help="full-size is made on the fly")
    parser.add_argument("--stage", choices=[*STAGES, "all"], default="all", help="one stage alone, or the whole")
    parser.add_argument("--output", type=Path, help="file for the numbers as JSON")
    parser.add_argument("--quick", action="store_true", help="one round, fewer modes: to see that it works")
    parser.add_argument("--redis", metavar="URL", help="adds the mode with this Redis behind the memory")
    found = parser.parse_args(arguments)
    return Options(
        voices=VOICES if found.voice == "both" else (found.voice,),
        stages=STAGES if found.stage == "all" else (found.stage,),
        output=found.output,
        quick=found.quick,
        redis=found.redis,
    )


class Benchmark:
    """One run.

    Args:
        options: What to measure.
        work_dir: For the voice that is made and the cache's files.
    """

    def __init__(self, options: Options, work_dir: Path) -> None:
        self._options = options
        self._work_dir = work_dir
        sources = {"bundled": "bundled"}
        if "full-size" in options.voices:
            sources["full-size"] = str(make_full_size(work_dir / "full-size"))
        self._voices = {"sources": [{"model": sources[voice]} for voice in options.voices]}
        self._settings = Settings.load({"voices": self._voices})
        folders = VoiceStore.open(self._settings.voices).folders
        self._folders = dict(zip(options.voices, folders, strict=True))
        self._front_end = FrontEnd()

    def run(self) -> dict[str, Any]:
        """Measures; returns what belongs under "voices" in the report."""
        found: dict[str, Any] = {voice: {"stages": self._stages(voice)} for voice in self._options.voices}
        if "graph" in self._options.stages:
            for voice, graph in self._graph().items():
                found[voice]["graph"] = graph
        return found

    def _stages(self, voice: str) -> dict[str, Any]:
        stages, effort, folder = self._options.stages, self._options.efforts[voice], self._folders[voice]
        sentence = analysed(self._front_end, folder, effort.sentence)
        phrases = short_phrases(24)
        found: dict[str, Any] = {}
        if "text" in stages:
            texts = [phrase.text for phrase in phrases]
            found["text"] = text_stage(self._front_end, folder, texts, effort.repeats)
        if "acoustic" in stages:
            others = [analysed(self._front_end, folder, phrase.text) for phrase in phrases[:16]]
            stage = AcousticStage(folder, self._settings.acoustic)
            found["acoustic"] = stage.measure(sentence, others, effort.repeats)
            stage.close()
        if "vocoder" in stages:
            windows = effort.windows if stages == ("vocoder",) else ()
            found["vocoder"] = self._vocoder(folder, sentence).measure(effort.repeats, windows)
        return found

    def _vocoder(self, folder: VoiceFolder, sentence: Sentence) -> VocoderStage:
        acoustic = AcousticStage(folder, self._settings.acoustic)
        try:
            return VocoderStage(folder, self._settings.vocoder, acoustic.speak(sentence.symbols))
        finally:
            acoustic.close()

    def _graph(self) -> dict[str, Any]:
        from load_tests.served import Served  # only here: it needs Ray, which takes its time to import

        chosen = modes(self._work_dir, machine.num_cores(), self._options.redis)
        if self._options.quick:
            chosen = tuple(mode for mode in chosen if mode.name in QUICK_MODES)
        in_process = next(mode for mode in chosen if mode.name == "batching").settings(self._voices)
        plans = {voice: self._plan(voice) for voice in self._options.voices}
        with Served((), self._voices) as served:
            benches = {voice: GraphBench(served, scenarios(chosen), plan) for voice, plan in plans.items()}
            for mode in chosen:
                with served.application(mode):
                    for bench in benches.values():
                        asyncio.run(bench.run(mode.name, in_process))
            return {voice: bench.report() for voice, bench in benches.items()}

    def _plan(self, voice: str) -> Plan:
        effort, folder = self._options.efforts[voice], self._folders[voice]
        vocoder = self._vocoder(folder, analysed(self._front_end, folder, effort.sentence))
        # The trial of runtimes keeps its result. It is made here, while nothing else runs: many replicas that start
        # together would disturb each other's.
        vocoder.seconds(self._settings.vocoder, 1)
        return Plan(
            voice=folder.name,
            emotions=folder.emotions,
            sentence=effort.sentence,
            rounds=effort.rounds,
            num_calls=effort.num_calls,
            calls_per_caller=effort.calls_per_caller,
            pairs=effort.pairs,
            num_no_ops=16 * effort.pairs,
            yardstick_s=vocoder.published_s,
        )


def short_phrases(number: int) -> tuple[Phrase, ...]:
    """Phrases of 5 to 50 syllables, of the personas that ask for such."""
    shares = {"call_centre": 1.0, "shop": 1.0, "assistant": 1.0}
    book = Traffic(num_phrases=4 * number, shares=shares).phrases
    return tuple(phrase for phrase in book if 5 <= phrase.num_spoken <= 50)[:number]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints the report and writes the numbers."""
    options = parse(arguments)
    started, before, clock_s = time.strftime("%Y-%m-%d %H:%M"), machine.load_average(), time.monotonic()
    with TemporaryDirectory(prefix="benchmark-") as work_dir:
        voices = Benchmark(options, Path(work_dir)).run()
    found = {
        "started": started,
        "elapsed_s": time.monotonic() - clock_s,
        "quick": options.quick,
        "load_average": {"before": before, "after": machine.load_average()},
        "machine": machine.describe(),
        "voices": voices,
    }
    print(benchmark_report.render(found))
    if options.output is not None:
        options.output.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
