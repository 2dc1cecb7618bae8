"""The real application around a service of tones, and a client of it."""

import asyncio
import contextlib

import httpx
import pytest
from ingress_double import Switch, Tones

from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings, TaskSettings


@pytest.fixture(scope="session")
def app_of(tmp_path_factory):
    """The application in front of a service, with these settings: one for all tests, since making one takes long."""
    service, settings = Switch(), Switch()
    settings.target = IngressSettings(tasks=TaskSettings(folder=str(tmp_path_factory.mktemp("tasks"))))
    tasks = settings.target.tasks.model_dump()
    app = build_app(service, settings)

    def make(target, **changed):
        service.target = target
        settings.target = IngressSettings.model_validate({"tasks": tasks, **changed})
        return app

    yield make
    asyncio.run(app.state.tasks.close())


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
