"""What the tests of the page ask of it: conditions awaited in the page itself, samples read from its state."""

from __future__ import annotations

import asyncio
import base64

import httpx
import numpy as np

PATIENCE_S = 20.0
SHORT = "您好，欢迎致电客服中心，请稍候。"
TWO_SENTENCES = "今天天气很好。我们一起去公园吧。"


async def until(page, condition):
    """Waits until a JavaScript expression holds, looked at once per frame; its value when it does.

    Playwright's own wait_for_function evaluates strings in the page, which the page's security policy forbids.
    """
    script = (
        "() => new Promise((resolve) => { const look = () => { const value = (CONDITION); "
        "if (value) resolve(value); else requestAnimationFrame(look); }; look(); })"
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await page.evaluate(script.replace("CONDITION", condition))
    except TimeoutError:
        raise AssertionError(f"the page never got to: {condition}") from None


async def samples_of(page, expression="sambert.player.samples"):
    """int16 samples that the page has decoded."""
    script = (
        "() => { const pcm = Int16Array.from(EXPRESSION, (sample) => sample * 32768); let text = ''; "
        "for (const byte of new Uint8Array(pcm.buffer)) text += String.fromCharCode(byte); return btoa(text); }"
    )
    return np.frombuffer(base64.b64decode(await page.evaluate(script.replace("EXPRESSION", expression))), "<i2")


async def served(address, **body):
    """int16 samples as the service gives them without the page."""
    return np.frombuffer((await _post(address, "v1/audio/speech", body)).content, "<i2")


async def timestamps(address, **body):
    """Where the words lie, as the service tells it."""
    return (await _post(address, "v1/audio/speech/with-timestamps", body)).json()


async def spoken(page, text=SHORT):
    """Types a text, presses Speak and waits until all of it has arrived and its words have their times."""
    await page.fill("#input", text)
    await page.click("#speak")
    await until(page, "sambert.player.samples.length && sambert.player.isWhole && !sambert.isBusy")


def loudness(samples):
    """Root mean square of int16 samples, 0 to 1."""
    return float(np.sqrt(np.mean((samples / 32768) ** 2)))


async def _post(address, path, body):
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        response = await client.post(path, json={"response_format": "pcm", **body})
    assert response.status_code == 200, response.text
    return response
