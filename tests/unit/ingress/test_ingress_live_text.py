"""Where text that arrives in pieces is cut: only where no later text could change it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.ingress.live_text import LiveText, ends, strength_of


def taken(text, clause_chars=8, max_chars=4096):
    live = LiveText(clause_chars, max_chars)
    live.add(text)
    return live.take()


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("", ""),
        ("今天天气很好", ""),
        ("今天天气很好。", "今天天气很好。"),
        ("今天天气很好。我们", "今天天气很好。"),
        ("好。走！吧？那", "好。走！吧？"),
        ("他说：“走吧。”然后", "他说：“走吧。”"),
        ("第一行\n第二", "第一行\n"),
        ("真的吗？！好", "真的吗？！"),
        ("等等……好", "等等……"),
        # clauses count when they are long enough and there is no sentence yet
        ("您好，", ""),
        ("您好，欢迎致电客服中心，请", "您好，欢迎致电客服中心，"),
        ("您好。欢迎致电客服中心，请", "您好。"),
        # numbers
        ("价格是3.", ""),
        ("价格是3.5元", ""),
        ("价格是3.5元。", "价格是3.5元。"),
        ("一共有大概1,", ""),
        ("一共有大概1,200个人", ""),
        ("一共有大概1，", ""),
        ("一共有大概1，200个人", ""),
        ("时间是今天下午3：", ""),
        ("时间是今天下午3：15", ""),
        ("我一共买了3个，2个坏", "我一共买了3个，"),
        ("2.", ""),
        ("2. 第二条", ""),
        # ASCII marks need to see what follows
        ("It is good.", ""),
        ("It is good. And", "It is good. "),
        ("It is good.很好", "It is good."),
        ("Is it? Yes", "Is it? "),
        ("www.example.com", ""),
        ("v1.2.3", ""),
        ("Dr. Smith", ""),
        ("J. Smith and e.g. this", ""),
        ("see http://x.y/?a=1;b", ""),
        ("版本号是1.2,后面", "版本号是1.2,"),
        # markup is one piece
        ("<speak>好。走。", ""),
    ],
)
def test_what_can_be_spoken(text, cut):
    assert taken(text) == cut


def test_long_text_is_cut_within_the_limit():
    text = "一二三四五。" * 10
    live = LiveText(8, 20)
    live.add(text)
    assert live.take() == "一二三四五。" * 3
    assert live.take() == "一二三四五。" * 3
    # a first sentence that is too long is given out whole, and refused by who speaks it
    live = LiveText(8, 3)
    live.add("一二三四五。六。")
    assert live.take() == "一二三四五。"


def test_rest_and_state():
    live = LiveText(8, 100)
    assert not live.has_text
    live.add(" \n")
    assert not live.has_text
    live.add("<speak>好。")
    assert live.is_markup
    assert live.has_text
    assert live.rest() == " \n<speak>好。"
    assert live.rest() == ""


@pytest.mark.parametrize(
    ("text", "strength"),
    [("好。", "sentence"), ("好，", "clause"), ("好。” ", "sentence"), ("好", "clause"), ("a. ", "sentence")],
)
def test_strength(text, strength):
    assert strength_of(text) == strength


PIECES = st.lists(
    st.one_of(
        st.sampled_from(["。", "，", "！？", "……", ".", ",", ":", "：", "\n", " ", "”", "3", "1.5", "a.cn", "Mr."]),
        st.text("天地人好去", min_size=1, max_size=6),
        st.text("abcxyz", min_size=1, max_size=5),
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(pieces=PIECES, clause_chars=st.integers(1, 12), data=st.data())
def test_any_arrival(pieces, clause_chars, data):
    text = "".join(pieces)
    live = LiveText(clause_chars, 4096)
    cuts, place, spoken = set(), 0, []
    while place < len(text):
        step = data.draw(st.integers(1, 5))
        live.add(text[place : place + step])
        place += step
        if data.draw(st.booleans()):
            left = text[sum(map(len, spoken)) : place]
            piece = live.take()
            assert piece == taken(left, clause_chars), "what was searched before makes no difference"
            if piece:
                spoken.append(piece)
                cuts.add(sum(map(len, spoken)))
    spoken.append(live.rest())
    # nothing is lost, whatever the arrival
    assert "".join(spoken) == text
    # every cut would also have been one with the whole text known, or lies among the marks of one
    allowed = {end for end, _ in ends(text + "天")}
    for cut in cuts:
        assert cut in allowed or (text[cut : cut + 1] and text[cut] in "。！？；…，：.!?;,:\n ”"), (text, cut)
        before, after = text[cut - 2 : cut - 1], text[cut : cut + 1]
        assert not (text[cut - 1] in ".,:：，" and before.isdigit() and after.isdigit())
        assert not (text[cut - 1].isalnum() and after.isalnum())
