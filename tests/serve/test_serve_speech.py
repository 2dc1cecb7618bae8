"""The whole path on real Serve: HTTP and Python handle speak, agree with each other, and refuse what they must."""

import asyncio
import io
import pickle
from pathlib import Path

import httpx
import numpy as np
import pytest
import ray
import soundfile

from deployments.errors import EmotionNotFound, TextNotSpeakable, VoiceNotFound
from deployments.messages import SpeechRequest

GREETING = "您好，欢迎致电客服中心，请稍候。"
STORY = "今天天气怎么样？我们一起去公园散步吧。晚上再回家吃饭，好不好？"
ROUNDING = 33  # 1e-3 of full scale


def speech_like(pcm, rate, seconds):
    """Level, length and absence of clipping that any spoken sentence of these voices has."""
    wave = pcm.astype(np.float64) / 32768
    assert seconds[0] < len(wave) / rate < seconds[1]
    assert 0.02 < np.sqrt(np.mean(wave**2)) < 0.5
    assert np.abs(wave).max() < 1.0


async def test_tts_answers_the_curl_line_of_the_readme(speech):
    async with speech.client() as client:
        response = await client.post("/tts", content=f'{{"text":"{GREETING}"}}'.encode())
    assert response.status_code == 200
    assert response.headers["content-type"] == "audio/wav"
    assert response.headers["content-disposition"] == 'attachment; filename="speech.wav"'
    pcm, rate = soundfile.read(io.BytesIO(response.content), dtype="int16")
    assert rate == 16000
    speech_like(pcm, rate, (2, 6))
    assert int(response.headers["x-audio-duration-ms"]) == pytest.approx(1000 * len(pcm) / rate, abs=1)


async def test_wav_and_pcm_hold_the_same_samples(speech):
    async with speech.client() as client:
        wav, pcm = [
            await client.post("/v1/audio/speech", json={"input": GREETING, "response_format": form, "stream": False})
            for form in ("wav", "pcm")
        ]
    samples, _ = soundfile.read(io.BytesIO(wav.content), dtype="int16")
    assert np.array_equal(samples, np.frombuffer(pcm.content, "<i2"))
    assert wav.headers["x-cache"] in ("miss", "hit")


def test_handle_answers_like_http(speech):
    audio = speech.handle.synthesize.remote(SpeechRequest(text=STORY, emotion="happy")).result()
    assert audio.sample_rate_hz == 16000
    speech_like(audio.pcm, audio.sample_rate_hz, (3, 12))
    assert [segment.text for segment in audio.segments] == [
        "今天天气怎么样？",
        "我们一起去公园散步吧。",
        "晚上再回家吃饭，好不好？",
    ]
    ends = [0.0]
    for segment in audio.segments:
        assert ends[-1] <= segment.start_s < segment.end_s
        ends.append(segment.end_s)
    assert ends[-1] == pytest.approx(len(audio.pcm) / audio.sample_rate_hz)


def test_handle_streams_what_it_answers_whole(speech):
    request = SpeechRequest(text=STORY)
    whole = speech.handle.synthesize.remote(request).result()
    pieces = list(speech.handle.options(stream=True).stream.remote(request))
    assert len(pieces) > 1
    streamed = np.frombuffer(b"".join(pieces), "<i2")
    assert streamed.shape == whole.pcm.shape
    assert np.abs(streamed.astype(int) - whole.pcm).max() <= ROUNDING


async def test_company_does_not_change_the_audio(speech):
    texts = [GREETING, "好。", "一二三四五六七八九十", STORY, "请问您要办理什么业务？", "谢谢"]

    async def spoken(client, text):
        body = {"input": text, "response_format": "pcm", "stream": False}
        response = await client.post("/v1/audio/speech", json=body, headers={"cache-control": "no-cache"})
        assert response.status_code == 200, response.text
        assert response.headers["x-cache"] == "bypass"
        return np.frombuffer(response.content, "<i2").astype(int)

    async with speech.client() as client:
        alone = [await spoken(client, text) for text in texts]
        together = await asyncio.gather(*(spoken(client, text) for text in texts * 3))
    for index, pcm in enumerate(together):
        expected = alone[index % len(texts)]
        assert pcm.shape == expected.shape
        assert np.abs(pcm - expected).max() <= ROUNDING


async def test_emotions_sound_different(speech):
    async with speech.client() as client:
        answers = [
            await client.post(
                "/v1/audio/speech", json={"input": GREETING, "emotion": emotion, "response_format": "pcm"}
            )
            for emotion in ("neutral", "happy", "sad")
        ]
    assert len({answer.content for answer in answers}) == 3


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (SpeechRequest(text="好", voice="nobody"), VoiceNotFound),
        (SpeechRequest(text="好", emotion="hungry"), EmotionNotFound),
        (SpeechRequest(text="！？"), TextNotSpeakable),
    ],
)
def test_handle_raises_our_own_errors(speech, request_, error):
    with pytest.raises(error) as caught:
        speech.handle.synthesize.remote(request_).result()
    cause = getattr(caught.value, "cause", caught.value)
    assert type(cause) is error
    assert pickle.loads(pickle.dumps(cause)).message == cause.message


async def test_refusals_over_http(speech):
    before = num_tracebacks()
    async with speech.client() as client:
        for body, status, code in [
            ({"input": "好", "voice": "nobody"}, 400, "voice_not_found"),
            ({"input": "好", "emotion": "hungry"}, 400, "emotion_not_found"),
            ({"input": "！"}, 400, "text_not_speakable"),
            ({"input": "好", "model": "gpt"}, 404, "model_not_found"),
            ({"input": "好" * 5000}, 413, "too_large"),
        ]:
            response = await client.post("/v1/audio/speech", json=body)
            assert (response.status_code, response.json()["error"]["code"]) == (status, code), body
        response = await client.post("/v1/text/analysis", json={"input": "！"})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "text_not_speakable")
    assert num_tracebacks() == before


def num_tracebacks():
    """Tracebacks in the logs of all replicas."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path()) / "serve"
    return sum(path.read_text(encoding="utf-8").count("Traceback") for path in logs.glob("replica_*.log"))


async def test_request_id_is_the_callers(speech):
    async with speech.client() as client:
        response = await client.post("/tts", json={"text": "好"}, headers={"x-request-id": "call-17"})
        own = await client.post("/tts", json={"text": "好"})
    assert response.headers["x-request-id"] == "call-17"
    assert own.headers["x-request-id"]


async def test_voices_models_health_and_docs(speech):
    async with speech.client() as client:
        voices = (await client.get("/v1/audio/voices")).json()["voices"]
        models = (await client.get("/v1/models")).json()
        statuses = [(await client.get(path)).status_code for path in ("/healthz", "/readyz", "/docs", "/openapi.json")]
    assert voices[0]["id"] == "demo"
    assert voices[0]["default"] is True
    assert "happy" in voices[0]["emotions"]
    assert models["data"][0]["id"] == "sambert-hifigan"
    assert statuses == [200] * 4


async def test_what_was_spoken_is_spoken_again_from_the_cache(speech):
    """A phrase with one changing part hits on its common clauses; other spelling of the same sound is the same."""
    async with speech.client() as client:

        async def ask(text, **headers):
            body = {"input": text, "response_format": "pcm", "stream": False}
            response = await client.post("/v1/audio/speech", json=body, headers=headers)
            assert response.status_code == 200, response.text
            return response

        first = await ask("您的订单正在配送。请您在3点之前取件。")
        again = await ask("您的订单正在配送。请您在三点之前取件。")
        partial = await ask("您的订单正在配送。请您在四点之前取件。")
        anew = await ask("您的订单正在配送。请您在3点之前取件。", **{"cache-control": "no-cache"})
    assert [answer.headers["x-cache"] for answer in (first, again, partial, anew)] == [
        "miss",
        "hit",
        "partial",
        "bypass",
    ]
    assert first.content == again.content
    assert "cache;dur=" in again.headers["server-timing"]
    known, new = (np.frombuffer(answer.content, "<i2").astype(int) for answer in (first, anew))
    assert np.abs(known - new).max() <= ROUNDING


async def test_fifty_callers_of_a_new_text_share_one_synthesis(speech):
    body = {"input": "这句话还没有人说过，请大家一起来听。", "response_format": "pcm", "stream": False}
    async with speech.client() as client:
        answers = await asyncio.gather(*(client.post("/v1/audio/speech", json=body) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1


def test_the_dashboard_shows_the_application_with_its_docs_and_logs(speech):
    """Asks the dashboard's own API, as its page does."""
    address = ray._private.worker.get_dashboard_url()
    headers = {"authorization": f"Bearer {token}"} if (token := dashboard_token()) else {}
    answer = httpx.get(f"http://{address}/api/serve/applications/", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    application = answer.json()["applications"]["speech"]
    assert application["docs_path"] == "/docs"
    assert set(application["deployments"]) == {"Ingress", "Normalizer", "Acoustic", "Vocoder"}
    for deployment in application["deployments"].values():
        assert deployment["replicas"]
        assert all(replica["log_file_path"] for replica in deployment["replicas"])


def dashboard_token():
    """Ray's own token of this machine, where it asks for one."""
    path = Path.home() / ".ray" / "auth_token"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""
