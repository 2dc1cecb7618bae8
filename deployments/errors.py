"""The error tree: every fault a user or operator can meet, with its code, HTTP status and the fix.

Errors cross Ray handles, so each one pickles by its constructor arguments alone.
"""

from __future__ import annotations

from typing import Any, ClassVar


class SpeechError(Exception):
    """A fault with a stable code, an HTTP status and a message that says what is wrong and how to fix it.

    Args:
        message: One or two sentences; the last one names the fix.
        param: The request field, settings key or file at fault, or None.
        retry_after_s: Seconds after which a retry makes sense, or None.
    """

    code: ClassVar[str] = "internal_error"
    type: ClassVar[str] = "server_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, param: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.param, self.retry_after_s)

    def body(self) -> dict[str, dict[str, str | None]]:
        """The one JSON shape of every error answer."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


class InvalidRequest(SpeechError):
    """A field of the request is missing, malformed or out of range."""

    code = "invalid_request"
    type = "invalid_request_error"
    status = 400


class VoiceNotFound(InvalidRequest):
    """The request names a voice that is not served."""

    code = "voice_not_found"


class EmotionNotFound(InvalidRequest):
    """The request names an emotion that the voice does not have."""

    code = "emotion_not_found"


class TextNotSpeakable(InvalidRequest):
    """Nothing in the text can be spoken."""

    code = "text_not_speakable"


class MarkupInvalid(InvalidRequest):
    """The SSML is not well formed or uses a tag or attribute that is not known."""

    code = "markup_invalid"


class KeyRejected(SpeechError):
    """An API key is missing or wrong."""

    code = "invalid_api_key"
    type = "authentication_error"
    status = 401


class OriginRefused(SpeechError):
    """A web page of another origin opened a WebSocket; ingress.cors_origins names those that may."""

    code = "origin_not_allowed"
    type = "invalid_request_error"
    status = 403


class NotFound(SpeechError):
    """No such path, task or audio."""

    code = "not_found"
    type = "invalid_request_error"
    status = 404


class ModelNotFound(NotFound):
    """The request names a model that is not served."""

    code = "model_not_found"


class MethodNotAllowed(SpeechError):
    """The path exists, the method does not."""

    code = "method_not_allowed"
    type = "invalid_request_error"
    status = 405


class TooLarge(SpeechError):
    """The body or the text is longer than the service takes."""

    code = "too_large"
    type = "invalid_request_error"
    status = 413


class HeadersTooLarge(TooLarge):
    """Address, query and headers together are longer than the service takes."""

    code = "headers_too_large"
    status = 431


class Overloaded(SpeechError):
    """The service has more work than it can finish in time."""

    code = "overloaded"
    type = "rate_limit_error"
    status = 429


class RateLimited(SpeechError):
    """The key has sent as many requests or characters in this minute as it may."""

    code = "rate_limit_exceeded"
    type = "rate_limit_error"
    status = 429


class ClientGone(SpeechError):
    """The caller went away before the answer was complete."""

    code = "client_gone"
    type = "invalid_request_error"
    status = 499


class SynthesisFailed(SpeechError):
    """A model raised or returned something that is not audio."""

    code = "synthesis_failed"


class NotReady(SpeechError):
    """A stage cannot serve now."""

    code = "not_ready"
    status = 503


class ReplicaLost(NotReady):
    """The replica that worked on a request died; the same request may be sent again."""

    code = "replica_lost"


class DeadlineExceeded(SpeechError):
    """The answer was not finished within the request's time limit."""

    code = "deadline_exceeded"
    status = 504


class StageStuck(DeadlineExceeded):
    """A batch ran past its own time limit; its requests fail alone."""

    code = "stage_stuck"


class ConfigurationInvalid(SpeechError):
    """A settings key or configuration file is wrong; raised at start-up."""

    code = "configuration_invalid"


class VoiceInvalid(ConfigurationInvalid):
    """A voice folder, its download or one of its files is wrong; raised at start-up."""

    code = "voice_invalid"


def all_errors() -> list[type[SpeechError]]:
    """Every error class of the tree, the root first, in order of definition."""
    found: list[type[SpeechError]] = []
    queue: list[type[SpeechError]] = [SpeechError]
    while queue:
        error = queue.pop(0)
        found.append(error)
        queue.extend(error.__subclasses__())
    return found
