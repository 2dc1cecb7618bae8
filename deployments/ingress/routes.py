"""The HTTP application around a SpeechService."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, FastAPI, Header, Request
from starlette.responses import Response

from deployments.errors import EmotionNotFound, MarkupInvalid, TextNotSpeakable, VoiceNotFound
from deployments.ingress import operation, page_routes
from deployments.ingress.answer import streamed_answer, while_wanted, whole_answer
from deployments.ingress.faults import handle_faults, naming
from deployments.ingress.middleware import BodyLimit, Envelope
from deployments.ingress.openapi import AUDIO_REPLY, WAV_REPLY, describe_errors, finish_openapi
from deployments.ingress.replies import AnalysisReply, VoicesReply, analysis_reply, voices_reply
from deployments.ingress.service import SpeechService
from deployments.ingress.wire import AnalysisBody, SpeechBody, TtsBody, check_length, find_voice, to_request
from deployments.settings import IngressSettings

TEXT_ERRORS = (TextNotSpeakable, MarkupInvalid, VoiceNotFound)
CacheControl = Annotated[
    str, Header(description="no-cache: synthesise anew instead of answering from the cache.", examples=["no-cache"])
]


def build_app(service: SpeechService, settings: IngressSettings, *, adds_request_id: bool = True) -> FastAPI:
    """The whole HTTP surface.

    Args:
        service: The stages behind it.
        settings: Limits of requests and answers.
        adds_request_id: Whether answers get the header x-request-id; False behind Ray Serve's proxy, which adds it.

    Returns:
        An ASGI application.
    """
    app = FastAPI(
        title="sambert-serve",
        summary="Chinese text to emotional speech with Sambert and HifiGan.",
        version=version("sambert-serve"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    handle_faults(app)
    app.add_middleware(BodyLimit, settings=settings)
    app.add_middleware(Envelope, adds_header=adds_request_id)
    for routes in (_speech, _tts, _voices, _analysis):
        app.include_router(routes(service, settings))
    app.include_router(operation.routes(service, settings))
    app.include_router(page_routes.routes())
    finish_openapi(app)
    return app


def _speech(service: SpeechService, settings: IngressSettings) -> APIRouter:
    routes = APIRouter()

    @routes.post(
        "/v1/audio/speech",
        tags=["speech"],
        summary="Speak a text",
        response_class=Response,
        responses={200: AUDIO_REPLY, **describe_errors(*TEXT_ERRORS, EmotionNotFound, synthesis=True)},
    )
    async def speech(body: SpeechBody, request: Request, cache_control: CacheControl = "") -> Response:
        """Speaks a text in a voice and emotion; takes what OpenAI's speech endpoint takes, and more."""
        message = to_request(
            body,
            await service.voices(),
            settings,
            request_id=request.state.request_id,
            use_cache=_allows_cache(cache_control),
        )
        as_events = body.stream_format == "sse"
        with naming("input"):
            if body.stream or as_events:
                return await streamed_answer(
                    service, message, body.response_format, settings, request, as_events=as_events
                )
            return await whole_answer(service, message, body.response_format, settings, request)

    return routes


def _tts(service: SpeechService, settings: IngressSettings) -> APIRouter:
    routes = APIRouter()

    @routes.post(
        "/tts",
        tags=["older services"],
        summary="Speak a text as a wav file",
        response_class=Response,
        responses={200: WAV_REPLY, **describe_errors(*TEXT_ERRORS, EmotionNotFound, synthesis=True)},
    )
    async def tts(body: TtsBody, request: Request, cache_control: CacheControl = "") -> Response:
        """Speaks a text; the answer is a wav file to be saved as speech.wav."""
        with naming("text"):
            message = to_request(
                body.to_speech(),
                await service.voices(),
                settings,
                request_id=request.state.request_id,
                use_cache=_allows_cache(cache_control),
            )
            response = await whole_answer(service, message, "wav", settings, request)
        response.headers["content-disposition"] = 'attachment; filename="speech.wav"'
        return response

    return routes


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
        responses=describe_errors(*TEXT_ERRORS, synthesis=True),
    )
    async def analysis(body: AnalysisBody, request: Request) -> AnalysisReply:
        """The reading of a text, without speaking it: normalised words, pinyin after tone change, symbols."""
        voice = find_voice(body.voice_name, await service.voices())
        check_length(body.input, settings)
        with naming("input"):
            work = service.analyse(body.input, voice.name, body.normalize)
            return analysis_reply(await while_wanted(work, request.receive, settings.request_timeout_s))

    return routes


def _allows_cache(cache_control: str) -> bool:
    """False when the header holds the directive no-cache (RFC 9111, 5.2.1.4) or no-store."""
    directives = {directive.partition("=")[0].strip().lower() for directive in cache_control.split(",")}
    return not directives & {"no-cache", "no-store"}
