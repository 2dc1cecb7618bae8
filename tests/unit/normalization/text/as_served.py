"""A text through the front end with the options that most tests have in common."""

from __future__ import annotations

from typing import Any

from deployments.messages import TextAnalysis
from deployments.normalization.text.frontend import FrontEnd, Pauses

PAUSES = Pauses()


def analyse(frontend: FrontEnd, text: str, **changes: Any) -> TextAnalysis:
    options: dict[str, Any] = {
        "normalize": True,
        "emotion": "neutral",
        "speaker": "F7",
        "max_segment_chars": 50,
        "has_english": False,
        "pauses": PAUSES,
    }
    return frontend.analyse(text, **{**options, **changes})
