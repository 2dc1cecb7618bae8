"""API keys: who is let in, how files are followed, what each key may ask for."""

import hashlib
import logging

import pytest
from starlette.datastructures import Headers

from deployments.errors import ConfigurationInvalid, KeyRejected, RateLimited
from deployments.ingress.keys import ApiKeys, Bucket
from deployments.settings import IngressSettings

KEY = "sk-a-long-random-key"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def hashed(key):
    return hashlib.sha256(key.encode()).hexdigest()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# ours\n\nshop {hashed(KEY)}\n", encoding="utf-8")
    return path


def keys_of(clock, file=None, listed="", **settings):
    settings = IngressSettings(api_keys_file=None if file is None else str(file), **settings)
    return ApiKeys(settings, {"SAMBERT_API_KEYS": listed}, clock)


def bearer(key):
    return Headers({"authorization": f"Bearer {key}"})


def rewrite(path, text):
    """Another file in its place, as editors and Kubernetes do it."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class TestWhoIsLetIn:
    def test_without_keys_anyone(self, clock):
        keys = keys_of(clock)
        assert keys.is_open
        assert keys.caller(Headers({"authorization": "Bearer whatever"})).name == "anyone"

    @pytest.mark.parametrize(
        "headers",
        [{"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer   {KEY} "}, {"x-api-key": KEY},
         {"authorization": "Basic abc", "x-api-key": KEY}],
    )  # fmt: skip
    def test_the_right_key(self, clock, file, headers):
        assert keys_of(clock, file).caller(Headers(headers)).name == "shop"

    @pytest.mark.parametrize(
        "headers",
        [{}, {"authorization": "Bearer"}, {"authorization": "Bearer "}, {"authorization": KEY}, {"x-api-key": ""},
         {"authorization": f"Bearer {KEY}x"}, {"authorization": f"Bearer {hashed(KEY)}"}, {"x-api-key": "x" * 100_000},
         {"authorization": "Bearer wrong", "x-api-key": KEY}],
    )  # fmt: skip
    def test_wrong_ones(self, clock, file, headers):
        with pytest.raises(KeyRejected) as caught:
            keys_of(clock, file).caller(Headers(headers))
        assert caught.value.status == 401
        assert KEY not in caught.value.message

    def test_nothing_is_no_key_even_where_its_hash_is_listed(self, clock):
        with pytest.raises(KeyRejected):
            keys_of(clock, listed=f"empty {hashed('')}").caller(Headers({}))

    def test_keys_of_the_environment_and_the_file_hold_together(self, clock, file):
        keys = keys_of(clock, file, listed=f"ops {hashed('one')}; batch {hashed('two').upper()}")
        assert [keys.caller(bearer(key)).name for key in ("one", "two", KEY)] == ["ops", "batch", "shop"]


class TestFiles:
    @pytest.mark.parametrize(
        "line",
        ["shop", f"sh/op {hashed(KEY)}", f"shop {KEY}", f"shop {hashed(KEY)} lots", f"shop {hashed(KEY)} requests=0"],
    )
    def test_a_wrong_line_stops_the_start_and_is_not_shown(self, clock, file, line):
        rewrite(file, f"a {hashed('a')}\n{line}\n")
        with pytest.raises(ConfigurationInvalid) as caught:
            keys_of(clock, file)
        assert "line 2" in caught.value.message
        assert KEY not in caught.value.message
        assert hashed(KEY) not in caught.value.message

    @pytest.mark.parametrize("content", [None, b"\xff\xfe"])
    def test_a_file_that_cannot_be_read_stops_the_start(self, clock, tmp_path, content):
        path = tmp_path / "keys"
        if content:
            path.write_bytes(content)
        with pytest.raises(ConfigurationInvalid) as caught:
            keys_of(clock, path)
        assert str(path) in caught.value.message

    def test_a_wrong_variable_stops_the_start(self, clock):
        with pytest.raises(ConfigurationInvalid) as caught:
            keys_of(clock, listed=KEY)
        assert "SAMBERT_API_KEYS" in caught.value.message
        assert KEY not in caught.value.message

    def test_keys_rotate_within_a_second(self, clock, file):
        keys = keys_of(clock, file)
        rewrite(file, f"shop {hashed('new')}\n")
        assert keys.caller(bearer(KEY)).name == "shop"  # not looked at yet
        clock.now += 1.0
        assert keys.caller(bearer("new")).name == "shop"
        with pytest.raises(KeyRejected):
            keys.caller(bearer(KEY))

    def test_a_revoked_key_is_gone_though_another_line_is_wrong(self, clock, file, caplog):
        keys = keys_of(clock, file)
        rewrite(file, f"shop oops-{KEY}\nother {hashed('other')}\n")
        clock.now += 1.0
        with caplog.at_level(logging.WARNING, logger="deployments.ingress"):
            assert keys.caller(bearer("other")).name == "other"
            with pytest.raises(KeyRejected):
                keys.caller(bearer(KEY))
        assert "line 1" in caplog.text
        assert KEY not in caplog.text

    def test_an_emptied_file_lets_nobody_in(self, clock, file, caplog):
        keys = keys_of(clock, file)
        rewrite(file, "")
        clock.now += 1.0
        with pytest.raises(KeyRejected):
            keys.caller(bearer(KEY))
        assert not keys.is_open
        assert "every request is refused" in caplog.text

    def test_a_file_that_vanishes_for_a_while_changes_nothing(self, clock, file, caplog):
        keys = keys_of(clock, file)
        file.rename(file.with_suffix(".away"))
        for _ in range(3):
            clock.now += 1.0
            assert keys.caller(bearer(KEY)).name == "shop"
        assert caplog.text.count("cannot be read") == 1
        rewrite(file, f"shop {hashed('new')}\n")
        clock.now += 1.0
        assert keys.caller(bearer("new")).name == "shop"


class TestQuotas:
    def test_a_bucket_gives_a_minutes_worth_at_once_and_then_as_time_goes(self, clock):
        bucket = Bucket(60, clock)
        assert [bucket.take(1) for _ in range(60)] == [None] * 60
        assert bucket.take(1) == pytest.approx(1.0)
        clock.now += 1.0
        assert bucket.take(1) is None
        assert bucket.take(5) == pytest.approx(5.0)
        clock.now += 3600
        assert [bucket.take(30), bucket.take(30)] == [None, None]
        assert bucket.take(1) is not None

    def test_more_than_a_minutes_worth_is_owed(self, clock):
        bucket = Bucket(60, clock)
        assert bucket.take(180) is None
        assert bucket.take(1) == pytest.approx(121.0)
        clock.now += 121.0
        assert bucket.take(1) is None

    def test_each_key_has_its_own_and_a_line_may_say_how_much(self, clock):
        listed = f"small {hashed('s')} requests=1 characters=10\nlarge {hashed('l')}\n"
        keys = keys_of(clock, listed=listed, key_requests_per_min=3, key_characters_per_min=100)
        small, large = keys.caller(bearer("s")), keys.caller(bearer("l"))
        small.charge_request()
        with pytest.raises(RateLimited) as caught:
            small.charge_request()
        assert (caught.value.status, caught.value.retry_after_s) == (429, pytest.approx(60.0))
        for _ in range(3):
            large.charge_request()
        with pytest.raises(RateLimited):
            large.charge_request()
        small.charge(10)
        with pytest.raises(RateLimited) as caught:
            small.charge(5)
        assert caught.value.retry_after_s == pytest.approx(30.0)
        large.charge(100)

    def test_what_a_key_has_used_stays_used_when_the_file_changes(self, clock, file):
        keys = keys_of(clock, file, key_requests_per_min=1)
        keys.caller(bearer(KEY)).charge_request()
        rewrite(file, file.read_text(encoding="utf-8") + f"other {hashed('other')}\n")
        clock.now += 1.0
        keys.caller(bearer("other")).charge_request()
        with pytest.raises(RateLimited):
            keys.caller(bearer(KEY)).charge_request()

    def test_anyone_has_no_limits(self, clock):
        caller = keys_of(clock, key_requests_per_min=1).caller(Headers({}))
        for _ in range(5):
            caller.charge_request()
            caller.charge(10_000)
