"""The page in a real browser, in front of the real stages in this process."""

import pytest
import pytest_asyncio
from browser import FLAGS, BrowserMissing, chromium
from helpers import PATIENCE_S
from playwright.async_api import async_playwright, expect
from stage import Stage, serving

from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_stage():
    async with Stage() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def stage(shared_stage):
    """The stages, as they are before any test has touched them."""
    shared_stage.reset()
    yield shared_stage
    if shared_stage.hold:
        shared_stage.hold.set()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def address(shared_stage):
    async with serving(build_app(shared_stage, IngressSettings())) as url:
        yield url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser():
    expect.set_options(timeout=1000 * PATIENCE_S)
    async with async_playwright() as playwright:
        try:
            path = chromium(playwright.chromium.executable_path)
        except BrowserMissing as missing:
            pytest.fail(str(missing))
        launched = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(browser, address, stage):
    """Opens the page in a browser profile of its own; whatever goes wrong in its scripts fails the test."""
    contexts = []
    faults = []

    async def make(language="en", **options):
        context = await browser.new_context(locale=language, accept_downloads=True, **options)
        context.set_default_timeout(1000 * PATIENCE_S)
        contexts.append(context)
        page = await context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
        await page.goto(address)
        await expect(page.locator("#service")).to_have_attribute("data-state", "ready")
        return page

    make.faults = faults
    yield make
    for context in contexts:
        await context.close()
    assert not faults
