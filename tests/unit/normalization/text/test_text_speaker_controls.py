"""Speed, pitch, intensity and volume reach models and cache alike: from fields or markup, streamed or whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_analyser import VOICES

from deployments.errors import DeadlineExceeded, Overloaded
from deployments.messages import AcousticRequest, SegmentAudio, SpeechRequest, SpokenSegment, VocoderRequest
from deployments.normalization import speaker
from deployments.normalization.text.frontend import FrontEnd
from deployments.settings import CacheSettings, NormalizerSettings

Made = list[tuple[AcousticRequest, VocoderRequest]]
CACHE = CacheSettings(tier="none")
CONTROLS = st.fixed_dictionaries(
    {},
    optional={
        "speed": st.floats(0.25, 4.0),
        "pitch": st.floats(-12.0, 12.0),
        "emotion_intensity": st.floats(0.01, 2.0),
        "volume": st.floats(0.0, 2.0),
        "emotion": st.sampled_from(["neutral", "happy"]),
        "voice": st.sampled_from(["anna", "bert"]),
    },
).map(lambda fields: SpeechRequest(text="今天很好。我们走吧。", **fields))


def audio_of(acoustic: AcousticRequest, vocoder: VocoderRequest) -> SegmentAudio:
    """Samples that tell which messages they were made from."""
    pcm_S = np.frombuffer(vocoder.noise_key.to_bytes(8, "little"), np.int16)
    frames_T = np.ones(len(acoustic.symbols.split()), np.int32)
    return SegmentAudio(pcm_S=pcm_S, sample_rate_hz=16000, frames_T=frames_T)


async def spoken(made: Made, *requests: SpeechRequest) -> list[list[SpokenSegment]]:
    """What one fresh speaker makes of requests, one after another; the messages to the models go to `made`."""

    async def whole(acoustic: AcousticRequest, vocoder: VocoderRequest) -> SegmentAudio:
        made.append((acoustic, vocoder))
        return audio_of(acoustic, vocoder)

    async def in_parts(acoustic: AcousticRequest, vocoder: VocoderRequest) -> AsyncGenerator[SegmentAudio, None]:
        made.append((acoustic, vocoder))
        audio = audio_of(acoustic, vocoder)
        yield replace(audio, pcm_S=audio.pcm_S[:1])
        yield replace(audio, pcm_S=audio.pcm_S[1:])

    one = speaker.Speaker(NormalizerSettings(), CACHE, VOICES, whole, in_parts)
    await one.start()
    try:
        return [[segment async for segment in one.speak(request)] for request in requests]
    finally:
        await one.close()


def samples(segments: list[SpokenSegment]) -> list[int]:
    return np.concatenate([segment.audio.pcm_S for segment in segments]).tolist()


@pytest.fixture(autouse=True)
def _one_front_end(frontend: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The speakers of these tests share the front end, which takes a second to load."""
    monkeypatch.setattr(speaker, "FrontEnd", lambda: frontend)


def marked(request: SpeechRequest) -> SpeechRequest:
    """The same request with its controls in the markup instead of the fields, as near as markup can write them."""
    voice = request.voice or "anna"
    body = f'<emotion category="{request.emotion}" intensity="{request.emotion_intensity:.4f}">{request.text}</emotion>'
    rate, pitch, volume = f"{100 * request.speed:.4f}%", f"{request.pitch:+.4f}st", f"{100 * request.volume:.4f}%"
    text = f'<speak voice="{voice}" rate="{rate}" pitch="{pitch}" volume="{volume}">{body}</speak>'
    return SpeechRequest(text=text)


def rounded(request: SpeechRequest) -> SpeechRequest:
    """The request with numbers that markup can write."""
    return replace(
        request,
        speed=float(f"{100 * request.speed:.4f}") / 100,
        pitch=float(f"{request.pitch:.4f}"),
        volume=float(f"{100 * request.volume:.4f}") / 100,
        emotion_intensity=float(f"{request.emotion_intensity:.4f}"),
    )


@settings(max_examples=15, deadline=None)
@given(CONTROLS)
def test_a_stream_and_a_whole_answer_ask_for_the_same(request: SpeechRequest) -> None:
    made: Made = []
    whole, streamed, again = asyncio.run(
        spoken(made, replace(request, use_cache=False), replace(request, use_cache=False, stream=True), request)
    )
    assert samples(whole) == samples(streamed) == samples(again)
    assert {segment.cache for segment in again} == {"memory"}
    assert len(made) == 4
    assert sorted(made[:2], key=str) == sorted(made[2:], key=str)
    for acoustic, _ in made:
        assert (acoustic.speed, acoustic.pitch) == (request.speed, request.pitch)
        assert acoustic.emotion_intensity == request.emotion_intensity
        assert acoustic.voice == (request.voice or "anna")
        assert f"$emotion_{request.emotion}$" in acoustic.symbols


@settings(max_examples=15, deadline=None)
@given(CONTROLS, st.booleans())
def test_markup_and_fields_are_one_sound(request: SpeechRequest, stream: bool) -> None:
    made: Made = []
    request = rounded(request)
    fields, markup = asyncio.run(spoken(made, request, replace(marked(request), stream=stream)))
    assert samples(fields) == samples(markup)
    assert {segment.cache for segment in markup} == {"memory"}
    controls = markup[0].segment.controls
    assert controls is not None
    assert controls.volume == pytest.approx(request.volume)


@settings(max_examples=15, deadline=None)
@given(CONTROLS, CONTROLS)
def test_only_what_sounds_the_same_shares_an_entry(one: SpeechRequest, other: SpeechRequest) -> None:
    made: Made = []
    _, second = asyncio.run(spoken(made, one, other))
    same = all(
        getattr(one, name) == getattr(other, name) for name in ("speed", "pitch", "emotion_intensity", "emotion")
    ) and (one.voice or "anna") == (other.voice or "anna")
    assert {segment.cache for segment in second} == ({"memory"} if same else {"miss"})
    assert len({vocoder.noise_key for _, vocoder in made}) == (2 if same else 4)


async def test_spans_that_differ_in_volume_alone_are_made_once() -> None:
    made: Made = []
    text = '<speak>好<prosody volume="50%">好</prosody><prosody rate="50%">好</prosody></speak>'
    (segments,) = await spoken(made, SpeechRequest(text=text, volume=1.5))
    assert [segment.segment.controls.volume for segment in segments] == [1.5, 0.75, 1.5]  # type: ignore[union-attr]
    assert [acoustic.speed for acoustic, _ in made] == [1.0, 0.5]


async def test_each_span_is_spoken_by_its_own_voice() -> None:
    made: Made = []
    text = '<speak>你<speak voice="bert">好<emotion category="开心">吗</emotion></speak></speak>'
    await spoken(made, SpeechRequest(text=text))
    assert (
        [acoustic.voice for acoustic, _ in made] == [vocoder.voice for _, vocoder in made] == ["anna", "bert", "bert"]
    )
    assert ["$F_bert}" in acoustic.symbols for acoustic, _ in made] == [False, True, True]
    assert "$emotion_happy$F_bert}" in made[2][0].symbols


async def test_cached_only_takes_known_texts_whole_and_refuses_others_before_their_first_segment() -> None:
    made: Made = []
    text = SpeechRequest(text="今天很好。我们走吧。")
    anew, known = await spoken(made, text, replace(text, cached_only=True, stream=True))
    assert samples(known) == samples(anew)
    assert [(segment.cache, segment.index, segment.part, segment.is_last) for segment in known] == [
        ("memory", 0, 0, True),
        ("memory", 1, 0, True),
    ]
    assert len(made) == 2
    unread = replace(text, text="今天很好。", cached_only=True)  # its segment is in the cache, the text was never read
    faster = replace(text, speed=1.5, cached_only=True)  # it was read, and never spoken so
    for request in (unread, faster, replace(text, cached_only=True, use_cache=False)):
        with pytest.raises(Overloaded):
            await spoken(made, text, request)
    assert len(made) == 8  # three fresh speakers said the text; the models got nothing else


async def test_a_text_whose_time_is_up_when_it_is_read_is_not_begun() -> None:
    made: Made = []
    with pytest.raises(DeadlineExceeded):
        await spoken(made, SpeechRequest(text="今天很好。", timeout_s=1e-9))
    assert made == []
