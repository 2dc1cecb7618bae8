"""Work conservation on real Serve: the product's own collector and loop around a model that takes 0.5 s per batch."""

import asyncio
import sys
import threading
import time
from typing import ClassVar

import pytest
from ray import cloudpickle, serve

from deployments.acoustic.deployment import Acoustic
from deployments.batching import Synchronous, WorkLoop
from deployments.messages import AcousticRequest
from deployments.settings import Batching

MODEL_S = 0.5
BATCHES = 8
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # replicas cannot import this file


class SlowStepper(Synchronous):
    """A model that takes MODEL_S for a batch of any size and answers with the batch's number."""

    def __init__(self):
        self.in_progress = []
        self.num_batches = 0

    def admit(self, tickets):
        self.in_progress = tickets

    def step(self):
        threading.Event().wait(MODEL_S)  # stands for the model's computation
        self.num_batches += 1
        for ticket in self.in_progress:
            ticket.resolve((self.num_batches, len(self.in_progress)))
        self.in_progress = []


class SlowEngine:
    def __init__(self):
        self._loop = WorkLoop(SlowStepper, lambda request: 1, Batching(max_batch_size=64), "slow model")

    def submit(self, requests):
        return self._loop.submit(requests, [0] * len(requests), [None] * len(requests))

    counts: ClassVar = {}

    @property
    def num_waiting(self):
        return self._loop.num_waiting

    @property
    def num_in_progress(self):
        return self._loop.num_in_progress

    def reconfigure(self, batching):
        self._loop.reconfigure(batching)

    def why_unhealthy(self):
        return self._loop.why_unhealthy()

    def close(self):
        self._loop.close()


class SlowAcoustic(Acoustic):
    """The Acoustic deployment with another engine."""

    def __init__(self):
        self._serve(SlowEngine(), Batching(max_batch_size=64))


@pytest.fixture
def slow(cluster):
    user_config = {"batching": {"max_batch_size": 64}}
    deployment = serve.deployment(
        SlowAcoustic, max_ongoing_requests=100, user_config=user_config, ray_actor_options={"num_cpus": 0.1}
    )
    yield serve.run(deployment.bind(), name="slow", route_prefix=None)
    serve.delete("slow")


def test_forty_arrivals_thirty_ms_apart_make_at_most_eight_batches(slow):
    async def traffic():
        async def one(index):
            await asyncio.sleep(0.03 * index)  # the arrival process of the scenario
            return await slow.infer.remote(AcousticRequest(voice="demo", symbols=str(index)))

        return await asyncio.gather(*(one(index) for index in range(40)))

    slow.infer.remote(AcousticRequest(voice="demo", symbols="warm up")).result()
    started = time.monotonic()
    answers = asyncio.run(traffic())
    elapsed_s = time.monotonic() - started
    batches = dict(answers)
    assert sum(batches.values()) == 40
    assert len(batches) <= BATCHES
    assert elapsed_s < MODEL_S * (BATCHES + 2)


def test_user_config_changes_the_batch_size_on_the_live_service(cluster, slow):
    user_config = {"batching": {"max_batch_size": 2}}
    deployment = serve.deployment(
        SlowAcoustic, max_ongoing_requests=100, user_config=user_config, ray_actor_options={"num_cpus": 0.1}
    )
    handle = serve.run(deployment.bind(), name="slow", route_prefix=None)
    responses = [handle.infer.remote(AcousticRequest(voice="demo", symbols="x")) for _ in range(6)]
    assert max(size for _, size in (response.result() for response in responses)) <= 2
