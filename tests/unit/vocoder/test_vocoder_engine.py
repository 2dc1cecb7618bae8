import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from deployments.errors import (
    ConfigurationInvalid,
    DeadlineExceeded,
    NotReady,
    StageStuck,
    SynthesisFailed,
    VoiceNotFound,
)
from deployments.messages import MelSpectrogram, VocoderRequest
from deployments.settings import Batching, VocoderSettings
from deployments.ticket import Ticket
from deployments.vocoder.backends.base import Backend
from deployments.vocoder.engine import VocoderEngine
from deployments.vocoder.stepper import Item, VocoderTicket, WindowStepper
from deployments.vocoder.voice import VocoderVoice
from deployments.vocoder.windows import Planner, Window
from deployments.voices.folder import VoiceFolder

KINDS = ("demo", "voc_causal", "voc_nsf")
MakeMel = Callable[[VocoderVoice, int, int], NDArray[np.float32]]
AnyVoice = Callable[[str], VocoderVoice]


class Recorder:
    """Runs the real backend and notes every batch."""

    name = "recorder"
    max_batch = 16
    lanes = 1
    any_length = False

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.batches: list[tuple[int, int]] = []

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        self.batches.append((mel_BMF.shape[0], mel_BMF.shape[2]))
        if torch.any(mel_BMF == 99.0):
            raise RuntimeError("this one breaks the runtime")
        return self.inner.run(mel_BMF, mask_B1F, excitation_B1S)


@pytest.fixture
def recorder(any_voice: AnyVoice) -> Recorder:
    return Recorder(any_voice("voc_causal").backend)


@pytest.fixture
def stepper(any_voice: AnyVoice, recorder: Recorder) -> WindowStepper:
    voices = {kind: any_voice(kind) for kind in KINDS}
    causal = voices["voc_causal"]
    planner = Planner(causal.planner.lengths, causal.planner.context)
    voices["voc_causal"] = replace(causal, backend=recorder, planner=planner)
    return WindowStepper(voices, lambda: Batching(max_batch_size=4, max_batch_cost=1024))


def item(mel_FM: NDArray[np.float32], voice: str, *, key: int = 0, priority: int = 0) -> Item:
    request = VocoderRequest(voice=voice, noise_key=key, priority=priority)
    frames_T = np.array([len(mel_FM)], dtype=np.int32)
    return request, MelSpectrogram(mel_FM=mel_FM, frames_T=frames_T, queue_s=1.0, model_s=2.0)


def ticket(made: Item) -> VocoderTicket:
    return Ticket(made, len(made[1].mel_FM), made[0].priority)


def run(stepper: WindowStepper) -> None:
    while stepper.in_progress:
        stepper.step()


def windows(num_frames: int) -> NDArray[np.float32]:
    return np.random.default_rng(num_frames).normal(size=(num_frames, 80)).astype(np.float32)


def test_any_mix_of_voices_lengths_and_orders_gives_what_each_gets_alone(
    any_voice: AnyVoice, any_folder: Callable[[str], VoiceFolder], make_mel: MakeMel
) -> None:
    rng = random.Random(1)
    cases = [(kind, rng.choice([1, 9, 63, 64, 65, 130, 257]), rng.getrandbits(64)) for kind in KINDS * 3]
    mels = [make_mel(any_voice(kind), frames, seed) for seed, (kind, frames, _) in enumerate(cases)]
    engine = VocoderEngine([any_folder(kind) for kind in KINDS], VocoderSettings(backend="torch"), "cpu")
    tickets = engine.submit(
        [item(mel, kind, key=key, priority=rng.randrange(3)) for mel, (kind, _, key) in zip(mels, cases, strict=True)]
    )
    for made, mel_FM, (kind, frames, key) in zip(tickets, mels, cases, strict=True):
        audio = made.future.result(timeout=60)
        voice = any_voice(kind)
        piece = voice.utterance(mel_FM, key), Window(0, frames, 0, frames)
        alone_S = voice.synthesize([piece])[0]
        assert np.abs(audio.pcm_S.astype(np.int32) - alone_S).max() <= 1
        assert audio.sample_rate_hz == 16000
        assert audio.frames_T.tolist() == [frames]
        assert audio.acoustic_s == 3.0
        assert audio.vocoder_s > 0
    engine.close()
    with pytest.raises(NotReady):
        engine.submit([item(mels[0], cases[0][0])])
    assert "closed" in engine.why_unhealthy()


def test_windows_of_one_length_run_together_up_to_the_budget(stepper: WindowStepper, recorder: Recorder) -> None:
    stepper.admit([ticket(item(windows(frames), "voc_causal")) for frames in (240, 239, 231, 233, 235, 240)])
    run(stepper)
    assert recorder.batches == [(4, 240), (2, 240)]


def test_a_runtime_that_gains_nothing_from_batches_gets_none(stepper: WindowStepper, recorder: Recorder) -> None:
    recorder.max_batch = 1
    stepper.admit([ticket(item(windows(64), "voc_causal")) for _ in range(3)])
    run(stepper)
    assert recorder.batches == [(1, 64)] * 3


def test_first_windows_go_first_and_requests_take_turns(stepper: WindowStepper) -> None:
    long, short = ticket(item(windows(2000), "voc_causal")), ticket(item(windows(64), "voc_causal"))
    stepper.admit([long])
    stepper.step()
    stepper.step()
    stepper.admit([short])
    stepper.step()
    assert short.future.done()
    assert not long.future.done()


def test_a_later_segment_yields_to_first_segments_but_not_for_ever(stepper: WindowStepper) -> None:
    later = ticket(item(windows(64), "voc_causal", priority=3))
    stepper.admit([later])
    overtaken = 0
    for _ in range(20):
        # Another length keeps them out of the later one's batch.
        stepper.admit([ticket(item(windows(96), "voc_causal"))])
        stepper.step()
        if later.future.done():
            break
        overtaken += 1
    assert 1 <= overtaken < 20


def test_voices_never_share_a_batch(
    stepper: WindowStepper, recorder: Recorder, make_mel: MakeMel, any_voice: AnyVoice
) -> None:
    tickets = [
        ticket(item(make_mel(any_voice(kind), 64, seed), kind))
        for seed, kind in enumerate(["voc_causal", "voc_nsf"] * 2)
    ]
    stepper.admit(tickets)
    run(stepper)
    assert recorder.batches == [(2, 64)]
    assert all(made.future.exception() is None for made in tickets)


def bad_mels() -> Iterator[tuple[str, NDArray[np.float32]]]:
    yield "empty", np.zeros((0, 80), dtype=np.float32)
    yield "too wide", np.zeros((64, 82), dtype=np.float32)
    yield "not a number", np.full((64, 80), np.nan, dtype=np.float32)
    yield "breaks the runtime", np.full((64, 80), 99.0, dtype=np.float32)


@pytest.mark.parametrize(("mel_FM"), [mel for _, mel in bad_mels()], ids=[name for name, _ in bad_mels()])
def test_a_bad_item_fails_alone(stepper: WindowStepper, mel_FM: NDArray[np.float32]) -> None:
    tickets = [ticket(item(mel, "voc_causal")) for mel in (windows(64), mel_FM, windows(64))]
    stepper.admit(tickets)
    run(stepper)
    assert isinstance(tickets[1].future.exception(), SynthesisFailed)
    assert np.array_equal(tickets[0].future.result().pcm_S, tickets[2].future.result().pcm_S)


def test_an_unknown_voice_is_named_with_those_that_exist(stepper: WindowStepper) -> None:
    made = ticket(item(windows(64), "nobody"))
    stepper.admit([made])
    error = made.future.exception()
    assert isinstance(error, VoiceNotFound)
    assert "'nobody'" in error.message
    assert all(kind in error.message for kind in KINDS)


def test_unwanted_work_is_dropped_before_it_costs_anything(stepper: WindowStepper, recorder: Recorder) -> None:
    gone, late = ticket(item(windows(960), "voc_causal")), ticket(item(windows(960), "voc_causal"))
    stepper.admit([gone, late])
    stepper.step()
    assert len(recorder.batches) == 1
    gone.future.cancel()
    late.deadline = 0.0
    stepper.step()
    assert len(recorder.batches) == 1
    assert not stepper.in_progress
    assert isinstance(late.future.exception(), DeadlineExceeded)


class Gated(Recorder):
    """A runtime of two lanes; a window of `held` frames is not finished before the gate opens."""

    lanes = 2
    max_batch = 1
    held = 96

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.gate = threading.Event()
        self.at_gate = threading.Event()

    def run(self, mel_BMF: Tensor, mask_B1F: Tensor | None, excitation_B1S: Tensor | None) -> Tensor:
        if mel_BMF.shape[2] == self.held:
            self.at_gate.set()
            assert self.gate.wait(60)
        return super().run(mel_BMF, mask_B1F, excitation_B1S)


@pytest.fixture
def gated(any_voice: AnyVoice) -> Iterator[Gated]:
    made = Gated(any_voice("voc_causal").backend)
    yield made
    made.gate.set()


def engine_on(backend: Backend, voice: VocoderVoice, **batching: float) -> VocoderEngine:
    """The engine with another runtime under one of its voices."""
    settings = VocoderSettings(backend="torch", batching=Batching(**batching))
    engine = VocoderEngine([voice.folder], settings, "cpu")
    planner = Planner(voice.planner.lengths, voice.planner.context, any_length=backend.any_length)
    engine._voices[voice.folder.name] = replace(voice, backend=backend, planner=planner)
    engine._loop._renew()
    return engine


def test_a_free_lane_takes_what_arrives_while_the_other_is_busy(any_voice: AnyVoice, gated: Gated) -> None:
    engine = engine_on(gated, any_voice("voc_causal"))
    (held,) = engine.submit([item(windows(96), "voc_causal")])
    assert gated.at_gate.wait(60)
    for _ in range(3):
        (quick,) = engine.submit([item(windows(64), "voc_causal")])
        assert len(quick.future.result(timeout=60).pcm_S) == 64 * 200
    assert not held.future.done()
    gated.gate.set()
    assert len(held.future.result(timeout=60).pcm_S) == 96 * 200
    engine.close()


def test_a_lane_that_is_stuck_is_given_up_however_busy_the_other_is(any_voice: AnyVoice, gated: Gated) -> None:
    engine = engine_on(gated, any_voice("voc_causal"), batch_timeout_s=0.5)
    (stuck,) = engine.submit([item(windows(96), "voc_causal")])
    served = 0
    while not stuck.future.done():
        (other,) = engine.submit([item(windows(64), "voc_causal")])
        served += other.future.exception(timeout=60) is None
    assert isinstance(stuck.future.exception(), StageStuck)
    assert served > 3
    (later,) = engine.submit([item(windows(64), "voc_causal")])
    assert len(later.future.result(timeout=60).pcm_S) == 64 * 200
    engine.close()


def test_lanes_share_one_utterance_that_is_alone_and_give_the_same_samples(
    any_voice: AnyVoice, make_mel: MakeMel
) -> None:
    for kind in KINDS:
        voice = any_voice(kind)
        mel_FM = make_mel(voice, 301, 5)
        backend = Recorder(voice.backend)
        backend.lanes, backend.max_batch, backend.any_length = 2, 1, True
        planner = Planner(voice.planner.lengths, voice.planner.context, any_length=True)
        stepper = WindowStepper({kind: replace(voice, backend=backend, planner=planner)}, Batching)
        alone = ticket(item(mel_FM, kind, key=7))
        stepper.admit([alone])
        run(stepper)
        assert len(backend.batches) == 2
        assert abs(backend.batches[0][1] - backend.batches[1][1]) <= 1
        together = [ticket(item(mel_FM, kind, key=7)) for _ in range(3)]
        stepper.admit(together)
        run(stepper)
        stepper.close()
        assert backend.batches[2:] == [(1, 301)] * 3
        for made in together:
            difference = made.future.result().pcm_S.astype(np.int32) - alone.future.result().pcm_S
            assert np.abs(difference).max() <= 1


def test_limits_change_on_the_live_engine(any_folder: Callable[[str], VoiceFolder]) -> None:
    engine = VocoderEngine([any_folder("voc_causal")], VocoderSettings(backend="torch"), "cpu")
    engine.reconfigure(Batching(max_batch_size=1))
    tickets: Sequence[VocoderTicket] = engine.submit([item(windows(64), "voc_causal")] * 3)
    assert [len(made.future.result(timeout=60).pcm_S) for made in tickets] == [64 * 200] * 3
    assert engine.num_waiting == 0
    assert engine.why_unhealthy() == ""
    engine.close()


def test_window_lengths_below_the_context_name_the_setting(any_folder: Callable[[str], VoiceFolder]) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"vocoder\.window_frames=\[16, 36\].*at least 72") as caught:
        VocoderEngine([any_folder("voc_noncausal")], VocoderSettings(window_frames=(16, 36)), "cpu")
    assert caught.value.param == "vocoder.window_frames"
