"""A voice's card: what its files cannot say, as data beside them (voices/<name>/card.yaml, optional)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deployments.errors import VoiceInvalid
from deployments.voices.config import read_yaml
from deployments.voices.symbols import EMOTION_PREFIX, SymbolTables


class Card(BaseModel):
    """The keys of card.yaml, all optional; a voice without a card gets these defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    language: str | None = Field(None, description="BCP 47 tag; left out: Mandarin.", min_length=2)
    license: str = Field("unknown", description="SPDX id or a short phrase.", min_length=1)
    english: bool | None = Field(None, description="Whether English phones were trained; left out: its table decides.")
    emotions: tuple[str, ...] = Field(
        (), description='Emotions it was trained on, without "emotion_"; left out: its emotion table.', strict=False
    )
    phrase_break: Literal["#2", "#3"] = Field("#2", description="The break it was trained to make in long clauses.")
    description: str = Field("", description="What it is good for.")
    made_from: str = Field("", description="Data and models it was trained on.")

    @classmethod
    def read(cls, path: Path, symbols: SymbolTables) -> Card:
        """The card of a voice, or the defaults where it has none.

        Args:
            path: card.yaml.
            symbols: The voice's tables; the emotions must be in them.

        Raises:
            VoiceInvalid: A key is unknown or of a wrong type, or an emotion is not in the voice's table.
        """
        if not path.is_file():
            return cls()
        try:
            card = cls.model_validate(read_yaml(path))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            key = ".".join(map(str, fault["loc"]))
            raise VoiceInvalid(
                f"{path}: {key}: {fault['msg']}. Keys of a card: {', '.join(cls.model_fields)}.", str(path)
            ) from error
        for emotion in card.emotions:
            if not symbols.has("emotion", EMOTION_PREFIX + emotion):
                raise VoiceInvalid(
                    f"{path}: the voice has no emotion {emotion!r} in its table; remove it from emotions.", str(path)
                )
        ordered = sorted(dict.fromkeys(card.emotions), key=lambda name: name != "neutral")
        return card.model_copy(update={"emotions": tuple(ordered)})
