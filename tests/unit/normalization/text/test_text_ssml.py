"""The reader of SSML: what the tags mean, what is refused and where, attacks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.errors import EmotionNotFound, MarkupInvalid, TooLarge, VoiceNotFound
from deployments.messages import Controls
from deployments.normalization.text import ssml, ssml_values
from deployments.normalization.text.ssml import is_markup
from deployments.normalization.text.ssml_document import Document, Gap, Piece

BASE = Controls(voice="anna")


class Cast:
    """Two voices; the second has one emotion."""

    emotions = {"anna": ("neutral", "happy", "sad"), "bert": ("neutral",)}  # noqa: RUF012

    def with_voice(self, controls: Controls, name: str) -> Controls:
        if name not in self.emotions:
            raise VoiceNotFound(f"No voice {name!r}.", param="voice")
        return self.with_emotion(replace(controls, voice=name), controls.emotion)

    def with_emotion(self, controls: Controls, word: str) -> Controls:
        if word not in self.emotions[controls.voice]:
            raise EmotionNotFound(f"No emotion {word!r}.", param="emotion")
        return replace(controls, emotion=word)


def parse(text: str, base: Controls = BASE) -> Document:
    return ssml.parse(text, base, Cast())


def controls(inside: str, base: Controls = BASE) -> Controls:
    """The controls of the one stretch of a text."""
    (stretch,) = parse(inside, base).stretches
    return stretch.controls


def refused(text: str) -> str:
    with pytest.raises(MarkupInvalid) as caught:
        parse(text)
    assert caught.value.param == "input"
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<speak>好</speak>", True),
        (" \n\ufeff<speak voice='a'>好</speak>", True),
        ("<speak/>", True),
        ("<?xml version='1.0'?><speak>好</speak>", True),
        ("<!DOCTYPE a><speak>好</speak>", True),
        ("<SPEAK>好</SPEAK>", True),
        ("<speakeasy>", False),
        ("<b>好</b>", False),
        ("好<speak>", False),
        ("", False),
    ],
)
def test_markup_is_told_from_text(text: str, expected: bool) -> None:
    assert is_markup(text) is expected


@pytest.mark.parametrize(
    ("rate", "speed"),
    [
        ("0", 1.0),
        ("500", 2.0),
        ("-500", 0.5),
        ("-125", 0.8),
        ("200", 1.25),
        ("+200", 1.25),
        ("120%", 1.2),
        ("+20%", 1.2),
        ("-20%", 0.8),
        ("x-slow", 0.5),
        (" Fast ", 1.5),
        ("default", 1.0),
    ],
)
def test_rates(rate: str, speed: float) -> None:
    assert controls(f'<speak rate="{rate}">好</speak>').speed == pytest.approx(speed)


@pytest.mark.parametrize(
    ("pitch", "shift"),
    [("0", 0), ("500", 12), ("-250", -6), ("+2st", 2), ("-1.5st", -1.5), ("200%", 12), ("-50%", -12), ("low", -4)],
)
def test_pitches(pitch: str, shift: float) -> None:
    assert controls(f'<speak pitch="{pitch}">好</speak>').pitch == pytest.approx(shift)


@pytest.mark.parametrize(
    ("volume", "factor"),
    [("0", 0), ("50", 1), ("100", 2), ("+6dB", 1.99526), ("-20dB", 0.1), ("150%", 1.5), ("silent", 0), ("soft", 0.7)],
)
def test_volumes(volume: str, factor: float) -> None:
    assert controls(f'<speak volume="{volume}">好</speak>').volume == pytest.approx(factor, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.floats(-500, 500), st.floats(-500, 500))
def test_a_higher_rate_is_faster_and_half_and_twice_are_the_ends(one: float, other: float) -> None:
    low, high = (ssml_values.speed(f"{rate:.4f}") for rate in sorted((one, other)))
    assert 0.5 <= low <= high <= 2.0


@pytest.mark.parametrize("value", ["", "fast!", "501", "1e2", "nan", "inf", "１００", "2st", "--5", "9" * 400, "401%"])
def test_rates_that_are_none(value: str) -> None:
    message = refused(f'<speak>\n<prosody rate="{value}">好</prosody></speak>')
    assert message.startswith("<prosody rate=")
    assert "(line 2, column 1)" in message
    assert "-500 to 500" in message or "0.25 to 4" in message
    assert len(message) < 250


def test_speak_replaces_the_request_and_prosody_scales_it() -> None:
    base = Controls(voice="anna", emotion="happy", emotion_intensity=0.5, speed=2.0, pitch=3.0, volume=0.5)
    assert controls("<speak>好</speak>", base) == base
    replaced = controls('<speak rate="0" pitch="0" volume="50">好</speak>', base)
    assert replaced == replace(base, speed=1.0, pitch=0.0, volume=1.0)
    scaled = controls('<speak><prosody rate="75%" pitch="+2st" volume="50%">好</prosody></speak>', base)
    assert scaled == replace(base, speed=1.5, pitch=5.0, volume=0.25)
    clipped = controls('<speak><prosody rate="400%" pitch="+12st" volume="200%">好</prosody></speak>', base)
    assert clipped == replace(base, speed=4.0, pitch=12.0, volume=1.0)


def test_controls_end_with_their_tag() -> None:
    text = '<speak>一<emotion category="sad" intensity="0.4">二<prosody rate="500">三</prosody></emotion>四</speak>'
    found = [(s.controls.emotion, s.controls.emotion_intensity, s.controls.speed) for s in parse(text).stretches]
    assert found == [("neutral", 1.0, 1.0), ("sad", 0.4, 1.0), ("sad", 0.4, 2.0), ("neutral", 1.0, 1.0)]


def test_an_emotion_without_intensity_has_its_full_one() -> None:
    base = replace(BASE, emotion_intensity=0.3)
    assert controls('<speak><emotion category="sad">好</emotion></speak>', base).emotion_intensity == 1.0


def test_tags_that_change_nothing_divide_nothing() -> None:
    text = '<speak>今天<emotion category="neutral">天气</emotion><prosody rate="100%">很</prosody>好</speak>'
    (stretch,) = parse(text).stretches
    assert "".join(piece.text for piece in stretch.pieces) == "今天天气很好"


def test_a_voice_inside() -> None:
    document = parse('<speak voice="bert">你<speak voice="anna"><emotion category="sad">好</emotion></speak></speak>')
    found = [(stretch.controls.voice, stretch.controls.emotion) for stretch in document.stretches]
    assert found == [("bert", "neutral"), ("anna", "sad")]


@pytest.mark.parametrize(
    ("inside", "gap"),
    [
        ('<break time="500ms"/>', Gap(0.5)),
        ('<break time="1.5s"></break>', Gap(1.5)),
        ("<break/>", Gap(0.4)),
        ('<break strength="strong"/>', Gap(0.7)),
        ('<break time="1s" strength="weak"/>', Gap(1.0)),
        ('<break time="1s"/> \n <break time="2s"/>', Gap(3.0)),
        ('<break time="9s"/><break time="9s"/>', Gap(10.0)),
        ("</s><s>", Gap(None, "sentence")),
        ('</s></p> <break time="1s"/> <p><s>', Gap(1.0, "paragraph")),
    ],
)
def test_gaps(inside: str, gap: Gap) -> None:
    document = parse(f"<speak><p><s>一{inside}二</s></p></speak>")
    assert [stretch.gap for stretch in document.stretches[:-1]] == [gap]


@pytest.mark.parametrize("nothing", ['<break strength="none"/>', '<break time="0ms"/>'])
def test_a_break_of_no_length_divides_nothing(nothing: str) -> None:
    (stretch,) = parse(f"<speak>一{nothing}二</speak>").stretches
    assert [piece.text for piece in stretch.pieces] == ["一", "二"]


def test_breaks_at_the_ends() -> None:
    document = parse('<speak><break time="1s"/>好<break time="2s"/></speak>')
    assert document.lead == Gap(1.0)
    assert document.stretches[0].gap == Gap(2.0)


def test_pieces() -> None:
    (stretch,) = parse(
        '<speak>在<phoneme alphabet="py" ph="Yin2 HANG2">银行</phoneme>，<sub alias="万维网">W3C</sub>'
        '<w>长隆</w>\n<say-as interpret-as="digits"> 12 </say-as></speak>'
    ).stretches
    assert stretch.pieces == (
        Piece("在"),
        Piece("银行", "phoneme", "yin2 hang2"),
        Piece("，"),
        Piece("W3C", "sub", "万维网"),
        Piece("长隆", "w"),
        Piece(" "),
        Piece("12", "say-as", "digits"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<speak>好<foo>a</foo></speak>", "The tag <foo> is not known (line 1, column 9). The tags: speak, emotion"),
        ("\n\n  <speak>\n 好<foo/></speak>", "(line 4, column 3)"),
        ("   <foo>好</foo>", "The tag <foo> is not known (line 1, column 4)"),
        ("<speak><audio src='file:///etc/passwd'/>好</speak>", "The tag <audio> is not known"),
        ("<speak><voice name='a'>好</voice></speak>", "The tag <voice> is not known"),
        ("<speak:x>好</speak:x>", "The tag <speak:x> is not known"),
        ("<speak bgm='http://a'>好</speak>", "<speak> has no attribute bgm (line 1, column 1). Its attributes: pitch"),
        ("<speak><s rate='1'>好</s></speak>", "<s> has no attribute rate (line 1, column 8). Its attributes: none."),
        ("<prosody>好</prosody>", "<prosody> cannot stand outside <speak>"),
        ("<speak><s><p>好</p></s></speak>", "<p> cannot stand inside <s>"),
        ("<speak><w>好<break/></w></speak>", "<break> cannot stand inside <w>"),
        ("<speak><break><s>好</s></break></speak>", "<s> cannot stand inside <break>"),
        ("<speak><emotion>好</emotion></speak>", "<emotion> needs the attribute category (line 1, column 8)"),
        ("<speak><phoneme alphabet='py'>好</phoneme></speak>", "<phoneme> needs the attribute ph"),
        ("<speak><phoneme alphabet='ipa' ph='a'>好</phoneme></speak>", "<phoneme alphabet='ipa'> is wrong"),
        ("<speak><phoneme ph='hao'>好</phoneme></speak>", "'hao' is no syllable"),
        ("<speak><phoneme ph=' '>好</phoneme></speak>", "Use pinyin with tones"),
        ("<speak><phoneme ph='ni3 hao3'>好</phoneme></speak>", "one syllable per character"),
        ("<speak><phoneme ph='hao3'> </phoneme></speak>", "<phoneme> encloses no text"),
        ("<speak><say-as interpret-as='nick'>好</say-as></speak>", "Use cardinal, digits, telephone, name"),
        ("<speak><break time='1'/>好</speak>", "<break time='1'> is wrong (line 1, column 8). Use 0 to 10 seconds"),
        ("<speak><break time='11s'/>好</speak>", "0 to 10 seconds"),
        ("<speak><break time='-1s'/>好</speak>", "0 to 10 seconds"),
        ("<speak><break strength='heavy'/>好</speak>", "none, x-weak"),
        ("<speak><emotion category='sad' intensity='3'>好</emotion></speak>", "Use 0.01 to 2.0"),
        ("<speak>好", "not well formed: no element found (line 1, column 9)"),
        ("<speak>好</s></speak>", "mismatched tag"),
        ("<speak>A & B</speak>", "Write & as &amp;"),
        ("<speak>&nbsp;好</speak>", "undefined entity"),
        ("<speak a='1' a='2'>好</speak>", "duplicate attribute"),
        ("<speak>好</speak>再见", "junk after document element"),
        ("<speak>\x00</speak>", "not well formed"),
        ("<speak>\ud800</speak>", "not well formed"),
        ("<speak>&#0;</speak>", "reference to invalid character number"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    assert said in refused(text)


def test_unknown_voices_and_emotions_keep_their_codes_and_gain_a_place() -> None:
    with pytest.raises(VoiceNotFound, match=r"'carl' \(<speak>, line 1, column 1\)"):
        parse('<speak voice="carl">好</speak>')
    with pytest.raises(EmotionNotFound, match=r"'bored' \(<emotion>, line 1, column 8\)") as caught:
        parse('<speak><emotion category="bored">好</emotion></speak>')
    assert caught.value.param == "input"
    with pytest.raises(EmotionNotFound):
        ssml.parse('<speak voice="bert">好</speak>', replace(BASE, emotion="sad"), Cast())


def test_documents_of_other_services_are_read() -> None:
    head = '<?xml version="1.0" encoding="gb2312"?>\n<!-- a comment --><speak version="1.1" xml:lang="zh-CN" '
    (stretch,) = parse(head + 'xmlns="http://www.w3.org/2001/10/synthesis"><![CDATA[一 < 二]]></speak>').stretches
    assert [piece.text for piece in stretch.pieces] == ["一 < 二"]


ATTACKS = {
    "billion laughs": "<!DOCTYPE x ["
    + '<!ENTITY a0 "哈">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    + "]><speak>&a9;</speak>",
    "external entity": '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><speak>&f;</speak>',
    "external document type": '<!DOCTYPE speak SYSTEM "http://127.0.0.1:1/a.dtd"><speak>好</speak>',
    "parameter entity": '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:1/p">%p;]><speak>好</speak>',
    "empty document type": "<?xml version='1.0'?><!DOCTYPE speak><speak>好</speak>",
    "depth": "<speak>" * 30_000,
    "closed depth": "<speak>" * 17 + "好" + "</speak>" * 17,
    "many tags": "<speak>" + "<s/>" * 9_000 + "</speak>",
    "many attributes": "<speak " + " ".join(f'a{n}="1"' for n in range(20_000)) + ">好</speak>",
    "huge attribute": f'<speak voice="anna" rate="{"1" * 200_000}">好</speak>',
    "huge alias": f'<speak><sub alias="{"好" * 5_000}">a</sub></speak>',
    "many aliases": "<speak>" + f'<sub alias="{"好" * 100}">a</sub>' * 50 + "</speak>",
    "long name": f"<{'speak' * 30_000}>",
    "endless silence": "<speak>" + '好<break time="10s"/>' * 31 + "</speak>",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_refused_at_once(attack: str) -> None:
    started = time.process_time()
    refused(ATTACKS[attack])
    assert time.process_time() - started < 2.0


def test_too_long_a_text_is_not_even_read() -> None:
    with pytest.raises(TooLarge):
        parse("<speak>" + " " * ssml.MAX_MARKUP_CHARS + "</speak>")


TAGS = (
    *("<speak>", "</speak>", "<s>", "</s>", "<p>", "</p>", "<w>", "</w>", "<break/>", '<break time="1s"/>'),
    *("<emotion category='sad'>", "</emotion>", "<prosody rate='+10%'>", "</prosody>"),
    *("&amp;", "好", " ", "。", "<", "&", "\x01", "\ud800"),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(TAGS), max_size=12).map("".join), st.booleans())
def test_any_text_is_read_or_refused(inside: str, closed: bool) -> None:
    text = f"<speak>{inside}</speak>" if closed else inside
    try:
        document = parse(text)
    except (MarkupInvalid, EmotionNotFound):
        return
    read = "".join(piece.text for stretch in document.stretches for piece in stretch.pieces)
    assert read.count("好") == inside.count("好")
    assert all(stretch.pieces for stretch in document.stretches)
