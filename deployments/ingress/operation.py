"""What operators and clients ask about the service itself: health, readiness, models, documentation."""

from __future__ import annotations

import time
from importlib import resources

from fastapi import APIRouter, Request
from starlette.responses import Response

from deployments.errors import DeadlineExceeded, NotReady
from deployments.ingress.openapi import describe_errors
from deployments.ingress.replies import HealthReply, ModelReply, ModelsReply, ReadyReply, StageReply
from deployments.ingress.service import SpeechService
from deployments.ingress.waiting import while_wanted
from deployments.settings import IngressSettings

OWNER = "sambert-serve"


def routes(service: SpeechService, settings: IngressSettings) -> APIRouter:
    """The routes that speak no text.

    Args:
        service: The stages behind the ingress.
        settings: Limits and model names.
    """
    router = APIRouter()
    started = int(time.time())
    page = resources.files(__package__).joinpath("page", "docs.html").read_bytes()

    @router.get("/v1/models", tags=["speech"], summary="List the models", responses=describe_errors())
    async def models() -> ModelsReply:
        """OpenAI's list of models."""
        return ModelsReply(data=[ModelReply(id=settings.model_id, created=started, owned_by=OWNER)])

    @router.get("/healthz", tags=["operation"], summary="Does the process live?", responses=describe_errors())
    async def healthz() -> HealthReply:
        """200 while the process lives."""
        return HealthReply()

    @router.get("/readyz", tags=["operation"], summary="Can every stage serve?", responses=describe_errors(NotReady))
    async def readyz(request: Request) -> ReadyReply:
        """200 when every stage can serve, else 503 with which stage and why."""
        try:
            stages = await while_wanted(service.stages(), request.receive, settings.readiness_timeout_s)
        except DeadlineExceeded:
            raise NotReady(f"The stages did not answer within {settings.readiness_timeout_s} s; retry.") from None
        faults = [f"{stage.stage}: {stage.reason or 'not ready'}" for stage in stages if not stage.ready]
        if faults:
            raise NotReady(f"Not every stage can serve. {'; '.join(faults)}.", retry_after_s=1.0)
        return ReadyReply(
            stages=[StageReply(stage=stage.stage, ready=stage.ready, reason=stage.reason) for stage in stages]
        )

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """The documentation as a page that needs nothing from elsewhere."""
        return Response(page, media_type="text/html; charset=utf-8")

    return router
