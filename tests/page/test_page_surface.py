"""What the page shows and remembers: errors, reading, languages, phone, recent requests; and what it never does."""

import asyncio
import json
from urllib.parse import urlsplit

import httpx
import pytest
from helpers import SHORT, TWO_SENTENCES, spoken, timestamps, until
from playwright.async_api import expect

from deployments.errors import Overloaded
from deployments.messages import StageStatus

pytestmark = pytest.mark.asyncio(loop_scope="session")
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}


async def test_errors_are_shown_in_words(open_page, stage):
    page = await open_page()
    alert = page.get_by_role("alert")
    await page.fill("#input", "。。。")
    await page.click("#speak")
    await expect(alert).to_contain_text("Nothing in this text can be spoken")
    await expect(alert).to_contain_text("400 · text_not_speakable · request id ")
    await expect(page.locator("#input")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_role("status")).to_have_text("It did not work")
    await page.fill("#input", " ")
    await page.click("#speak")
    await expect(alert).to_contain_text("There is no text yet")
    stage.refusal = Overloaded("All replicas are busy. Send it again later.", retry_after_s=2)
    await page.fill("#input", SHORT)
    await page.click("#speak")
    await expect(alert).to_contain_text("All replicas are busy. Send it again later.")
    await expect(alert).to_contain_text("Try again in 2 s.")
    stage.refusal = None
    await page.click("#speak")
    await until(page, "sambert.player.samples.length")
    await expect(alert).to_have_count(0)


async def test_reading_lights_up_as_it_is_spoken(open_page, address):
    page = await open_page()
    await page.fill("#input", "重庆银行有3家，一点儿也不远。")
    await page.click("#analyse")
    tiles = page.locator("#lines ruby")
    await expect(tiles).to_have_text(
        [
            "重chóng",
            "庆qìng",
            "银yín",
            "行háng",
            "有yǒu",
            "三sān",
            "家jiā",
            "一yì",
            "点儿diǎnr",
            "也yě",
            "不bù",
            "远yuǎn",
        ]
    )
    await expect(page.locator("#lines .source")).to_have_text("重庆银行有3家，一点儿也不远。")
    await spoken(page, "重庆银行有3家，一点儿也不远。")
    await expect(page.locator("#reading-kind")).to_have_text("timed by word")
    await until(page, "document.querySelector('.word[aria-current]') || sambert.player.state === 'ready'")
    await page.keyboard.press("Escape")
    timed = await timestamps(address, input="重庆银行有3家，一点儿也不远。")
    words = [word for segment in timed["segments"] for word in segment["words"]]
    for word in words:
        await page.evaluate("(seconds) => sambert.player.seek(seconds)", (word["start_s"] + word["end_s"]) / 2)
        lit = "Array.from(document.querySelectorAll('[aria-current] ruby'), (tile) => tile.firstChild.data).join('')"
        assert await page.evaluate(lit) == word["text"]
    await page.locator(".word").nth(2).click()
    await until(page, "sambert.player.state === 'playing'")
    assert await page.evaluate("sambert.player.position") >= words[2]["start_s"]
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download as srt").click()
    subtitles = await asyncio.to_thread((await (await download.value).path()).read_text, "utf-8")
    assert subtitles == timed["subtitles"]["srt"]


async def test_languages(open_page):
    page = await open_page("zh-CN")
    assert await page.evaluate("document.documentElement.lang") == "zh-CN"
    await expect(page.get_by_role("button", name="朗读")).to_be_visible()
    await expect(page.locator("#emotions")).to_have_text("中性开心悲伤生气害怕惊讶")
    await page.get_by_role("button", name="Show this page in English").click()
    await expect(page.get_by_role("button", name="Speak")).to_be_visible()
    await expect(page.get_by_text("Happy", exact=True)).to_be_visible()
    assert await page.evaluate("document.documentElement.lang") == "en"
    await page.reload()
    await expect(page.get_by_role("button", name="Speak")).to_be_visible()
    french = await open_page("fr-FR")
    await expect(french.get_by_role("button", name="Speak")).to_be_visible()


async def test_theme_is_remembered(open_page):
    page = await open_page(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(ground)
    await page.get_by_role("button", name="Light or dark").click()
    dark = await page.evaluate(ground)
    assert dark != light
    await page.reload()
    assert await page.evaluate(ground) == dark
    by_system = await open_page(color_scheme="dark")
    assert await by_system.evaluate(ground) == dark


async def test_phone(open_page):
    page = await open_page(**PHONE)
    await page.get_by_role("button", name="Speak").tap()
    await until(page, "sambert.player.level > 0.02")
    await page.get_by_role("button", name="Compare", exact=True).tap()
    await expect(page.get_by_role("status")).to_have_text("6 emotions ready")
    assert await page.evaluate("document.documentElement.scrollWidth") == 360
    await page.evaluate("() => { globalThis.boxOf = (element) => element.getBoundingClientRect(); }")
    cut_off = "[...document.querySelectorAll('main *')].filter((e) => boxOf(e).right > 361 && !e.closest('.examples'))"
    assert await page.evaluate(f"{cut_off}.map((element) => element.outerHTML)") == []
    targets = (
        "[...document.querySelectorAll('button, select, input')].map((element) => element.closest('label') ?? element)"
    )
    small = f"{targets}.filter((e) => boxOf(e).width && Math.min(boxOf(e).width, boxOf(e).height) < 24)"
    assert await page.evaluate(f"{small}.map((element) => element.outerHTML)") == []


async def test_recent_requests_come_back(open_page):
    page = await open_page()
    many = [{"input": f"第{index}句", "voice": "demo", "at": index} for index in range(30)]
    await page.evaluate("(many) => localStorage.setItem('sambert.recent', JSON.stringify(many))", many)
    await page.reload()
    await expect(page.locator("#recent li")).to_have_count(20)
    await page.get_by_text("Sad", exact=True).click()
    await spoken(page)
    await expect(page.locator("#recent li")).to_have_count(20)
    kept = json.loads(await page.evaluate("localStorage.getItem('sambert.recent')"))
    assert (len(kept), kept[0]["input"], kept[0]["emotion"]) == (20, SHORT, "sad")
    await page.reload()
    await page.fill("#input", "别的")
    await page.locator("#recent .entry").first.click()
    await expect(page.locator("#input")).to_have_value(SHORT)
    await expect(page.get_by_role("radio", name="Sad")).to_be_checked()
    await page.get_by_role("button", name="Forget all").click()
    assert await page.evaluate("localStorage.getItem('sambert.recent')") == "[]"


async def test_broken_storage_is_no_fault(open_page):
    page = await open_page()
    for broken in ("{", '"text"', '[null, 3, {"input": 5}]'):
        await page.evaluate("(broken) => localStorage.setItem('sambert.recent', broken)", broken)
        await page.reload()
        await expect(page.locator("#service")).to_have_attribute("data-state", "ready")
        await expect(page.locator("#recent li")).to_have_count(0)


async def test_text_is_never_markup(open_page):
    page = await open_page()
    evil = "好<img src=x onerror=alert(1)><b>人</b>"
    images = await page.locator("img").count()
    entry = json.dumps([{"input": evil, "voice": evil, "emotion": evil, "at": 1}])
    await page.evaluate("(entry) => localStorage.setItem('sambert.recent', entry)", entry)
    await page.reload()
    await expect(page.locator("#recent .excerpt")).to_have_text(evil)
    await page.fill("#input", evil)
    await page.click("#analyse")
    await until(page, "!sambert.isBusy")
    await page.fill("#input", f"<speak>{evil}</speak>")
    await page.click("#speak")
    await until(page, "!sambert.isBusy")
    assert await page.locator("img").count() == images
    assert await page.locator("main b", has_text="人").count() == 0


async def test_everything_comes_from_the_service(open_page, address):
    page = await open_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    await page.reload()
    await spoken(page, TWO_SENTENCES)
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(address).netloc}
    blocked = "fetch('https://example.org/').then(() => 'answered', (error) => error.name)"
    assert await page.evaluate(blocked) == "TypeError"
    assert "Content Security Policy" in open_page.faults.pop(0)
    open_page.faults.clear()


async def test_everything_that_can_be_used_has_a_name(open_page):
    page = await open_page()
    await spoken(page)
    session = await page.context.new_cdp_session(page)
    tree = await session.send("Accessibility.getFullAXTree")
    named = {}
    for node in tree["nodes"]:
        focusable = any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", ()))
        if focusable and not node["ignored"]:
            named.setdefault(node["role"]["value"], []).append(node["name"]["value"])
    named.pop("RootWebArea")
    assert {"textbox", "button", "slider", "radio", "switch", "combobox", "link"} <= set(named)
    assert [role for role, names in named.items() if not all(names)] == []


async def test_keyboard_alone_is_enough(open_page):
    page = await open_page()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#input")).to_be_focused()
    await page.keyboard.type("你好")
    await page.keyboard.press("Control+Enter")
    await until(page, "sambert.player.samples.length")
    await page.keyboard.press("Escape")
    assert await page.evaluate("sambert.player.state") == "ready"


async def test_a_service_that_starts_up_is_waited_for(open_page, stage):
    page = await open_page()
    await page.clock.install()
    stage.status = (StageStatus(stage="vocoder", ready=False, reason="loading the voice"),)
    await page.reload()
    await expect(page.locator("#service")).to_have_attribute("data-state", "waiting")
    await expect(page.locator("#service")).to_have_attribute(
        "title", "Not every stage can serve. vocoder: loading the voice."
    )
    stage.status = None
    await page.clock.fast_forward(2500)
    await expect(page.locator("#service")).to_have_attribute("data-state", "ready")


async def test_files_of_the_page(address):
    async with httpx.AsyncClient(base_url=address) as client:
        page = await client.get("")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = dict(part.strip().partition(" ")[::2] for part in page.headers["content-security-policy"].split(";"))
        assert set(policy.values()) <= {"'self'", "'none'"}
        assert policy["default-src"] == "'none'"
        again = await client.get("", headers={"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await client.get("page/page.js")).headers["content-type"] == "text/javascript; charset=utf-8"
        for path in ("page/none.js", "page/docs.html", "page/..%2froutes.py", "page/"):
            missing = await client.get(path)
            assert missing.status_code == 404
            assert missing.json()["error"]["code"] == "not_found"
