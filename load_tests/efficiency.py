"""Mean batch sizes and wasted work, from what the stages count."""

from __future__ import annotations

from collections.abc import Mapping

from deployments.counts import RunCounts

Counts = Mapping[str, RunCounts]


def since(before: Counts, after: Counts) -> dict[str, RunCounts]:
    """What was run between two looks at the same stage."""
    return {
        part: RunCounts(
            runs=now.runs - before[part].runs,
            items=now.items - before[part].items,
            positions=now.positions - before[part].positions,
            kept=now.kept - before[part].kept,
            seconds=now.seconds - before[part].seconds,
        )
        for part, now in after.items()
    }


def mean_batch(counts: RunCounts) -> float:
    """Items per run; 0 where nothing ran."""
    return counts.items / max(1, counts.runs)


def waste(counts: Counts) -> float:
    """Part of the time of a stage that went into positions that no answer keeps; 0 where nothing ran.

    The parts of a stage count tokens, steps or frames, which cost differently; so each part's share of wasted positions
    weighs as much as its time.
    """
    spent_s = sum(part.seconds for part in counts.values())
    wasted_s = sum(part.seconds * (1 - part.kept / part.positions) for part in counts.values() if part.positions)
    return wasted_s / spent_s if spent_s else 0.0


def stage_numbers(acoustic: Counts, vocoder: Counts, audio_s: float) -> dict[str, float]:
    """Numbers of a report.

    Args:
        acoustic: What the acoustic stage ran.
        vocoder: What the vocoder ran.
        audio_s: Seconds of audio that came of it.

    Returns:
        Mean batches of decoder and generator, wasted parts of the time of both stages, and milliseconds of each part
        of the models per second of audio.
    """
    parts = {**acoustic, **vocoder}
    return {
        "acoustic_batch": mean_batch(acoustic["decoder"]),
        "vocoder_batch": mean_batch(vocoder["generator"]),
        "acoustic_waste": waste(acoustic),
        "vocoder_waste": waste(vocoder),
        **{f"{name}_ms_per_audio_s": 1000 * part.seconds / max(1e-9, audio_s) for name, part in parts.items()},
    }
