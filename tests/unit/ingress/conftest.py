"""The real application around a service of tones, and a client of it."""

import contextlib

import httpx
import pytest
from ingress_double import Tones

from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings


class Switch:
    """Passes calls on to the service of the test that runs, so that tests may share an application."""

    def __init__(self):
        self.target = None

    def __getattr__(self, name):
        return getattr(self.target, name)


@pytest.fixture(scope="session")
def app_of():
    """Applications by their settings, made once; each serves what was asked for last."""
    made = {}

    def make(service, **settings):
        key = tuple(sorted(settings.items()))
        if key not in made:
            switch = Switch()
            made[key] = switch, build_app(switch, IngressSettings(**settings))
        switch, app = made[key]
        switch.target = service
        return app

    return make


@pytest.fixture
def tones():
    return Tones()


@pytest.fixture(scope="session")
def client_of(app_of):
    """Makes clients of an application with these settings; faults of the application come as answers."""

    @contextlib.asynccontextmanager
    async def make(service, **settings):
        transport = httpx.ASGITransport(app=app_of(service, **settings), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ingress") as client:
            yield client

    return make


@pytest.fixture
async def client(client_of, tones):
    async with client_of(tones) as made:
        yield made
