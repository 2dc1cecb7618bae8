"""What only operators may do, with a key from the environment; without one there are no such paths."""

from __future__ import annotations

import hmac
import os
from typing import Annotated

from fastapi import APIRouter, Depends, Header

from deployments.errors import InvalidRequest, KeyRejected, NotReady, TooLarge
from deployments.ingress.bodies import PurgeBody
from deployments.ingress.openapi import describe_errors
from deployments.ingress.replies import PurgeReply
from deployments.ingress.service import SpeechService
from deployments.settings import IngressSettings


def routes(service: SpeechService, settings: IngressSettings) -> APIRouter:
    """The routes under /admin, or none where no key is set.

    Args:
        service: The stages behind them.
        settings: Name of the environment variable that holds the key.
    """
    router = APIRouter(tags=["operation"])
    key = os.environ.get(settings.admin_key_env, "").encode()
    if not key:
        return router

    async def check_key(
        authorization: Annotated[str, Header(description="Bearer and the admin key.")] = "",
    ) -> None:
        scheme, _, sent = authorization.partition(" ")
        right = hmac.compare_digest(sent.strip().encode("utf-8", "surrogatepass"), key)
        if scheme.lower() != "bearer" or not right:
            raise KeyRejected("The admin key is missing or wrong. Send it as: authorization: Bearer KEY.")

    @router.post(
        "/admin/cache/purge",
        summary="Forget cached segments",
        dependencies=[Depends(check_key)],
        responses=describe_errors(KeyRejected, InvalidRequest, TooLarge, NotReady),
    )
    async def purge(body: PurgeBody | None = None) -> PurgeReply:
        """Forgets the cached segments of a voice, or of all voices; they are synthesised anew when they are needed."""
        return PurgeReply(removed=await service.purge(body.voice if body else None))

    return router
