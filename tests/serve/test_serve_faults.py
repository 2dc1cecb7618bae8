"""What fails takes nothing else along: killed replicas, callers that go, requests out of time."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from ray import serve

from deployments.errors import DeadlineExceeded
from deployments.messages import SpeechRequest

ROUNDING = 33  # 1e-3 of full scale
LONG = "".join(f"第{number}天我们一起去公园散步，晚上再回家吃饭。" for number in range(1, 60))  # no sentence twice


@pytest.mark.parametrize("deployment", ["Acoustic", "Vocoder", "Normalizer"])
def test_a_killed_replica_loses_nothing_for_good(speech, deployment):
    """Requests during the kill are answered 200 or 503; those after it succeed; nothing hangs."""
    stop = threading.Event()
    statuses: list[int] = []
    loaded = threading.Event()

    def load(worker):
        with httpx.Client(base_url=speech.base_url, timeout=60) as client:
            number = 0
            while not stop.is_set():
                number += 1
                text = f"第{worker}路，第{number}句，请稍候。"
                response = client.post("/tts", json={"text": text}, headers={"cache-control": "no-cache"})
                statuses.append(response.status_code)
                if len(statuses) >= 4:
                    loaded.set()

    workers = [threading.Thread(target=load, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    assert loaded.wait(60)
    assert speech.kill_replicas(deployment) >= 1
    before = len(statuses)
    speech.wait_until_ready()
    ends = time.monotonic() + 60
    while len(statuses) < before + 12 and time.monotonic() < ends:
        time.sleep(0.1)
    stop.set()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert set(statuses) <= {200, 503}
    assert statuses[-4:] == [200] * 4
    assert statuses.count(200) > statuses.count(503)


@pytest.mark.parametrize("deployment", ["Acoustic", "Vocoder"])
def test_what_a_killed_replica_was_working_on_is_made_anew(speech, deployment):
    """Whole answers whose segments are in the model when it dies are complete, and come without waiting for a limit."""
    models = serve.get_deployment_handle(deployment, "speech").options(_by_reference=False)
    before = models.counts.remote().result()
    with ThreadPoolExecutor() as threads:
        request = SpeechRequest(text=LONG[:120], use_cache=False, timeout_s=90)  # a replica takes its time to start
        whole = [threads.submit(speech.handle.synthesize.remote(request).result) for _ in range(4)]
        while models.counts.remote().result() == before:
            assert not any(answer.done() for answer in whole)
        assert speech.kill_replicas(deployment) >= 1
        audio = [answer.result() for answer in whole]
    speech.wait_until_ready()
    alone = speech.handle.synthesize.remote(request).result()
    for answer in audio:
        assert answer.pcm.shape == alone.pcm.shape
        assert np.abs(answer.pcm.astype(int) - alone.pcm).max() <= ROUNDING


def test_a_request_out_of_time_is_refused_with_504_error_and_its_work_dropped(speech):
    with pytest.raises(DeadlineExceeded):
        speech.handle.synthesize.remote(SpeechRequest(text=LONG, timeout_s=0.3)).result()
    started = time.monotonic()
    speech.handle.synthesize.remote(SpeechRequest(text="好的。", use_cache=False)).result()
    assert time.monotonic() - started < 5


async def test_a_client_that_goes_away_stops_its_work(speech):
    """The models would need many seconds for the text; after the client has gone a short request is served at once."""
    async with speech.client() as client:
        first_byte = asyncio.Event()

        async def listen():
            body = {"input": LONG, "response_format": "pcm"}
            async with client.stream("POST", "/v1/audio/speech", json=body) as response:
                async for _ in response.aiter_raw():
                    first_byte.set()

        listener = asyncio.ensure_future(listen())
        await first_byte.wait()
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        started = time.monotonic()
        response = await client.post("/tts", json={"text": "好的。"}, headers={"cache-control": "no-cache"})
        elapsed_s = time.monotonic() - started
    assert response.status_code == 200
    assert elapsed_s < 5
