"""A text with markup into segments: each stretch is read by its own voice, what lies between becomes silence."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace

from deployments.errors import TextNotSpeakable
from deployments.messages import Controls, Segment, TextAnalysis
from deployments.normalization.text import ssml, tables
from deployments.normalization.text.frontend import Pauses
from deployments.normalization.text.ssml_document import Cast, Gap, Stretch

Read = Callable[[Stretch], TextAnalysis]
_MARKS_BEFORE = re.compile(r"\W*$")
_MARKS_AFTER = re.compile(r"\W*")


def read_markup(text: str, base: Controls, cast: Cast, read: Read, pauses: Pauses) -> TextAnalysis:
    """The segments of a text with markup, with their controls.

    Args:
        text: SSML.
        base: How the request is spoken.
        cast: Finds voices and emotions.
        read: Reads one stretch.
        pauses: Silences where the markup says nothing.

    Returns:
        Segments whose texts, joined, are the caller's text without tags and without blanks around them.

    Raises:
        SpeechError: As in ssml.parse.
        TextNotSpeakable: Nothing in the text can be spoken.
    """
    document = ssml.parse(text, base, cast)
    segments: list[Segment] = []
    written: list[str] = []
    silent = ""  # of stretches before the first one that can be spoken
    gap = document.lead
    for stretch in document.stretches:
        try:
            analysis = read(stretch)
        except TextNotSpeakable:
            unread = "".join(piece.text for piece in stretch.pieces).strip()
            if segments:
                segments[-1] = replace(segments[-1], text=segments[-1].text + unread)
            else:
                silent += unread
            gap = gap.joined(stretch.gap)
            continue
        first, *others = (replace(segment, controls=stretch.controls) for segment in analysis.segments)
        if segments:
            segments[-1] = replace(segments[-1], pause_s=_pause_s(gap, segments[-1].text, first.text, pauses))
        else:
            first = replace(first, text=silent + first.text, lead_s=gap.break_s or 0.0)
        segments += (first, *others)
        written.append(analysis.normalized)
        gap = stretch.gap
    if not segments:
        raise TextNotSpeakable("Nothing in the text can be spoken; send words, numbers or letters.", param="input")
    segments[-1] = replace(segments[-1], tail_s=gap.break_s or 0.0)
    return TextAnalysis(normalized="".join(written), segments=tuple(segments))


def _pause_s(gap: Gap, before: str, after: str, pauses: Pauses) -> float:
    """Silence between two stretches: the breaks, else what the tags or marks between them say."""
    if gap.break_s is not None:
        return gap.break_s
    if gap.boundary:
        return pauses.paragraph_s if gap.boundary == "paragraph" else pauses.sentence_s
    ending, beginning = _MARKS_BEFORE.search(before), _MARKS_AFTER.match(after)
    kinds = {_kinds().get(mark) for found in (ending, beginning) if found for mark in found[0]}
    if "sentence" in kinds:
        return pauses.sentence_s
    return pauses.clause_s if kinds & {"clause", "pause"} else 0.0


@functools.cache
def _kinds() -> dict[str, str]:
    """What each mark ends, whatever its width."""
    kinds = tables.pairs("punctuation.tsv")
    plain = {row[0]: kinds[row[1]] for row in tables.rows("marks.tsv") if len(row) > 1 and row[1] in kinds}
    return plain | kinds
