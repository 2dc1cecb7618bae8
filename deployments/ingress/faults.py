"""Every failure of the HTTP surface in the one JSON shape."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deployments.errors import InvalidRequest, MethodNotAllowed, NotFound, SpeechError, TooLarge
from deployments.ingress.wire import explain

log = logging.getLogger("deployments.ingress")


def respond(error: SpeechError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer for an error; texts that are no valid Unicode are escaped, so that it can always be sent.

    Args:
        error: What went wrong.
        headers: Further headers.
    """
    extra = dict(headers or {})
    if error.retry_after_s is not None:
        extra["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.status == 401:
        extra["www-authenticate"] = "Bearer"
    body = json.dumps(error.body(), ensure_ascii=False).encode("utf-8", errors="backslashreplace")
    return Response(body, status_code=error.status, media_type="application/json", headers=extra)


def handle_faults(app: FastAPI) -> None:
    """Makes an app answer every refusal, its own and the framework's, in the one shape."""

    @app.exception_handler(SpeechError)
    async def _speech_error(request: Request, error: SpeechError) -> Response:
        return respond(error)

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, error: RequestValidationError) -> Response:
        return respond(_invalid(request, error))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        return respond(_from_http(request, error), error.headers)


def speech_error(error: BaseException) -> SpeechError | None:
    """The error of our own tree in an exception or among its causes (Starlette wraps those that come mid-answer)."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, SpeechError):
        seen = seen.__cause__
    return seen


@contextmanager
def naming(field: str) -> Iterator[None]:
    """Lets refusals of the text name the field that carries it on this route."""
    try:
        yield
    except SpeechError as error:
        if error.param in ("text", "input"):
            error.param = field
        raise


def unexpected(error: BaseException, request_id: str) -> SpeechError:
    """What a caller is told of a fault of ours; the log has the rest."""
    log.error("request %s failed", request_id, exc_info=error)
    return SpeechError(f"The service failed on this request; its log tells why. Request id: {request_id}.")


def _invalid(request: Request, error: RequestValidationError) -> SpeechError:
    faults = error.errors()
    for fault in faults:
        if fault["type"] == "json_invalid":
            return InvalidRequest(
                f"The body is not JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}. "
                "Check quotes, commas and braces."
            )
    return explain(faults, _body_model(request))


def _body_model(request: Request) -> type[BaseModel] | None:
    field = getattr(request.scope.get("route"), "body_field", None)
    annotation: Any = getattr(getattr(field, "field_info", None), "annotation", None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _from_http(request: Request, error: HTTPException) -> SpeechError:
    path = request.url.path
    if error.status_code == 404:
        return NotFound(f"There is nothing at {path}. GET /docs lists what there is.")
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        return MethodNotAllowed(f"{path} does not take {request.method}. Use {allowed}.")
    if error.status_code == 413:
        return TooLarge("The body is larger than the service takes. Send less.")
    if error.status_code == 400:
        return InvalidRequest("The body cannot be read as JSON in UTF-8. Send one JSON object.")
    log.warning("unforeseen status %d of the framework: %s", error.status_code, error.detail)
    return InvalidRequest(str(error.detail)) if error.status_code < 500 else SpeechError(str(error.detail))
