"""Syllables into phones."""

from __future__ import annotations

import pytest

from deployments.normalization.text import tables
from deployments.normalization.text.symbols import Sound, items, syllable

# Rows of the published front end's description, one per rule of it.
RULES = {
    "yan1": "y_c an_c", "yong3": "y_c ong_c", "wu3": "w_c u_c", "yu2": "y_c v_c", "yuan2": "y_c van_c",
    "xi1": "xx_c i_c",
    "an1": "ga an_c", "e4": "ge e_c", "ou3": "go ou_c", "shui3": "sh_c uei_c", "liu2": "l_c iou_c", "lun4": "l_c uen_c",
    "zi3": "z_c ii_c", "shi4": "sh_c ih_c", "ri4": "r_c ih_c", "lv4": "l_c v_c", "jun1": "j_c vn_c", "que4": "q_c ve_c",
    "dianr3": "d_c ianr_c", "zher4": "zh_c er_c", "er2": "ge er_c", "you3": "y_c ou_c", "nve4": "n_c ve_c",
    "ju2": "j_c v_c",
}  # fmt: skip


@pytest.mark.parametrize(("pinyin", "phones"), RULES.items())
def test_rules(pinyin: str, phones: str) -> None:
    assert syllable(pinyin) == (Sound(tuple(phones.split()), f"tone{pinyin[-1]}"),)


def test_every_row_of_the_table_and_no_other_phone() -> None:
    table = tables.pairs("syllables.tsv")
    assert len(table) >= 659
    for base, phones in table.items():
        assert syllable(base + "1") == (Sound(tuple(phones.split()), "tone1"),)


def test_r_coloured_syllable_outside_the_table() -> None:
    assert syllable("suor3") == (Sound(("s_c", "uor_c"), "tone3"),)
    assert syllable("zuanr1")[0].phones == ("z_c", "uanr_c")
    assert [sound.phones for sound in syllable("mour2")] == [("m_c", "our_c")]


@pytest.mark.parametrize("pinyin", ["xyz1", "ni", "hao6", "1", "r5"])
def test_no_syllable(pinyin: str) -> None:
    with pytest.raises(KeyError):
        syllable(pinyin)


def test_word_of_one_phone() -> None:
    assert items((Sound(("ah",), "tone0"),), "", "sad", "F7") == ("{ah$tone0$s_both$word_both$emotion_sad$F7}",)
