"""Admission: bounds, learnt rates, Retry-After, turns, looks into the cache, places that are always given back."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from ingress_double import Tones

from deployments.errors import Overloaded, SynthesisFailed
from deployments.ingress.admission import ADMISSION, Admission, Wish
from deployments.ingress.admitted import Admitted, wish_of
from deployments.ingress.rates import FIRST_CHAR_S, MEMORY_S, DrainRate, SpokenLength
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Metrics:
    """Keeps the last value of every series, and counts."""

    def __init__(self):
        self.values = {}

    def count(self, name, amount, tags):
        key = (name, *tags.values())
        self.values[key] = self.values.get(key, 0) + amount

    def gauge(self, name, value, tags):
        self.values[name] = value


@pytest.fixture
def clock():
    return Clock()


def admission_of(clock, metrics=None, **settings):
    return Admission(IngressSettings(admission=settings), metrics, clock)


def learn_rate(admission, clock, per_s, work_s=60.0):
    """Lets the models work so fast for so long."""
    for _ in range(int(work_s * 10)):
        with admission.rate.waiting():
            clock.now += 0.1
        admission.rate.made(0.1 * per_s)


class TestRates:
    def test_length_is_that_of_an_even_pace_until_it_is_learnt(self):
        length = SpokenLength()
        assert length.of(100, 1.0) == pytest.approx(22.0)
        assert length.of(100, 2.0) == pytest.approx(11.0)
        for _ in range(300):
            length.learn(50, 2.0, 50 * 0.3 / 2)
        assert length.of(100, 1.0) == pytest.approx(30.0, rel=0.01)

    def test_rate_counts_the_time_of_waiting_alone(self, clock):
        rate = DrainRate(clock)
        assert rate.per_s is None
        for _ in range(100):
            with rate.waiting(), rate.waiting():  # two at once are one second per second
                clock.now += 0.1
            rate.made(1.0)
            clock.now += 50.0  # nobody waits
        assert rate.per_s == pytest.approx(10.0, rel=0.02)

    def test_rate_follows_what_the_models_do_now(self, clock):
        rate = DrainRate(clock)
        for audio_s in [1.0] * 600 + [0.2] * 600:
            with rate.waiting():
                clock.now += 0.1
            rate.made(audio_s)
        assert rate.per_s == pytest.approx(2.0, rel=0.2)
        with rate.waiting():
            clock.now += MEMORY_S  # stuck
            assert rate.per_s == pytest.approx(2.0 / 2.718, rel=0.2)


class TestRoom:
    def test_texts_are_counted(self, clock):
        admission = admission_of(clock, max_requests=2)
        first, _ = admission.enter(Wish(10)), admission.enter(Wish(10))
        with pytest.raises(Overloaded):
            admission.enter(Wish(10))
        first.leave(is_whole=False)
        admission.enter(Wish(10))

    def test_audio_is_counted_and_what_is_made_counts_no_more(self, clock):
        admission = admission_of(clock, max_audio_s=10.0, max_request_audio_s=9.0)
        place = admission.enter(Wish(40))
        assert admission.audio_s == pytest.approx(8.8)
        with pytest.raises(Overloaded):
            admission.enter(Wish(10))
        place.made(1.5, by_models=True)
        admission.enter(Wish(10))
        assert admission.audio_s == pytest.approx(7.3 + 2.2)

    def test_an_empty_service_takes_any_text_and_a_long_one_counts_as_what_it_may_occupy(self, clock):
        admission = admission_of(clock, max_audio_s=50.0, max_request_audio_s=30.0)
        place = admission.enter(Wish(100_000))
        assert admission.audio_s == 30.0
        admission.enter(Wish(50))
        place.made(21_000.0, by_models=True)
        assert admission.audio_s == pytest.approx(30.0 + 11.0)
        place.made(980.0, by_models=True)
        assert admission.audio_s == pytest.approx(20.0 + 11.0)

    def test_room_is_what_the_models_can_make_in_time(self, clock):
        admission = admission_of(clock, max_wait_s=4.0, max_request_audio_s=5.0)
        assert admission.room_s == 3600.0
        learn_rate(admission, clock, per_s=10.0)
        assert admission.room_s == pytest.approx(40.0, rel=0.02)
        learn_rate(admission, clock, per_s=0.0, work_s=10.0)  # a replica starts again
        assert admission.room_s == pytest.approx(40.0, rel=0.1)
        learn_rate(admission, clock, per_s=0.1, work_s=600.0)
        assert admission.room_s == 5.0  # one long text is always taken on

    def test_texts_that_share_a_synthesis_count_once(self, clock):
        admission = admission_of(clock, max_audio_s=10.0)
        request = SpeechRequest(text="好" * 40, voice="demo")
        places = [admission.enter(wish_of(request)) for _ in range(50)]
        assert admission.audio_s == pytest.approx(8.8)
        for other in (SpeechRequest(text="好" * 40, voice="demo", use_cache=False), SpeechRequest(text="坏" * 40)):
            with pytest.raises(Overloaded):
                admission.enter(wish_of(other))
        for place in places:
            place.leave(is_whole=True)
        assert (admission.num_texts, admission.audio_s) == (0, 0)

    def test_tags_of_markup_are_not_spoken(self):
        assert wish_of(SpeechRequest(text='<speak voice="demo">您好</speak>')).num_chars == 2

    @given(st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.floats(0, 50), st.integers(0, 9)), max_size=60))
    @hypothesis_settings(max_examples=60, deadline=None)
    def test_every_place_comes_back(self, steps):
        admission = admission_of(Clock(), max_requests=8, max_audio_s=60.0)
        places = []
        for num_chars, leaves, made_s, index in steps:
            if leaves and places:
                places.pop(index % len(places)).leave(is_whole=index % 2 == 0)
                continue
            try:
                places.append(admission.enter(Wish(num_chars, sound=num_chars if index % 2 else None)))
            except Overloaded:
                assert places
            else:
                places[-1].made(made_s, by_models=True)
            assert admission.num_texts == len(places) <= 8
            assert 0 <= admission.audio_s <= 60.0 + 1e-9
        for place in places:
            place.leave(is_whole=True)
        assert (admission.num_texts, admission.audio_s) == (0, 0)


class TestRetryAfter:
    def told(self, admission, num_chars=100):
        with pytest.raises(Overloaded) as caught:
            admission.enter(Wish(num_chars))
        return caught.value.retry_after_s

    def test_it_is_when_there_will_be_room_for_those_who_were_told_before_too(self, clock):
        admission = admission_of(clock, max_audio_s=22.0, max_request_audio_s=22.0)
        learn_rate(admission, clock, per_s=11.0)
        admission.enter(Wish(100))
        assert [self.told(admission) for _ in range(4)] == [2.0, 4.0, 6.0, 8.0]
        clock.now += 4.0
        assert self.told(admission) == pytest.approx(6.0, abs=1)

    def test_it_has_bounds(self, clock):
        admission = admission_of(clock, max_audio_s=22.0, max_wait_s=1000.0)
        learn_rate(admission, clock, per_s=1000.0)
        admission.enter(Wish(100))
        assert self.told(admission, 1) == 1.0
        learn_rate(admission, clock, per_s=0.0, work_s=300)
        assert {self.told(admission) for _ in range(50)} == {60.0}


class TestTurns:
    async def test_live_waits_in_order_and_goes_before_background(self, clock):
        admission = admission_of(clock, max_requests=2, background_share=0.5)
        first, second = admission.enter(Wish(1)), admission.enter(Wish(1))
        turns = []

        async def turn(name, kind):
            place = await admission.wait(Wish(1), kind)
            turns.append(name)
            return place

        kinds = [("b1", "background"), ("l1", "live"), ("l2", "live"), ("b2", "background")]
        waiting = [asyncio.create_task(turn(*kind)) for kind in kinds]
        await asyncio.sleep(0)
        # background has a share of its own, which the others have not touched
        assert turns == ["b1"]
        first.leave(is_whole=False)
        second.leave(is_whole=False)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert turns == ["b1", "l1"]
        (await waiting[1]).leave(is_whole=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert turns == ["b1", "l1", "l2"]
        (await waiting[0]).leave(is_whole=True)
        (await waiting[3]).leave(is_whole=True)
        assert turns == ["b1", "l1", "l2", "b2"]

    async def test_background_leaves_room_for_others(self, clock):
        admission = admission_of(clock, max_requests=4, background_share=0.5)
        for _ in range(2):
            await admission.wait(Wish(1), "background")
        third = asyncio.create_task(admission.wait(Wish(1), "background"))
        await asyncio.sleep(0)
        assert not third.done()
        admission.enter(Wish(1))
        admission.enter(Wish(1))
        third.cancel()

    @pytest.mark.parametrize("is_given", [False, True])
    async def test_who_goes_while_waiting_takes_no_place(self, clock, is_given):
        admission = admission_of(clock, max_requests=1)
        place = admission.enter(Wish(1))
        waiting = [asyncio.create_task(admission.wait(Wish(1), "live")) for _ in range(2)]
        await asyncio.sleep(0)
        if is_given:
            place.leave(is_whole=False)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        if not is_given:
            assert not waiting[1].done()
            place.leave(is_whole=False)
        async with asyncio.timeout(5):
            (await waiting[1]).leave(is_whole=False)
        assert admission.num_texts == 0


class Known(Tones):
    """Has the texts that begin with 熟 in its cache."""

    async def speak(self, request):
        if request.cached_only and not request.text.startswith("熟"):
            self.requests.append(request)
            raise Overloaded("not known", retry_after_s=1.0)
        async with aclosing(super().speak(request)) as segments:
            async for segment in segments:
                yield segment


async def spoken(service, text, **fields):
    return [segment async for segment in service.speak(SpeechRequest(text=text, voice="demo", **fields))]


class TestLadder:
    @pytest.fixture
    def full(self, clock):
        admission = admission_of(clock, metrics := Metrics(), max_requests=1)
        admission.enter(Wish(1))
        return Admitted(Known(), admission), metrics

    async def test_known_texts_are_spoken_and_others_refused_with_a_time(self, full, clock):
        service, metrics = full
        assert len(await spoken(service, "熟。熟")) == 2
        with pytest.raises(Overloaded) as caught:
            await spoken(service, "生")
        assert caught.value.retry_after_s >= 1.0
        assert "as much to do as it can" in caught.value.message
        assert metrics.values["texts_admitted", "cached_only"] == 1
        assert metrics.values["refusals", "room"] == 1
        assert service.admission.num_texts == 1

    async def test_what_is_to_be_made_anew_is_not_looked_for(self, full):
        service, _ = full
        with pytest.raises(Overloaded):
            await spoken(service, "熟", use_cache=False)
        assert service._service.requests == []

    async def test_vain_looks_end_and_come_back_with_time(self, full, clock):
        service, _ = full
        stages = service._service
        for _ in range(40):
            with pytest.raises(Overloaded):
                await spoken(service, "生")
        assert len(stages.requests) == 8
        with pytest.raises(Overloaded):
            service.admission.check()
        clock.now += 1.0
        service.admission.check()
        for _ in range(40):
            with pytest.raises(Overloaded):
                await spoken(service, "生")
        assert len(stages.requests) == 12

    async def test_looks_that_find_something_do_not_end(self, full):
        service, _ = full
        for _ in range(40):
            assert await spoken(service, "熟")

    async def test_few_look_at_once(self, clock):
        admission = admission_of(clock, max_requests=1, max_cached_requests=2)
        admission.enter(Wish(1))
        with admission.look():
            admission.check()
            with admission.look(), pytest.raises(Overloaded):
                admission.check()

    async def test_the_place_comes_back_however_a_text_ends(self, clock):
        stages = Tones()
        service = Admitted(stages, admission_of(clock, max_requests=4))
        await spoken(service, "好")
        stages.failure = SynthesisFailed("broken; retry.")
        with pytest.raises(SynthesisFailed):
            await spoken(service, "好。好")
        left = service.speak(SpeechRequest(text="好。好"))
        await anext(left)
        assert service.admission.num_texts == 1
        await left.aclose()
        stages.hold = asyncio.Event()
        cut = asyncio.create_task(spoken(service, "好"))
        await stages.waiting.wait()
        cut.cancel()
        await asyncio.wait([cut])
        assert service.admission.num_texts == 0

    async def test_lengths_are_learnt_from_what_was_spoken(self, clock):
        service = Admitted(Tones(), admission_of(clock))
        assert service.admission.length.of(10, 1.0) == pytest.approx(10 * FIRST_CHAR_S)
        for _ in range(300):
            await spoken(service, "一二三四五六七八九十")
        assert service.admission.length.of(10, 1.0) == pytest.approx(1.0, rel=0.02)  # tones last 0.1 s a character


async def test_every_series_that_is_fed_is_declared(clock):
    admission = admission_of(clock, metrics := Metrics(), max_requests=1)
    service = Admitted(Known(), admission)
    await spoken(service, "好")
    place = admission.enter(Wish(1))
    await spoken(service, "熟")
    with pytest.raises(Overloaded):
        await spoken(service, "生")
    place.leave(is_whole=False)
    fed = {key if isinstance(key, str) else key[0] for key in metrics.values}
    assert fed == {metric.name for metric in ADMISSION}
