"""Batched, streamed and alone are the same: whole requests of every golden configuration and the bundled voice."""

import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.acoustic.stepper import AcousticStepper
from deployments.acoustic.voice import AcousticVoice
from deployments.errors import InvalidRequest, SynthesisFailed, VoiceNotFound
from deployments.messages import AcousticRequest, MelChunk, MelSpectrogram
from deployments.settings import AcousticSettings
from deployments.ticket import Ticket

TOLERANCE = 1e-4
SETTINGS = AcousticSettings(max_admission_cost=24, max_postnet_cost=200)
# Durations are rounded: at a tie the last bit decides, so the examples are fixed, not drawn anew each run.
FIXED = {"derandomize": True, "deadline": None, "database": None}
SENTENCE = (
    "{j_c$tone1$s_begin$word_begin$emotion_happy$F7} {in_c$tone1$s_end$word_middle$emotion_happy$F7} "
    "{t_c$tone1$s_begin$word_middle$emotion_happy$F7} {ian_c$tone1$s_end$word_end$emotion_happy$F7} "
    "{#3$tone_none$s_none$word_none$emotion_none$F7} {b_c$tone3$s_begin$word_begin$emotion_happy$F7} "
    "{ei_c$tone3$s_end$word_middle$emotion_happy$F7} {j_c$tone1$s_begin$word_middle$emotion_happy$F7} "
    "{ing_c$tone1$s_end$word_end$emotion_happy$F7} {t_c$tone1$s_begin$word_begin$emotion_happy$F7} "
    "{ian_c$tone1$s_end$word_middle$emotion_happy$F7} {q_c$tone4$s_begin$word_middle$emotion_happy$F7} "
    "{i_c$tone4$s_end$word_end$emotion_happy$F7} {#4$tone_none$s_none$word_none$emotion_none$F7}"
)

ITEMS = (
    "n_c$tone2$s_begin$word_begin",
    "i_c$tone3$s_end$word_end",
    "uang_c$tone4$s_end$word_middle",
    "zh_c$tone1$s_begin$word_both",
    "er_c$tone5$s_both$word_both",
    "#1$tone_none$s_none$word_none",
    "#3$tone_none$s_none$word_none",
    "#4$tone_none$s_none$word_none",
)


def symbols_of(items: list[int], emotion: str, speaker: str) -> str:
    return " ".join(
        f"{{{ITEMS[item]}$emotion_{'none' if ITEMS[item].startswith('#') else emotion}${speaker}}}" for item in items
    )


def requests_of(voice: AcousticVoice, speakers: tuple[str, ...], max_tokens: int = 14):
    return st.builds(
        AcousticRequest,
        voice=st.just(voice.name),
        symbols=st.builds(
            symbols_of,
            st.lists(st.integers(0, len(ITEMS) - 1), min_size=1, max_size=max_tokens),
            st.sampled_from(["neutral", "happy", "sad"]),
            st.sampled_from(speakers),
        ),
        emotion_intensity=st.sampled_from([1.0, 0.3, 1.8]),
        speed=st.sampled_from([1.0, 0.7, 2.0, 4.0]),
        pitch=st.sampled_from([0.0, 4.0, -12.0]),
    )


def speakers_of(voice: AcousticVoice) -> tuple[str, ...]:
    return ("F7",) if voice.name == "demo" else ("F7", "F74", "M7")


def ticket_of(request: AcousticRequest) -> Ticket[AcousticRequest, MelSpectrogram]:
    return Ticket(request, request.symbols.count("{"), request.priority, request.timeout_s)


def run(stepper: AcousticStepper) -> None:
    while stepper.in_progress:
        stepper.step()


def alone(voice: AcousticVoice, request: AcousticRequest) -> MelSpectrogram:
    stepper = AcousticStepper({voice.name: voice}, SETTINGS)
    ticket = ticket_of(request)
    stepper.admit([ticket])
    run(stepper)
    return ticket.future.result(0)


def assert_same(found: MelSpectrogram, expected: MelSpectrogram) -> None:
    np.testing.assert_array_equal(found.frames_T, expected.frames_T)
    np.testing.assert_allclose(found.mel_FM, expected.mel_FM, rtol=0, atol=TOLERANCE)


def chunks_of(ticket) -> list[MelChunk]:
    """What a reader that comes afterwards still finds."""

    async def read() -> list[MelChunk]:
        return [chunk async for chunk in ticket.chunks()]

    return asyncio.run(read())


@settings(max_examples=2, **FIXED)
@given(st.data())
def test_a_batch_is_what_its_items_are_alone(voice, data):
    requests = data.draw(st.lists(requests_of(voice, speakers_of(voice)), min_size=2, max_size=6))
    stepper = AcousticStepper({voice.name: voice}, AcousticSettings())
    tickets = [ticket_of(request) for request in requests]
    stepper.admit(tickets)
    run(stepper)
    for ticket in tickets:
        assert_same(ticket.future.result(0), alone(voice, ticket.item))


@settings(max_examples=3, **FIXED)
@given(st.data())
def test_a_stream_of_arrivals_is_what_its_items_are_alone(voice, data):
    arrivals = data.draw(
        st.lists(st.tuples(st.integers(0, 30), requests_of(voice, speakers_of(voice))), min_size=2, max_size=6)
    )
    stepper = AcousticStepper({voice.name: voice}, SETTINGS)
    tickets = [(when, ticket_of(request)) for when, request in arrivals]
    for now in range(31):
        stepper.admit([ticket for when, ticket in tickets if when == now])
        stepper.step()
    run(stepper)
    for _, ticket in tickets:
        assert_same(ticket.future.result(0), alone(voice, ticket.item))


@settings(max_examples=3, **FIXED)
@given(st.data())
def test_the_pieces_of_a_stream_are_the_whole(voice, data):
    arrivals = data.draw(
        st.lists(
            st.tuples(st.integers(0, 20), requests_of(voice, speakers_of(voice)), st.booleans()), min_size=1, max_size=5
        )
    )
    first, most = data.draw(st.sampled_from([(1, 1), (5, 40), (24, 96), (50, 7)]))
    stepper = AcousticStepper(
        {voice.name: voice}, SETTINGS.model_copy(update={"first_chunk_frames": first, "chunk_frames": most})
    )
    tickets = [(when, ticket_of(replace(request, stream=stream))) for when, request, stream in arrivals]
    for now in range(21):
        stepper.admit([ticket for when, ticket in tickets if when == now])
        stepper.step()
    run(stepper)
    for _, ticket in tickets:
        chunks = chunks_of(ticket)
        expected = alone(voice, replace(ticket.item, stream=False))
        whole = replace(ticket.future.result(0), mel_FM=np.concatenate([chunk.mel_FM for chunk in chunks]))
        assert_same(whole, expected)
        assert_same(ticket.future.result(0), expected)
        np.testing.assert_array_equal(chunks[0].frames_T, expected.frames_T)
        assert all(chunk.frames_T is None for chunk in chunks[1:])
        assert [chunk.is_last for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        ends = np.cumsum([len(chunk.mel_FM) for chunk in chunks])
        assert [chunk.first_frame for chunk in chunks] == [0, *ends[:-1]]
        if not ticket.item.stream:
            assert len(chunks) == 1


def test_pieces_come_early_and_grow(voices):
    voice = voices["demo"]
    request = AcousticRequest(voice="demo", symbols=symbols_of([0, 1, 5, 3, 2] * 12, "sad", "F7"), stream=True)
    stepper = AcousticStepper({"demo": voice}, AcousticSettings(first_chunk_frames=12, chunk_frames=60))
    ticket = ticket_of(request)
    stepper.admit([ticket])
    steps = []
    push = ticket.push
    made = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ticket, "push", lambda self, chunk: (steps.append(made), push(chunk)))
        while stepper.in_progress:
            made += 1
            stepper.step()
    lengths = [len(chunk.mel_FM) for chunk in chunks_of(ticket)]
    r = voice.network.frames_per_step
    assert steps[0] == -(-(12 + voice.postnet.lookahead) // r)  # the step that completes the frames it depends on
    assert made == -(-sum(lengths) // r)  # the last piece comes with the last step
    assert len(lengths) > 5
    for length, least in zip(lengths[:-1], [12, 24, 48, *[60] * len(lengths)], strict=False):
        assert least <= length < least + r


def test_voices_take_turns_and_never_mix(voices):
    stepper = AcousticStepper(voices, SETTINGS)
    tickets = [
        ticket_of(AcousticRequest(voice=name, symbols=symbols_of([0, 1, 5, 2, 7] * (1 + index), "happy", "F7")))
        for index, name in enumerate([*voices, *voices])
    ]
    stepper.admit(tickets)
    run(stepper)
    for ticket in tickets:
        assert_same(ticket.future.result(0), alone(voices[ticket.item.voice], ticket.item))


def test_two_threads_share_a_voice(voices):
    voice = voices["demo"]
    requests = [
        AcousticRequest(voice="demo", symbols=symbols_of([0, 1, 5, 3, 2, 6, 4, 7][index:] * 2, emotion, "F7"))
        for index, emotion in enumerate(["neutral", "sad"])
    ]
    expected = [alone(voice, request) for request in requests]
    found: dict[int, list[MelSpectrogram]] = {}
    together = threading.Barrier(2)

    def work(thread: int) -> None:
        together.wait()
        found[thread] = [alone(voice, request) for request in requests[:: 1 if thread else -1]]

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results in (found[1], found[0][::-1]):
        for result, wanted in zip(results, expected, strict=True):
            assert_same(result, wanted)


def test_answers_are_plain_arrays_that_add_up(voices):
    request = AcousticRequest(voice="demo", symbols=symbols_of([0, 1, 5, 3, 2, 7], "happy", "F7"))
    answer = alone(voices["demo"], request)
    assert answer.mel_FM.dtype == np.float32
    assert answer.mel_FM.flags.c_contiguous
    assert answer.mel_FM.shape == (answer.frames_T.sum(), 82)
    assert answer.frames_T.dtype == np.int32
    assert answer.frames_T.shape == (6,)


def test_bad_items_fail_alone(voices):
    good = AcousticRequest(voice="demo", symbols=symbols_of([0, 1, 7], "happy", "F7"))
    bad = [
        (AcousticRequest(voice="demo", symbols="{nope$tone1$s_both$word_both$emotion_sad$F7}"), InvalidRequest),
        (AcousticRequest(voice="demo", symbols="rubbish"), InvalidRequest),
        (AcousticRequest(voice="demo", symbols=""), InvalidRequest),
        (AcousticRequest(voice="nobody", symbols=good.symbols), VoiceNotFound),
        (AcousticRequest(voice="demo", symbols=symbols_of([7] * 40, "sad", "F7"), speed=0.25), SynthesisFailed),
        (AcousticRequest(voice="demo", symbols=good.symbols, emotion_intensity=float("nan")), SynthesisFailed),
        (AcousticRequest(voice="demo", symbols=good.symbols, speed=1e-30), SynthesisFailed),
    ]
    stepper = AcousticStepper(voices, AcousticSettings(max_frames=500))
    tickets = [ticket_of(good), *(ticket_of(request) for request, _ in bad), ticket_of(good)]
    stepper.admit(tickets)
    run(stepper)
    for ticket, (_, error) in zip(tickets[1:-1], bad, strict=True):
        assert isinstance(ticket.future.exception(0), error), ticket.item
    for ticket in (tickets[0], tickets[-1]):
        assert_same(ticket.future.result(0), alone(voices["demo"], good))


def test_an_item_that_breaks_the_encoder_fails_alone(voices, monkeypatch):
    good = AcousticRequest(voice="demo", symbols=symbols_of([0, 1, 7], "happy", "F7"))
    expected = alone(voices["demo"], good)
    encode = AcousticVoice.encode

    def out_of_memory(voice, requests, parsed):
        if any(request.request_id == "huge" for request in requests):
            raise RuntimeError("not enough memory")
        return encode(voice, requests, parsed)

    monkeypatch.setattr(AcousticVoice, "encode", out_of_memory)
    stepper = AcousticStepper(voices, AcousticSettings())
    tickets = [ticket_of(good), ticket_of(replace(good, request_id="huge")), ticket_of(good)]
    stepper.admit(tickets)
    run(stepper)
    assert isinstance(tickets[1].future.exception(0), SynthesisFailed)
    for ticket in (tickets[0], tickets[2]):
        assert_same(ticket.future.result(0), expected)


def test_at_least_one_frame(voices):
    request = AcousticRequest(voice="am_plain", symbols=symbols_of([0], "sad", "M7"), speed=1000.0)
    answer = alone(voices["am_plain"], request)
    assert answer.frames_T.tolist() == [1]
    assert np.isfinite(answer.mel_FM).all()


def test_hundreds_of_symbols(voices):
    request = AcousticRequest(voice="demo", symbols=symbols_of([0, 1, 5, 3, 2] * 180, "neutral", "F7"), speed=4.0)
    answer = alone(voices["demo"], request)  # 900 symbols: beyond the stored table of positions
    assert answer.mel_FM.shape[0] == answer.frames_T.sum() > 900
    assert np.isfinite(answer.mel_FM).all()


def test_speed_divides_the_durations(voices):
    def frames(speed: float) -> int:
        symbols = symbols_of([0, 1, 5, 3, 2, 6, 0, 1, 7], "neutral", "F7")
        return len(alone(voices["demo"], AcousticRequest(voice="demo", symbols=symbols, speed=speed)).mel_FM)

    usual = frames(1.0)
    assert frames(0.5) == pytest.approx(2 * usual, abs=6)  # each of 9 tokens rounds by half a frame at most
    assert frames(2.0) == pytest.approx(usual / 2, abs=6)


@pytest.mark.parametrize("semitones", [-6.0, 4.0, 8.0])
def test_pitch_moves_the_voice_by_semitones_and_keeps_its_pace(voices, bundled_folder, semitones):
    def answer(pitch: float) -> tuple[float, list[int]]:
        mel = alone(voices["demo"], AcousticRequest(voice="demo", symbols=SENTENCE, pitch=pitch))
        voiced = mel.mel_FM[:, 81] >= 0.6
        f0_hz = mel.mel_FM[voiced, 80] * bundled_folder.f0_scale_hz + bundled_folder.f0_offset_hz
        return float(np.median(f0_hz)), mel.frames_T.tolist()

    (usual_hz, usual_frames), (moved_hz, moved_frames) = answer(0.0), answer(semitones)
    assert 12 * np.log2(moved_hz / usual_hz) == pytest.approx(semitones, abs=0.6)
    assert moved_frames == usual_frames


def test_intensity_leads_from_neutral_through_the_emotion(voices):
    def mel(emotion: str, intensity: float) -> MelSpectrogram:
        symbols = symbols_of([0, 1, 5, 3, 2, 7], emotion, "F7")
        return alone(voices["demo"], AcousticRequest(voice="demo", symbols=symbols, emotion_intensity=intensity))

    assert_same(mel("sad", 0.0), mel("neutral", 1.0))
    assert_same(mel("neutral", 2.0), mel("neutral", 1.0))
    lengths = [len(mel("sad", intensity).mel_FM) for intensity in (0.0, 1.0, 2.0)]
    assert lengths[0] < lengths[1] < lengths[2]  # sad is slow in this voice


def test_without_a_neutral_emotion_the_intensity_stays_at_one(bundled_folder):
    emotions = tuple("emotion_other" if name == "emotion_neutral" else name for name in bundled_folder.symbols.emotion)
    voice = AcousticVoice(replace(bundled_folder, symbols=replace(bundled_folder.symbols, emotion=emotions)), "cpu")
    with pytest.raises(InvalidRequest, match="no neutral emotion"):
        voice.parse(AcousticRequest(voice="demo", symbols=symbols_of([0, 1], "sad", "F7"), emotion_intensity=0.5))
    voice.parse(AcousticRequest(voice="demo", symbols=symbols_of([0, 1], "sad", "F7")))


def test_symbols_beyond_the_trained_tables_are_refused(voices):
    voice = voices["demo"]
    few = torch.nn.Embedding(3, voice.network.emo_tokenizer.embedding_dim)
    full, voice.network.emo_tokenizer = voice.network.emo_tokenizer, few
    try:
        with pytest.raises(InvalidRequest, match="not trained"):
            voice.parse(AcousticRequest(voice="demo", symbols=symbols_of([0, 1], "sad", "F7")))
    finally:
        voice.network.emo_tokenizer = full
