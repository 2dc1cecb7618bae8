"""A normalizer replica's cache as a process of its own; settings as JSON in its argument, JSON lines in and out.

In: {"text" or "texts", "make_s", "num_samples"}; they run at once. Out: {"ready": true} first, {"making": text} when a
synthesis begins, {"text", "source", "made", "right"} per answer, and counts at the end.
"""

import asyncio
import hashlib
import json
import sys
from types import SimpleNamespace

import numpy as np

from deployments.messages import SegmentAudio
from deployments.normalization.cache.key import key_of
from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.settings import CacheSettings

VOICE = SimpleNamespace(name="demo", fingerprint="f", sample_rate_hz=16_000)


def audio(text, num_samples):
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    pcm_S = np.random.default_rng(seed).integers(-3000, 3000, num_samples, dtype=np.int16)
    return SegmentAudio(pcm_S=pcm_S, sample_rate_hz=16_000, frames_T=np.full(5, seed % 1000, np.int32))


def digest(found):
    return hashlib.sha256(found.pcm_S.tobytes() + found.frames_T.tobytes()).hexdigest()[:16]


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def answer(cache, ask):
    made = False

    async def make():
        nonlocal made
        made = True
        say(making=ask["text"])
        await asyncio.sleep(ask.get("make_s", 0))
        return audio(ask["text"], ask.get("num_samples", 2000))

    found, source = await cache.get_or_make(key_of(ask["text"], VOICE), make)
    expected = digest(audio(ask["text"], ask.get("num_samples", 2000)))
    say(text=ask["text"], source=source, made=made, right=digest(found) == expected)


async def main():
    loop = asyncio.get_running_loop()
    cache = SegmentCache(CacheSettings.model_validate(json.loads(sys.argv[1])))
    await cache.start()
    say(ready=True)
    tasks = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        ask = json.loads(line)
        texts = ask.pop("texts", None) or [ask["text"]]
        tasks += [asyncio.create_task(answer(cache, {**ask, "text": text})) for text in texts]
    await asyncio.gather(*tasks)
    await cache.close()
    stats = cache.stats()
    say(faults=stats.faults, dropped=stats.dropped_writes, misses=stats.misses)


if __name__ == "__main__":
    asyncio.run(main())
