"""What the HTTP surface needs of the stages behind it, whether they run in this process or under Ray Serve."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from deployments.messages import SpeechRequest, SpokenSegment, StageStatus, TextAnalysis, VoiceInfo


class SpeechService(Protocol):
    """The stages as the ingress sees them."""

    def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """Synthesises a text segment by segment.

        Args:
            request: Checked: the voice is served, the emotion is one of the voice's, numbers are in range.

        Returns:
            An async generator of the segments in order. Closing it, or cancelling the task that awaits its next item,
            gives up what is not finished. Whatever can be refused is raised before the first segment.

        Raises:
            SpeechError: From the generator: the text is refused, a stage failed, is overloaded or ran out of time.
        """
        ...

    async def analyse(self, text: str, voice: str, normalize: bool) -> TextAnalysis:
        """What would be spoken.

        Args:
            text: Plain text or SSML.
            voice: Name of a voice that is served.
            normalize: False for text that is already words.

        Raises:
            SpeechError: The text is refused or the stage cannot answer.
        """
        ...

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that are served; exactly one is the default. Asked for on every request, so answer from memory."""
        ...

    async def stages(self) -> tuple[StageStatus, ...]:
        """Whether each stage can serve now."""
        ...

    async def purge(self, voice: str | None) -> int:
        """Forgets the cached segments of a voice, or of all voices where it is None.

        Returns:
            How many entries were removed, from the caches of all replicas.

        Raises:
            SpeechError: Not all of them could be removed.
        """
        ...
