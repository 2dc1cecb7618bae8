"""The limits of the text front end: start-up, a sentence of 30 characters, the densest texts, memory over many texts.

    python -m load_tests.text_limits --sentences 100000

Times are of the process's own processor time, so that a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import process_time
from typing import Final

from deployments.errors import TextNotSpeakable
from deployments.normalization.text.frontend import FrontEnd, Pauses
from load_tests.traffic import Traffic

MAX_CHARS: Final = 4_096
DENSE: Final = (
    "0123456789.,:-/%~ ",
    "2024年3月5日8:30，3-5%的¥12.5/kg涨1/3、",
    "行长一不了的，",
    "得长行还重",
    "5℃",
    "9-",
    "x²",
    "1:2 ",
    "a.b@c/",
    "aB1",
    "한국어あ",
    "&<*#[](\\$^",
)
SENTENCE_CHARS: Final = range(27, 34)


def analyse(front_end: FrontEnd, text: str) -> None:
    """Reads a text as the service does; one without anything to speak is read as well."""
    with suppress(TextNotSpeakable):
        front_end.analyse(
            text,
            normalize=True,
            emotion="neutral",
            speaker="F7",
            max_segment_chars=50,
            has_english=False,
            pauses=Pauses(),
        )


def seconds(front_end: FrontEnd, text: str) -> float:
    """Processor time of one text."""
    started = process_time()
    analyse(front_end, text)
    return process_time() - started


def sentences(number: int, seed: int = 1) -> Iterator[str]:
    """So many different texts: phrases of customers, each with numbers, letters and rare characters of its own."""
    phrases = [phrase.text for phrase in Traffic(num_phrases=400).phrases]
    draw = random.Random(seed)
    for _ in range(number):
        rare = "".join(chr(draw.randrange(0x4E00, 0x9FA5)) for _ in range(4))
        foreign = "".join(chr(draw.randrange(0x430, 0x450)) for _ in range(6))
        latin = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=7))
        yield f"{draw.choice(phrases)}{rare}{draw.randrange(10**9)}{latin}，{foreign}"


def memory_mb() -> float:
    """The most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m load_tests.text_limits", description=__doc__)
    parser.add_argument("--sentences", type=int, default=2_000, help="for the memory, all different")
    number = parser.parse_args(arguments).sentences
    started = process_time()
    front_end = FrontEnd()
    print(f"start-up: {process_time() - started:.2f} s, {memory_mb():.0f} MB")
    usual = [phrase.text for phrase in Traffic(num_phrases=2_000).phrases if len(phrase.text) in SENTENCE_CHARS]
    times_ms = [1000 * seconds(front_end, text) for text in usual]
    print(f"a sentence of 30 characters: {statistics.median(times_ms):.2f} ms (median of {len(usual)})")
    slowest, pool = max((seconds(front_end, (pool * MAX_CHARS)[:MAX_CHARS]), pool) for pool in DENSE)
    print(f"{MAX_CHARS} characters: {slowest:.2f} s at most, of {pool!r}")
    for index, text in enumerate(sentences(number), 1):
        analyse(front_end, text)
        if index % max(number // 10, 1) == 0:
            print(f"after {index} different texts: {memory_mb():.0f} MB", flush=True)


if __name__ == "__main__":
    main()
