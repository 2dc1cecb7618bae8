"""HTTP in front of the real stages and the bundled voice."""

import asyncio
import base64
import io
import json
import re

import numpy as np
import soundfile
import websockets
from test_ingress_http import SPEECH, is_error

from deployments.ingress import handle
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

TEXT = "您好，欢迎致电客服中心，请稍候。"
NUM_SYLLABLES = 14


async def samples_of(client, **body):
    """The samples of an answer that is synthesised anew."""
    headers = {"cache-control": "no-cache"}
    response = await client.post(SPEECH, json={"input": TEXT, "response_format": "pcm", **body}, headers=headers)
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<i2")


async def test_tts_speaks(real):
    response = await real.post("/tts", content=f'{{"text":"{TEXT}"}}')
    samples, rate = soundfile.read(io.BytesIO(response.content))
    assert rate == 16000
    assert 0.12 < len(samples) / rate / NUM_SYLLABLES < 0.5
    assert 0.02 < np.sqrt(np.mean(samples**2)) < 0.5
    assert int(response.headers["x-audio-duration-ms"]) == round(1000 * len(samples) / rate)


async def test_stream_batch_and_python_handle_give_the_samples_of_a_single_answer(real, surface, pipeline):
    text = "今天天气很好。我们去公园，好吗？"
    alone = await samples_of(real, input=text, stream=False)
    streamed, *others, again = await asyncio.gather(
        samples_of(real, input=text),
        samples_of(real, input="一二三四五。"),
        samples_of(real, emotion="sad"),
        samples_of(real, input=text, stream=False),
    )
    request = SpeechRequest(text=text, use_cache=False)

    async def stream():
        return [piece async for piece in handle.stream(pipeline, IngressSettings(), request)]

    audio = await surface.call(handle.synthesize(pipeline, IngressSettings(), request))
    pieces = await surface.call(stream())
    handled = np.frombuffer(b"".join(pieces), "<i2")
    assert len(pieces) >= len(audio.segments) == 2
    for samples in (streamed, again, audio.pcm, handled):
        assert len(samples) == len(alone)
        assert np.abs(samples.astype(int) - alone).max() <= 33  # DESIGN.md's bound of 1e-3 of full scale
    assert len({len(samples) for samples in (alone, *others)}) == 3


async def test_controls_are_heard(real):
    plain = await samples_of(real)
    assert len(await samples_of(real, speed=2.0)) < 0.7 * len(plain)
    happy = await samples_of(real, emotion="开心")
    cheered = await samples_of(real, instructions="in a happy voice")
    assert len(cheered) == len(happy)
    assert np.abs(cheered.astype(int) - happy).max() <= 33
    assert len(happy) != len(plain) or np.abs(happy.astype(int) - plain).max() > 1000
    assert len(await samples_of(real, sample_rate=48000)) == 3 * len(plain)
    quiet = await samples_of(real, volume=0.5)
    assert np.abs(quiet - plain / 2).max() <= 34


async def test_analysis_shows_the_reading(real):
    body = (await real.post("/v1/text/analysis", json={"input": "重庆银行有3家。"})).json()
    assert body["segments"][0]["pinyin"] == ["chong2", "qing4", "yin2", "hang2", "you3", "san1", "jia1"]
    assert body["segments"][0]["phones"][:2] == ["ch_c", "ong_c"]


async def timed(client, **body):
    response = await client.post(f"{SPEECH}/with-timestamps", json={"response_format": "pcm", **body})
    assert response.status_code == 200, response.text
    reply = response.json()
    reply["samples"] = np.frombuffer(base64.b64decode(reply["audio"]), "<i2")
    return reply, response.headers["x-cache"]


LONG = "今天是2024年5月1日，我在北京。“你好！”他说：买点儿iPhone手机，一共3.5元。"


async def test_times_of_real_words(real):
    """Words in order inside their segments, every character once, equal from the cache and at every rate."""
    first, _ = await timed(real, input=LONG)
    again, cache = await timed(real, input=LONG)
    assert cache == "hit"
    assert again["segments"] == first["segments"]
    resampled, _ = await timed(real, input=LONG, sample_rate=44100)
    assert resampled["segments"] == first["segments"]
    assert abs(resampled["duration_s"] - first["duration_s"]) <= 1 / 44100
    analysis = (await real.post("/v1/text/analysis", json={"input": LONG})).json()
    hop_s = 200 / 16000
    end_s = 0.0
    for segment, read in zip(first["segments"], analysis["segments"], strict=True):
        assert end_s <= segment["start_s"] < segment["end_s"]
        end_s = segment["start_s"]
        for word in segment["words"]:
            assert end_s <= word["start_s"] < word["end_s"] <= segment["end_s"]
            assert abs((word["start_s"] - segment["start_s"]) / hop_s % 1 - 0.5) > 0.499  # a whole number of frames
            bounds = [word["start_s"], *(character["end_s"] for character in word["characters"])]
            assert bounds == sorted(bounds)
            assert bounds[-1] == end_s or word["end_s"] == bounds[-1]
            assert "".join(character["text"] for character in word["characters"]) == word["text"]
            end_s = word["end_s"]
        spoken = "".join(word["text"] for word in segment["words"])
        assert spoken == re.sub(r"[\W_]", "", read["normalized"])
        assert [p for word in segment["words"] for p in word["pinyin"]] == read["pinyin"]
        end_s = segment["end_s"]
    assert end_s == first["duration_s"] == len(first["samples"]) / 16000
    characters = [c["text"] for segment in first["segments"] for word in segment["words"] for c in word["characters"]]
    assert characters.count("点儿") == 1
    assert "iPhone" in characters
    shown = "".join(
        line for line in first["subtitles"]["srt"].splitlines() if line and not re.match(r"[\d:, >-]+$", line)
    )
    assert shown == LONG


async def test_times_follow_the_speed(real):
    plain, _ = await timed(real, input=TEXT)
    fast, _ = await timed(real, input=TEXT, speed=2.0)
    assert fast["duration_s"] < 0.7 * plain["duration_s"]
    for reply in (plain, fast):
        assert reply["segments"][-1]["end_s"] == reply["duration_s"] == len(reply["samples"]) / 16000
    words = [[word["text"] for segment in reply["segments"] for word in segment["words"]] for reply in (plain, fast)]
    assert words[0] == words[1]


async def test_a_spoken_character_is_louder_than_a_pause(real):
    """The times are those of the sound: words carry the energy, breaks and the silence between segments little."""
    reply, _ = await timed(real, input="今天天气很好。我们去公园散步。")
    level = reply["samples"].astype(float) ** 2
    inside = np.zeros(len(level), bool)
    for segment in reply["segments"]:
        for word in segment["words"]:
            inside[round(word["start_s"] * 16000) : round(word["end_s"] * 16000)] = True
    assert inside.any()
    assert not inside.all()
    assert level[inside].mean() > 3 * level[~inside].mean()


async def test_nothing_to_speak(real):
    is_error(await real.post(SPEECH, json={"input": "。。。！"}), 400, "text_not_speakable", "input")
    is_error(await real.post("/tts", json={"text": "  "}), 400, "text_not_speakable", "text")


async def test_lists_and_readiness(real):
    voices = (await real.get("/v1/audio/voices")).json()["voices"]
    assert [voice["id"] for voice in voices if voice["default"]] == ["demo"]
    assert {"neutral", "happy", "sad"} <= set(voices[0]["emotions"])
    assert (await real.get("/readyz")).status_code == 200


async def test_live_text_over_a_real_connection(surface):
    """A client that talks as a language model writes: sound before the end of the text, events, done, close."""
    address = surface.address.replace("http", "ws") + f"{SPEECH}/stream"
    audio, events = b"", []
    async with websockets.connect(address, additional_headers={"x-request-id": "call-9"}) as socket:
        assert socket.response.headers["x-request-id"] == "call-9"
        await socket.send(json.dumps({"type": "start", "emotion": "happy"}))
        for piece in ("您好，欢迎", "致电客服中心，", "请"):
            await socket.send(json.dumps({"type": "text", "text": piece}))
        audio += await socket.recv()
        await socket.send(json.dumps({"type": "text", "text": "稍候。"}))
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            if isinstance(message, bytes):
                audio += message
            else:
                events.append(json.loads(message))
        assert socket.close_code == 1000
    assert [event["type"] for event in events] == ["segment", "segment", "done"]
    assert "".join(event["text"] for event in events[:-1]) == TEXT
    assert events[-1]["duration_s"] == events[1]["end_s"] == len(audio) / 2 / 16000
    words = [word["text"] for event in events[:-1] for word in event["words"]]
    assert "".join(words) == re.sub(r"\W", "", TEXT)


async def test_a_caller_of_live_text_that_leaves_frees_the_models(surface, real):
    address = surface.address.replace("http", "ws") + f"{SPEECH}/stream"
    async with websockets.connect(address) as socket:
        await socket.send(json.dumps({"type": "start", "emotion": "sad"}))
        await socket.send(json.dumps({"type": "text", "text": "这是一段很长的文字。" * 100}))
        await socket.recv()
    async with asyncio.timeout(20):  # alone it takes far less, behind the text above far more
        await samples_of(real, input="好。")


async def test_batches_tasks_and_streams_of_the_older_services(real):
    expected = await samples_of(real, stream=False)

    def same(samples):
        return len(samples) == len(expected) and np.abs(samples.astype(int) - expected).max() <= 33

    body = {"items": [{"input": TEXT, "response_format": "pcm"}, {"input": "？"}]}
    lines = [json.loads(line) for line in (await real.post(f"{SPEECH}/batch", json=body)).text.splitlines()]
    by_index = {line["index"]: line for line in lines}
    assert same(np.frombuffer(base64.b64decode(by_index[0]["audio"]), "<i2"))
    assert by_index[1]["error"]["code"] == "text_not_speakable"
    streamed = await real.get("/stream_tts", params={"text": TEXT})
    assert same(np.frombuffer(streamed.content[44:], "<i2"))
    kept = (await real.post("/api/tts", json={"text": TEXT})).json()
    assert kept["duration_ms"] == round(len(expected) / 16)
    samples, _ = soundfile.read(io.BytesIO((await real.get(kept["audio_url"])).content), dtype="int16")
    assert same(samples)
    task_id = (await real.post("/api/tts", json={"text": TEXT, "async": True})).json()["task_id"]
    async with asyncio.timeout(30):
        while (task := (await real.get(f"/api/tasks/{task_id}")).json())["status"] == "processing":  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # as clients poll
    assert (task["status"], task["duration_ms"]) == ("success", kept["duration_ms"])
