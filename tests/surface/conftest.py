"""The whole HTTP surface in front of the real stages in this process, as a server on this machine."""

import sys
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "ingress"))
sys.path.insert(0, str(Path(__file__).parents[1] / "cache_backends"))

from surface_server import serving

from deployments.command.pipeline import Pipeline
from deployments.ingress.routes import build_app
from deployments.settings import Settings


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    tasks = {"folder": str(tmp_path_factory.mktemp("tasks"))}
    return Settings.load({"cache": {"tier": "none"}, "ingress": {"tasks": tasks}})


@pytest.fixture(scope="session")
def pipeline(settings):
    """The real stages with the bundled voice. They belong to the loop of the server, see Running.call."""
    return Pipeline(settings)


@pytest.fixture(scope="session")
def surface(pipeline, settings):
    """A server in front of the real stages."""
    with serving(build_app(pipeline, settings.ingress)) as running:
        running.submit(pipeline.__aenter__()).result()
        yield running
        running.submit(pipeline.__aexit__()).result()


@pytest.fixture
async def real(surface):
    """A client of that server."""
    async with httpx.AsyncClient(base_url=surface.address, timeout=60) as client:
        yield client
