"""Places survive replacement."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from deployments.normalization.text.tracked import Tracked


def test_replacement_keeps_what_it_kept_at_both_ends() -> None:
    text = Tracked.of("电话12吗").sub(re.compile("电话12吗"), lambda _: "电话一二三吗")
    assert text.text == "电话一二三吗"
    assert text.origins == (0, 1, 2, 2, 2, 4)


def test_deletion() -> None:
    text = Tracked.of("a**b**c").sub(re.compile(r"\*\*"), lambda _: "")
    assert (text.text, text.origins) == ("abc", (0, 3, 6))


def test_nothing_matched_is_the_same_object() -> None:
    text = Tracked.of("abc")
    assert text.sub(re.compile("x"), lambda _: "y") is text


@given(text=st.text("ab1", max_size=20), new=st.text("ab1", max_size=4))
def test_origins_never_fall_and_stay_inside(text: str, new: str) -> None:
    changed = Tracked.of(text).sub(re.compile("a1?|b+"), lambda _: new)
    assert len(changed.origins) == len(changed.text)
    assert list(changed.origins) == sorted(changed.origins)
    assert all(0 <= origin < len(text) for origin in changed.origins)


def test_conversion_that_changes_the_length() -> None:
    text = Tracked.of("xay").map(lambda piece: piece.replace("a", "bb"))
    assert (text.text, text.origins) == ("xbby", (0, 1, 1, 2))
