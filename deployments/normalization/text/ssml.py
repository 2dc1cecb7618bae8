"""SSML in Aliyun's dialect: a hardened reader that turns markup into stretches of text with their controls.

The reader is expat with everything refused that can reach outside the text or make it grow: document types, and with
them entities of the caller's own. Depth, number of tags and length are bounded. What is not known is an error that
names the tag, the attribute and the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from xml.parsers import expat

from deployments.errors import EmotionNotFound, MarkupInvalid, TooLarge, VoiceNotFound
from deployments.messages import Controls
from deployments.normalization.text import say_as, ssml_values
from deployments.normalization.text.ssml_document import Cast, Document, Gap, Piece, Stretch

_T = TypeVar("_T")
MAX_MARKUP_CHARS = 262_144
MAX_TAGS = 8_192
MAX_DEPTH = 16
MAX_ALIAS_CHARS = 4_096  # of all attributes that are spoken together
MAX_BREAKS_S = 300.0  # of all breaks together
_DETECT = re.compile(r"[\s\ufeff]*<(?:speak(?=[\s/>])|\?xml|!doctype)", re.IGNORECASE)
_BLANKS = re.compile(r"\s+")
_HAN = re.compile("[\u3400-\u9fff]+")
# Attributes of the documents of other services that change nothing here.
_IGNORED = re.compile(r"version|xmlns(?::.*)?|xml:lang|xsi:schemaLocation")
_TEXT_ONLY = frozenset({"phoneme", "sub", "w", "say-as"})
_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "speak": frozenset({"voice", "rate", "pitch", "volume"}),
    "emotion": frozenset({"category", "intensity"}),
    "prosody": frozenset({"rate", "pitch", "volume"}),
    "break": frozenset({"time", "strength"}),
    "phoneme": frozenset({"alphabet", "ph"}),
    "sub": frozenset({"alias"}),
    "say-as": frozenset({"interpret-as"}),
    "p": frozenset(),
    "s": frozenset(),
    "w": frozenset(),
}
_REQUIRED = {"emotion": "category", "phoneme": "ph", "sub": "alias", "say-as": "interpret-as"}
_BOUNDARIES = {"s": "sentence", "p": "paragraph"}
_SPEED, _PITCH, _VOLUME = (0.25, 4.0), (-12.0, 12.0), (0.0, 2.0)


def is_markup(text: str) -> bool:
    """Whether a text is SSML: it begins with <speak>, perhaps after blanks, or with what stands before it in XML."""
    return _DETECT.match(text) is not None


def parse(text: str, base: Controls, cast: Cast) -> Document:
    """Reads a text with markup.

    Args:
        text: SSML.
        base: The request's own controls; <speak> replaces them, <prosody> scales them.
        cast: Finds voices and emotions.

    Raises:
        MarkupInvalid: It is not well formed, or uses what is not known; names tag, line and column.
        TooLarge: It is longer than MAX_MARKUP_CHARS.
        VoiceNotFound: A tag names a voice that is not served.
        EmotionNotFound: A tag names an emotion that the voice does not have.
    """
    if len(text) > MAX_MARKUP_CHARS:
        raise TooLarge(
            f"The markup has {len(text)} characters, {MAX_MARKUP_CHARS} are allowed. Send it in several requests.",
            param="input",
        )
    return _Parser(text, base, cast).run()


@dataclass(slots=True)
class _Open:
    """A tag that is not closed yet."""

    tag: str
    place: str
    controls: Controls
    value: str = ""


class _Parser:
    def __init__(self, text: str, base: Controls, cast: Cast) -> None:
        self._body = text.lstrip("\ufeff \t\r\n\f\v\u3000\xa0")
        before = text[: len(text) - len(self._body)].split("\n")
        self._lines_before, self._columns_before = len(before) - 1, len(before[-1])
        self._cast = cast
        self._open = [_Open("", "", base)]
        self._texts: list[str] = []
        self._stretches: list[Stretch] = []
        self._pieces: list[Piece] = []
        self._controls = base  # of the pieces
        self._gap = Gap()  # after the pieces
        self._lead = Gap()
        self._num_tags = self._alias_chars = 0
        self._breaks_s = 0.0
        self._expat = expat.ParserCreate("utf-8")
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._texts.append
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._expat.EntityDeclHandler = self._refuse_doctype

    def run(self) -> Document:
        try:
            self._expat.Parse(self._body.encode("utf-8", "surrogatepass"), True)
        except expat.ExpatError as error:
            hint = "Write & as &amp; and < as &lt;, close every tag, and put one <speak> around the whole text"
            raise MarkupInvalid(
                f"The SSML is not well formed: {expat.ErrorString(error.code)} "
                f"({self._at(error.lineno, error.offset)}). {hint}.",
                param="input",
            ) from None
        self._close_stretch()
        return Document(self._lead, tuple(self._stretches))

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._flush()
        parent, place = self._open[-1], self._place()
        self._check_tag(tag, attributes, parent, place)
        opened = _Open(tag, place, parent.controls)
        self._open.append(opened)
        values = {name: value for name, value in attributes.items() if name in _ATTRIBUTES[tag]}
        if tag in _BOUNDARIES:
            self._separate(Gap(None, _BOUNDARIES[tag]))
        elif tag == "break":
            self._break(values, opened)
        elif tag in _TEXT_ONLY:
            opened.value = self._spoken_value(tag, values, opened)
        else:
            opened.controls = self._changed(tag, values, opened)

    def _end(self, tag: str) -> None:
        opened = self._open[-1]
        if tag in _TEXT_ONLY:
            text = _BLANKS.sub(" ", "".join(self._texts)).strip()
            self._texts.clear()
            if not text:
                raise MarkupInvalid(f"<{tag}> encloses no text ({opened.place}). Write the text in it.", param="input")
            if tag == "phoneme" and not _fits(text, len(opened.value.split())):
                raise MarkupInvalid(
                    f"<phoneme> gives {text!r} the pinyin {opened.value!r} ({opened.place}). Write one syllable per "
                    "character; 儿 may be part of the syllable before it.",
                    param="input",
                )
            self._add(Piece(text, tag, opened.value), opened.controls)
        else:
            self._flush()
        self._open.pop()
        if tag in _BOUNDARIES:
            self._separate(Gap(None, _BOUNDARIES[tag]))

    def _check_tag(self, tag: str, attributes: Mapping[str, str], parent: _Open, place: str) -> None:
        self._num_tags += 1
        if self._num_tags > MAX_TAGS or len(self._open) > MAX_DEPTH:
            raise MarkupInvalid(
                f"The SSML has more than {MAX_TAGS} tags, or tags more than {MAX_DEPTH} deep ({place}). Simplify it.",
                param="input",
            )
        if tag not in _ATTRIBUTES:
            raise MarkupInvalid(
                f"The tag <{tag}> is not known ({place}). The tags: {', '.join(_ATTRIBUTES)}.", param="input"
            )
        misplaced = (
            (not parent.tag and tag != "speak")
            or parent.tag in _TEXT_ONLY | {"break"}
            or (parent.tag == "s" and tag in {"s", "p", "speak"})
            or (parent.tag == "p" and tag in {"p", "speak"})
        )
        if misplaced:
            inside = f"inside <{parent.tag}>" if parent.tag else "outside <speak>"
            raise MarkupInvalid(f"<{tag}> cannot stand {inside} ({place}). Take it out.", param="input")
        for name in attributes:
            if name not in _ATTRIBUTES[tag] and not (tag == "speak" and _IGNORED.fullmatch(name)):
                known = ", ".join(sorted(_ATTRIBUTES[tag])) or "none"
                raise MarkupInvalid(
                    f"<{tag}> has no attribute {name} ({place}). Its attributes: {known}.", param="input"
                )
        required = _REQUIRED.get(tag)
        if required and required not in attributes:
            raise MarkupInvalid(f"<{tag}> needs the attribute {required} ({place}).", param="input")

    def _spoken_value(self, tag: str, values: Mapping[str, str], opened: _Open) -> str:
        value = values.get(_REQUIRED.get(tag, ""), "")
        if tag == "phoneme":
            if values.get("alphabet", "py") != "py":
                raise self._wrong(opened, "alphabet", values["alphabet"], "py")
            value = " ".join(self._value(opened, "ph", value, ssml_values.syllables))
        elif tag == "say-as" and value not in say_as.KINDS:
            raise self._wrong(opened, "interpret-as", value, ", ".join(say_as.KINDS))
        self._alias_chars += len(value)
        if self._alias_chars > MAX_ALIAS_CHARS:
            raise MarkupInvalid(
                f"Attributes that are spoken have more than {MAX_ALIAS_CHARS} characters together ({opened.place}). "
                "Send the text in several requests.",
                param="input",
            )
        return value

    def _break(self, values: Mapping[str, str], opened: _Open) -> None:
        if "time" in values:
            length_s = self._value(opened, "time", values["time"], ssml_values.seconds)
        else:
            length_s = self._value(opened, "strength", values.get("strength", "medium"), ssml_values.strength)
        self._breaks_s += length_s
        if self._breaks_s > MAX_BREAKS_S:
            raise MarkupInvalid(
                f"The breaks are longer than {MAX_BREAKS_S:g} s together ({opened.place}). Shorten them.", param="input"
            )
        if length_s > 0:
            self._separate(Gap(length_s))

    def _changed(self, tag: str, values: Mapping[str, str], opened: _Open) -> Controls:
        controls = opened.controls
        try:
            if "voice" in values:
                controls = self._cast.with_voice(controls, values["voice"])
            if "category" in values:
                controls = replace(self._cast.with_emotion(controls, values["category"]), emotion_intensity=1.0)
        except (VoiceNotFound, EmotionNotFound) as error:
            raise type(error)(f"{error.message.rstrip('.')} (<{tag}>, {opened.place}).", param="input") from None
        if "intensity" in values:
            strength = self._value(opened, "intensity", values["intensity"], ssml_values.intensity)
            controls = replace(controls, emotion_intensity=strength)
        scales = tag == "prosody"
        if "rate" in values:
            factor = self._value(opened, "rate", values["rate"], ssml_values.speed)
            controls = replace(controls, speed=_clip(factor * (controls.speed if scales else 1.0), _SPEED))
        if "pitch" in values:
            shift = self._value(opened, "pitch", values["pitch"], ssml_values.semitones)
            controls = replace(controls, pitch=_clip(shift + (controls.pitch if scales else 0.0), _PITCH))
        if "volume" in values:
            factor = self._value(opened, "volume", values["volume"], ssml_values.volume)
            controls = replace(controls, volume=_clip(factor * (controls.volume if scales else 1.0), _VOLUME))
        return controls

    def _value(self, opened: _Open, name: str, text: str, read: Callable[[str], _T]) -> _T:
        try:
            return read(text)
        except ValueError as error:
            raise self._wrong(opened, name, text, str(error)) from None

    def _wrong(self, opened: _Open, name: str, text: str, accepted: str) -> MarkupInvalid:
        shown = text if len(text) <= 40 else text[:40] + "..."
        message = f"<{opened.tag} {name}={shown!r}> is wrong ({opened.place}). Use {accepted}."
        return MarkupInvalid(message, param="input")

    def _flush(self) -> None:
        """Takes the text since the last tag."""
        text = _BLANKS.sub(" ", "".join(self._texts))
        self._texts.clear()
        is_separated = not self._pieces or self._gap != Gap()
        if text and not (text == " " and is_separated):
            self._add(Piece(text), self._open[-1].controls)

    def _add(self, piece: Piece, controls: Controls) -> None:
        if self._gap != Gap() or (self._pieces and controls != self._controls):
            self._close_stretch()
        self._pieces.append(piece)
        self._controls = controls

    def _separate(self, gap: Gap) -> None:
        if self._pieces:
            self._gap = self._gap.joined(gap)
        else:
            self._lead = self._lead.joined(gap)

    def _close_stretch(self) -> None:
        if self._pieces:
            self._stretches.append(Stretch(self._controls, tuple(self._pieces), self._gap))
        self._pieces, self._gap = [], Gap()

    def _refuse_doctype(self, *_: object) -> None:
        raise MarkupInvalid(
            f"The SSML declares a document type or entities, which is not allowed ({self._place()}). Remove them.",
            param="input",
        )

    def _place(self) -> str:
        return self._at(self._expat.CurrentLineNumber, self._expat.CurrentColumnNumber)

    def _at(self, line: int, column: int) -> str:
        first = self._columns_before if line == 1 else 0
        return f"line {line + self._lines_before}, column {column + first + 1}"


def _fits(text: str, num_syllables: int) -> bool:
    """Whether a text of Chinese characters has so many syllables; any other text may have any number."""
    return not _HAN.fullmatch(text) or len(text) - text.count("儿") <= num_syllables <= len(text)


def _clip(number: float, bounds: tuple[float, float]) -> float:
    return min(max(number, bounds[0]), bounds[1])
