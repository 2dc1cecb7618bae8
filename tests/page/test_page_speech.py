"""Type, speak, hear, stop, save: in a real browser, in front of the real voice."""

import asyncio
import io

import av
import numpy as np
import pytest
import soundfile
from helpers import SHORT, TWO_SENTENCES, loudness, samples_of, served, spoken, until
from playwright.async_api import expect

from deployments.errors import SynthesisFailed

pytestmark = pytest.mark.asyncio(loop_scope="session")
SUFFIXES = {"wav": "wav", "mp3": "mp3", "flac": "flac", "opus": "ogg", "aac": "aac", "pcm": "pcm"}


async def test_three_actions_give_speech_that_is_heard(open_page, address):
    page = await open_page()
    await page.fill("#input", SHORT)
    await page.click("#speak")
    assert await until(page, "sambert.player.level > 0.05")
    await expect(page.get_by_role("status")).to_have_text("Speaking…")
    await until(page, "sambert.player.isWhole")
    samples = await samples_of(page)
    np.testing.assert_array_equal(samples, await served(address, input=SHORT))
    assert 0.02 < loudness(samples) < 0.5
    await page.evaluate("sambert.player.seek(sambert.player.duration - 0.1)")
    await expect(page.get_by_role("status")).to_have_text(f"Done: {len(samples) / 16000:.2f} s of audio")
    assert await page.evaluate("sambert.player.state") == "ready"


async def test_sound_starts_while_the_rest_is_being_made(open_page, stage, address):
    stage.hold = asyncio.Event()
    page = await open_page()
    await page.fill("#input", TWO_SENTENCES)
    await page.click("#speak")
    await until(page, "sambert.player.position > 0.2")
    assert not await page.evaluate("sambert.player.isWhole")
    first = len(await samples_of(page))
    stage.hold.set()
    await until(page, "sambert.player.isWhole")
    samples = await samples_of(page)
    assert len(samples) > first
    np.testing.assert_array_equal(samples, await served(address, input=TWO_SENTENCES))


async def test_the_form_becomes_the_request(open_page, stage):
    page = await open_page()
    await page.fill("#input", "你好")
    await page.get_by_text("Angry", exact=True).click()
    for name, at in (("emotion_intensity", 1.5), ("speed", 1.0), ("pitch", -2.5), ("volume", 0.5)):
        await page.locator(f"#{name}").fill(str(at))
    await page.get_by_label("Normalise").uncheck()
    await page.get_by_label("Synthesise anew").check()
    await page.locator("#input").press("Control+Enter")
    await until(page, "sambert.player.samples.length")
    request = stage.requests[0]
    assert (request.text, request.voice, request.emotion, request.normalize) == ("你好", "demo", "angry", False)
    assert (request.emotion_intensity, request.speed, request.pitch, request.volume) == (1.5, 2.0, -2.5, 0.5)
    assert not request.use_cache
    await expect(page.locator("[data-row='report.cache']")).to_have_text("bypassed")


async def test_escape_gives_the_request_up(open_page, stage):
    stage.hold = asyncio.Event()
    page = await open_page()
    await page.fill("#input", TWO_SENTENCES)
    await page.click("#speak")
    await until(page, "sambert.player.position > 0.1")
    await page.keyboard.press("Escape")
    await asyncio.wait_for(stage.given_up.wait(), 10)
    await expect(page.get_by_role("status")).to_have_text("Stopped")
    assert await page.evaluate("[sambert.player.state, sambert.isBusy]") == ["ready", False]
    assert loudness(await samples_of(page)) > 0.01
    await expect(page.get_by_role("button", name="Stop")).to_be_disabled()


async def test_replay_pause_and_seek(open_page):
    page = await open_page()
    await spoken(page)
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("status")).to_have_text("Paused")
    duration = await page.evaluate("sambert.player.duration")
    slider = page.get_by_role("slider", name="Position in the audio")
    await slider.press("Home")
    await slider.press("ArrowRight")
    assert await page.evaluate("sambert.player.position") == 0.5
    box = await slider.bounding_box()
    await slider.click(position={"x": 0.9 * box["width"], "y": 20})
    assert await page.evaluate("sambert.player.position") == pytest.approx(0.9 * duration, abs=0.02)
    await played_to_the_end(page)
    again = "(() => { document.getElementById('play').click(); return sambert.player.position; })()"
    assert await page.evaluate(again) == 0
    assert await until(page, "sambert.player.level > 0.05")
    await slider.press("End")
    await expect(page.get_by_role("status")).to_have_text(f"Done: {duration:.2f} s of audio")


async def test_every_format_is_saved(open_page):
    page = await open_page()
    await spoken(page)
    samples = await samples_of(page)
    for name, suffix in SUFFIXES.items():
        async with page.expect_download() as download:
            await page.get_by_role("button", name=f"Download as {name}", exact=True).click()
        file = await download.value
        assert file.suggested_filename == f"您好-欢迎致电客服中心-请稍候-demo-neutral.{suffix}"
        data = await asyncio.to_thread((await file.path()).read_bytes)
        if name in ("mp3", "opus", "aac"):
            with av.open(io.BytesIO(data)) as container:
                duration_s = sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))
            assert duration_s == pytest.approx(len(samples) / 16000, abs=0.15), name
        else:
            pcm = np.frombuffer(data, "<i2") if name == "pcm" else soundfile.read(io.BytesIO(data), dtype="int16")[0]
            np.testing.assert_array_equal(pcm, samples, err_msg=name)
        await expect(page.get_by_role("status")).to_have_text(f"Saved {file.suggested_filename}")
    await expect(page.locator("[data-row='report.cache']")).to_have_text("hit")
    await expect(page.locator("#report")).to_contain_text("Encoding")


async def played_to_the_end(page):
    """Presses Play and waits for the event that tells of the end."""
    await page.evaluate("() => { sambert.player.addEventListener('ended', () => { globalThis.hasEnded = true; }); }")
    await page.locator("#play").click()
    await until(page, "globalThis.hasEnded")


async def test_what_arrived_before_a_fault_can_be_played(open_page, stage):
    stage.hold = asyncio.Event()
    stage.failure = SynthesisFailed("The model failed.")
    page = await open_page()
    await page.fill("#input", TWO_SENTENCES)
    await page.click("#speak")
    await until(page, "sambert.player.samples.length")
    stage.hold.set()
    await expect(page.get_by_role("alert")).to_contain_text("The answer broke off")
    await until(page, "sambert.player.state === 'ready'")
    assert loudness(await samples_of(page)) > 0.01
    await played_to_the_end(page)


async def test_emotions_are_compared(open_page, address):
    page = await open_page()
    await page.fill("#input", SHORT)
    await page.get_by_role("button", name="Compare", exact=True).click()
    await expect(page.get_by_role("status")).to_have_text("6 emotions ready")
    emotions = await page.evaluate("sambert.comparison.heard.map(({ emotion }) => emotion)")
    assert emotions == ["neutral", "happy", "sad", "angry", "fear", "surprise"]
    heard = [await samples_of(page, f"sambert.comparison.heard[{index}].samples") for index in range(6)]
    for emotion, samples in zip(emotions, heard, strict=True):
        np.testing.assert_array_equal(samples, await served(address, input=SHORT, emotion=emotion))
    assert len({samples.tobytes() for samples in heard}) == 6
    await page.get_by_role("button", name="Play: Sad").click()
    await until(page, "sambert.comparison.player.level > 0.02")
    assert await page.locator("[data-playing]").get_attribute("data-emotion") == "sad"
    await page.keyboard.press("Escape")
    await expect(page.locator("[data-playing]")).to_have_count(0)
