"""From a request's text to its segments: the memo, then the front end on its own threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from deployments.messages import SpeechRequest, TextAnalysis
from deployments.normalization.cache.memo import TextMemo
from deployments.normalization.lexicons import Lexicons
from deployments.normalization.text.frontend import FrontEnd, Pauses
from deployments.normalization.voices import Voices, check_emotion
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
            VoiceNotFound: The voice is not served.
            EmotionNotFound: The voice has no such emotion.
            TextNotSpeakable: Nothing in the text can be spoken.
        """
        voice = self._voices.find(request.voice)
        check_emotion(voice, request.emotion)
        lexicon = await self._lexicons.of(voice.name)
        # Everything that decides the analysis, so that no earlier reading is served after a change.
        context = (
            voice.name,
            voice.fingerprint,
            voice.phrase_break,
            request.emotion,
            request.normalize,
            lexicon.fingerprint,
        )
        if (known := self._memo.get(request.text, *context)) is not None:
            return known
        work = partial(
            self._front_end.analyse,
            request.text,
            normalize=request.normalize,
            emotion=request.emotion,
            speaker=voice.speaker,
            max_segment_chars=self._max_segment_chars,
            has_english=voice.has_english,
            pauses=self._pauses,
            lexicon=lexicon,
            phrase_break=voice.phrase_break,
        )
        analysis = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        self._memo.put(analysis, request.text, *context)
        return analysis
