"""The HTTP application around a SpeechService."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.middleware.cors import CORSMiddleware

from deployments.errors import MarkupInvalid, TextNotSpeakable, VoiceNotFound
from deployments.ingress import admin_routes, live_routes, older_routes, operation, page_routes, speech_routes
from deployments.ingress.admission import Admission
from deployments.ingress.admitted import Admitted
from deployments.ingress.asking import charge, left_s
from deployments.ingress.bodies import AnalysisBody
from deployments.ingress.faults import handle_faults, naming
from deployments.ingress.gate import Gate
from deployments.ingress.keys import ApiKeys
from deployments.ingress.logged import note_text
from deployments.ingress.middleware import BodyLimit, Envelope
from deployments.ingress.openapi import describe_errors, finish_openapi
from deployments.ingress.replies import AnalysisReply, VoicesReply, analysis_reply, voices_reply
from deployments.ingress.service import SpeechService
from deployments.ingress.tasks import Tasks
from deployments.ingress.tasks_open import open_task_store
from deployments.ingress.waiting import while_wanted
from deployments.ingress.wire import check_length
from deployments.settings import CacheSettings, IngressSettings
from deployments.voices.served import find_voice


def build_app(
    service: SpeechService,
    settings: IngressSettings,
    *,
    cache: CacheSettings | None = None,
    admission: Admission | None = None,
    adds_request_id: bool = True,
) -> FastAPI:
    """The whole HTTP surface.

    Args:
        service: The stages behind it.
        settings: Limits of requests and answers.
        cache: Tells where the results of tasks are kept; None for its defaults.
        admission: What is taken on here and, where it is shared, elsewhere; None for one of its own.
        adds_request_id: Whether answers get the header x-request-id; False behind Ray Serve's proxy, which adds it.

    Returns:
        An ASGI application. At its shutdown (or `app.state.tasks.close()`) tasks in progress are brought to an end.

    Raises:
        ConfigurationInvalid: The store of tasks cannot be where the settings say, or the API keys cannot be read.
    """
    keys = ApiKeys(settings)
    admission = admission or Admission(settings)
    admitted = Admitted(service, admission)
    tasks = Tasks(admitted.background(), settings, open_task_store(settings.tasks, cache or CacheSettings()))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await tasks.close()

    app = FastAPI(
        title="sambert-serve",
        summary="Chinese text to emotional speech with Sambert and HifiGan.",
        description=live_routes.DESCRIPTION,
        version=version("sambert-serve"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    app.docs_url = "/docs"  # our own page stands there; Ray's dashboard links to it
    app.state.tasks = tasks
    handle_faults(app)
    app.add_middleware(BodyLimit, settings=settings, refused=admission.refuse)
    app.add_middleware(Gate, settings=settings, keys=keys, admission=admission)
    app.add_middleware(Envelope, adds_header=adds_request_id)
    if settings.cors_origins:
        app.add_middleware(CORSMiddleware, **_cross_origin(settings))
    app.include_router(speech_routes.routes(admitted, settings))
    app.include_router(live_routes.routes(admitted, settings))
    for routes in (_voices, _analysis, operation.routes, admin_routes.routes):
        app.include_router(routes(admitted, settings))
    app.include_router(older_routes.routes(admitted, settings, tasks))
    app.include_router(page_routes.routes())
    finish_openapi(app, asks_for_keys=not keys.is_open)
    return app


def _cross_origin(settings: IngressSettings) -> dict[str, Any]:
    """What pages of other origins may send and read; keys go in headers, so that no cookies are needed."""
    return {
        "allow_origins": list(settings.cors_origins),
        "allow_methods": ["GET", "POST"],
        "allow_headers": ["authorization", "x-api-key", "content-type", "cache-control", "x-request-id", "range"],
        "expose_headers": ["x-request-id", "x-cache", "x-audio-duration-ms", "server-timing", "retry-after"],
    }


def _voices(service: SpeechService, _settings: IngressSettings) -> APIRouter:
    routes = APIRouter()

    @routes.get("/v1/audio/voices", tags=["speech"], summary="List the voices", responses=describe_errors())
    async def voices() -> VoicesReply:
        """Every voice that is served, with what it can do."""
        return voices_reply(await service.voices())

    return routes


def _analysis(service: SpeechService, settings: IngressSettings) -> APIRouter:
    routes = APIRouter()

    @routes.post(
        "/v1/text/analysis",
        tags=["text"],
        summary="Show what will be spoken",
        responses=describe_errors(TextNotSpeakable, MarkupInvalid, VoiceNotFound, synthesis=True),
    )
    async def analysis(body: AnalysisBody, request: Request) -> AnalysisReply:
        """The reading of a text, without speaking it: normalised words, pinyin after tone change, symbols."""
        voice = find_voice(body.voice_name, await service.voices())
        check_length(body.input, settings)
        note_text(request.scope, body.input, settings)
        charge(request, len(body.input))
        with naming("input"):
            work = service.analyse(body.input, voice.name, body.normalize)
            return analysis_reply(await while_wanted(work, request.receive, left_s(request)))

    return routes
