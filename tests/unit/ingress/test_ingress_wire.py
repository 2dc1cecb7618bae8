"""Bodies become requests, or refusals that name field and fix."""

import dataclasses

import pytest
from ingress_double import VOICES

from deployments.errors import EmotionNotFound, InvalidRequest, ModelNotFound, TooLarge, VoiceNotFound
from deployments.ingress.bodies import SpeechBody, TtsBody
from deployments.ingress.wire import checked, to_request
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

SETTINGS = IngressSettings()


def request_for(**fields):
    return to_request(SpeechBody(input="您好", **fields), VOICES, SETTINGS)


def test_defaults_are_those_of_the_message():
    expected = SpeechRequest(text="您好", voice="demo", timeout_s=SETTINGS.request_timeout_s)
    assert request_for() == expected


def test_every_field_arrives():
    request = to_request(
        SpeechBody(
            input="您好", voice="demo", speed=0.25, emotion="happy", emotion_intensity=2.0, pitch=-12, volume=0,
            sample_rate=48000, normalize=False,
        ),
        VOICES,
        SETTINGS,
        request_id="abc",
        use_cache=False,
    )  # fmt: skip
    assert request == SpeechRequest(
        text="您好", voice="demo", speed=0.25, emotion="happy", emotion_intensity=2.0, pitch=-12.0, volume=0.0,
        sample_rate_hz=48000, normalize=False, use_cache=False, request_id="abc", timeout_s=60.0,
    )  # fmt: skip


def test_voice_by_name_by_reference_and_by_default():
    assert request_for(voice="plain").voice == request_for(voice={"id": "plain"}).voice == "plain"
    assert request_for().voice == "demo"
    with pytest.raises(VoiceNotFound, match=r"'alloy' is not served. The voices: demo, plain"):
        request_for(voice="alloy")


def test_emotion_goes_before_instructions():
    assert request_for(instructions="sad", emotion="happy").emotion == "happy"
    assert request_for(instructions="sad", emotion="neutral").emotion == "neutral"
    assert request_for(instructions="sad").emotion == "sad"
    assert request_for(instructions="as you like").emotion == "neutral"


def test_a_voice_without_emotions_is_neutral():
    assert request_for(voice="plain").emotion == "neutral"
    assert request_for(voice="plain", emotion="中性").emotion == "neutral"
    with pytest.raises(EmotionNotFound):
        request_for(voice="plain", emotion="happy")


def test_a_voice_without_neutral_starts_with_its_first_emotion():
    lively = [dataclasses.replace(VOICES[0], emotions=("happy", "sad"))]
    assert to_request(SpeechBody(input="您好"), lively, SETTINGS).emotion == "happy"


@pytest.mark.parametrize("model", ["sambert-hifigan", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"])
def test_models_that_are_served(model):
    assert request_for(model=model).text == "您好"


def test_other_models_are_not_found():
    with pytest.raises(ModelNotFound, match="sambert-hifigan, tts-1"):
        request_for(model="whisper-1")


def test_length_counts_characters_and_no_tags():
    settings = IngressSettings(max_input_chars=4)
    for text in ("一二三四", "<speak>一二<break time='200ms'/>三四</speak>"):
        assert to_request(SpeechBody(input=text), VOICES, settings).text == text
    for text in ("一二三四五", "<speak>一二三四五</speak>", "1<2 3>"):
        with pytest.raises(TooLarge, match="4 are allowed") as caught:
            to_request(SpeechBody(input=text), VOICES, settings)
        assert caught.value.param == "input"


def test_tts_body_is_a_whole_wav():
    body = TtsBody(text="您好", emotion="开心", speed=2.0).to_speech()
    assert (body.input, body.response_format, body.stream) == ("您好", "wav", False)
    assert to_request(body, VOICES, SETTINGS).emotion == "happy"
    assert to_request(TtsBody(text="您好").to_speech(), VOICES, SETTINGS) == request_for()


class TestPythonHandle:
    def test_is_resolved_like_a_body(self):
        request = checked(SpeechRequest(text="您好", emotion="开心", request_id="r"), VOICES, SETTINGS)
        assert (request.voice, request.emotion, request.request_id) == ("demo", "happy", "r")

    def test_time_may_be_shorter_not_longer(self):
        assert checked(SpeechRequest(text="您好", timeout_s=5), VOICES, SETTINGS).timeout_s == 5
        assert checked(SpeechRequest(text="您好", timeout_s=500), VOICES, SETTINGS).timeout_s == 60

    @pytest.mark.parametrize(
        ("field", "value", "param"),
        [
            ("text", "", "input"), ("text", 3, "input"), ("speed", 0.2, "speed"), ("speed", float("nan"), "speed"),
            ("pitch", 13, "pitch"), ("volume", -1, "volume"), ("emotion_intensity", 0, "emotion_intensity"),
            ("sample_rate_hz", 11025, "sample_rate"), ("normalize", 1, "normalize"), ("voice", 3, "voice"),
        ],
    )  # fmt: skip
    def test_is_held_to_the_same_ranges(self, field, value, param):
        with pytest.raises(InvalidRequest) as caught:
            checked(dataclasses.replace(SpeechRequest(text="您好"), **{field: value}), VOICES, SETTINGS)
        assert caught.value.param == param
