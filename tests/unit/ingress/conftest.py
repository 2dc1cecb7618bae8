"""The real application around a service of tones, and a client of it."""

import contextlib

import httpx
import pytest
from ingress_double import Tones

from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings


@pytest.fixture
def tones():
    return Tones()


@pytest.fixture
def client_of():
    """Makes clients of an application built with these settings; faults of the application come as answers."""

    @contextlib.asynccontextmanager
    async def make(service, **settings):
        app = build_app(service, IngressSettings(**settings))
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ingress") as client:
            yield client

    return make


@pytest.fixture
async def client(client_of, tones):
    async with client_of(tones) as made:
        yield made
