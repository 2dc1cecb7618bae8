"""From a request's text to its segments: the memo, then the front end on its own threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from deployments.errors import Overloaded
from deployments.messages import Controls, SpeechRequest, TextAnalysis
from deployments.normalization.cache.memo import TextMemo
from deployments.normalization.lexicons import Lexicons
from deployments.normalization.markup import read_markup
from deployments.normalization.text import ssml
from deployments.normalization.text.frontend import FrontEnd, Pauses
from deployments.normalization.text.lexicon import Lexicon
from deployments.normalization.text.marked import MarkedText, mark
from deployments.normalization.text.ssml_document import Stretch
from deployments.normalization.voices import Voices
from deployments.settings import NormalizerSettings


class Analyser:
    """Reads the texts of requests. Belongs to one event loop.

    Args:
        settings: Length of segments, pauses, threads.
        voices: What is served.
        lexicons: Readings that users have fixed.
        memo: Keeps what was read.
        front_end: Reads.
    """

    def __init__(
        self,
        settings: NormalizerSettings,
        voices: Voices,
        lexicons: Lexicons,
        memo: TextMemo,
        front_end: FrontEnd,
    ) -> None:
        self._max_segment_chars = settings.max_segment_chars
        self._pauses = Pauses(
            sentence_s=settings.pause_sentence_s,
            clause_s=settings.pause_clause_s,
            paragraph_s=settings.pause_paragraph_s,
        )
        self._voices = voices
        self._lexicons = lexicons
        self._memo = memo
        self._front_end = front_end
        self._threads = ThreadPoolExecutor(settings.text_threads, thread_name_prefix="front-end")

    def close(self) -> None:
        """Gives the threads back."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def analyse(self, request: SpeechRequest) -> TextAnalysis:
        """The segments of a request.

        Raises:
            Overloaded: The request is cached_only and its text was not read lately.
            VoiceNotFound: The voice is not served.
            EmotionNotFound: The voice has no such emotion.
            MarkupInvalid: The text is SSML and wrong.
            TextNotSpeakable: Nothing in the text can be spoken.
        """
        base = self._voices.controls(request)
        is_markup = ssml.is_markup(request.text)
        names = self._voices.names if is_markup else (base.voice,)
        lexicons = {name: await self._lexicons.of(name) for name in names}
        # Everything that decides the analysis, so that no earlier reading is served after a change.
        context: tuple[Hashable, ...] = (
            base if is_markup else (base.voice, base.emotion),
            request.normalize,
            *((name, lexicon.fingerprint) for name, lexicon in lexicons.items()),
        )
        if (known := self._memo.get(request.text, *context)) is not None:
            return known
        if request.cached_only:
            raise Overloaded("There is no room for a text that is not known; retry.", retry_after_s=1.0)
        read = partial(self._read, normalize=request.normalize, lexicons=lexicons)
        if is_markup:
            work = partial(read_markup, request.text, base, self._voices, partial(self._stretch, read), self._pauses)
        else:
            work = partial(read, request.text, base)
        analysis = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._memo.put(analysis, request.text, *context)
        return analysis

    def _stretch(self, read: Callable[[MarkedText, Controls], TextAnalysis], stretch: Stretch) -> TextAnalysis:
        english = self._voices.find(stretch.controls.voice).has_english
        return read(mark(stretch.pieces, self._front_end, english=english), stretch.controls)

    def _read(
        self, text: str | MarkedText, controls: Controls, *, normalize: bool, lexicons: Mapping[str, Lexicon]
    ) -> TextAnalysis:
        voice = self._voices.find(controls.voice)
        return self._front_end.analyse(
            text,
            normalize=normalize,
            emotion=controls.emotion,
            speaker=voice.speaker,
            max_segment_chars=self._max_segment_chars,
            has_english=voice.has_english,
            pauses=self._pauses,
            lexicon=lexicons[voice.name],
            phrase_break=voice.phrase_break,
        )
