import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.errors import InvalidRequest
from deployments.voices.symbols import RESERVED, SymbolTables, published_tables

GOLDEN = Path(__file__).parents[2] / "golden/data"
TABLES = SymbolTables.of({"speaker": ["F7", "F74", "M7"]})
FIELDS = ("phone", "tone", "syllable_flag", "word_segment", "emotion", "speaker")
KNOWN_PAIR = (
    "{b_c$tone3$s_begin$word_begin$emotion_neutral$F7} {ei_c$tone3$s_end$word_end$emotion_neutral$F7} "
    "{#4$tone_none$s_none$word_none$emotion_none$F7}"
)


def test_published_tables_have_the_rows_of_the_published_checkpoints() -> None:
    # Rows of the embeddings in tests/golden/params (unit_sizes), which count the three reserved rows.
    sizes = json.loads((GOLDEN.parent / "params/params_sambert_16k.json").read_text())["unit_sizes"]
    names = {"sy": "phone", "tone": "tone", "syllable_flag": "syllable_flag", "word_segment": "word_segment"}
    for key, table in (names | {"emotion": "emotion"}).items():
        assert len(getattr(TABLES, table)) == sizes[key], table
        assert getattr(TABLES, table)[-3:] == RESERVED


@pytest.mark.parametrize("folder", sorted(GOLDEN.glob("am_*")), ids=lambda path: path.name)
def test_golden_symbol_strings_become_the_golden_indices(folder: Path) -> None:
    expected = np.load(folder / "expected.npz")
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    assert cases
    for number, case in enumerate(cases):
        ids = TABLES.parse(case["symbols"])
        np.testing.assert_array_equal(ids.ling_T4, expected[f"{number}.ling"])
        np.testing.assert_array_equal(ids.emotion_T, expected[f"{number}.emotion"])
        np.testing.assert_array_equal(ids.speaker_T, expected[f"{number}.speaker"])
        assert ids.ling_T4.dtype == ids.emotion_T.dtype == ids.speaker_T.dtype == np.int64


item_rows = st.tuples(*(st.integers(0, len(getattr(TABLES, field)) - len(RESERVED) - 1) for field in FIELDS))


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(item_rows, min_size=1, max_size=40), blank=st.sampled_from([" ", "  ", "\n", "\t "]))
def test_parse_gives_back_the_rows_a_string_was_made_of(rows: list[tuple[int, ...]], blank: str) -> None:
    text = blank.join(
        "{" + "$".join(getattr(TABLES, field)[row] for field, row in zip(FIELDS, item, strict=True)) + "}"
        for item in rows
    )
    ids = TABLES.parse(text)
    parsed = np.column_stack([ids.ling_T4, ids.emotion_T, ids.speaker_T])
    np.testing.assert_array_equal(parsed, np.array(rows))


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet="{}$ #4_~ab\n", max_size=40) | st.text(max_size=30))
def test_whatever_is_no_segment_is_an_invalid_request(text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        TABLES.parse(text)
    assert raised.value.param == "symbols"


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ("{b_c$tone3$s_begin$word_begin$emotion_neutral}", "malformed"),
        ("{b_c$tone3$s_begin$word_begin$emotion_neutral$F7$F7}", "malformed"),
        ("{b_c$$s_begin$word_begin$emotion_neutral$F7}", "malformed"),
        ("b_c$tone3$s_begin$word_begin$emotion_neutral$F7", "malformed"),
        ("{b_c$tone3$s_begin$word_begin$emotion_neutral$F7}x", "malformed"),
        ("{qq$tone3$s_begin$word_begin$emotion_neutral$F7}", "no phone 'qq'"),
        ("{b_c$tone9$s_begin$word_begin$emotion_neutral$F7}", "no tone 'tone9'"),
        ("{b_c$tone3$s_x$word_begin$emotion_neutral$F7}", "no syllable flag 's_x'"),
        ("{b_c$tone3$s_begin$word_x$emotion_neutral$F7}", "no word segment 'word_x'"),
        ("{b_c$tone3$s_begin$word_begin$emotion_bored$F7}", "no emotion 'emotion_bored'"),
        ("{b_c$tone3$s_begin$word_begin$emotion_neutral$F9}", "no speaker 'F9'. Use one of: F7, F74, M7."),
        ("{@b_c$tone3$s_begin$word_begin$emotion_neutral$F7}", "no phone '@b_c'"),
        ("{_$tone3$s_begin$word_begin$emotion_neutral$F7}", "no phone '_'"),
        ("{~$tone3$s_begin$word_begin$emotion_neutral$F7}", "no phone '~'"),
        ("{b_c$tone3$s_begin$word_begin$[MASK]$F7}", "no emotion '[MASK]'"),
    ],
)
def test_a_wrong_item_is_named_with_its_place(spoilt: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        TABLES.parse(f"{KNOWN_PAIR} {spoilt}")
    assert raised.value.message.startswith("Item 4 of the symbols")
    assert said in raised.value.message


def test_index_and_has_know_what_can_be_spoken() -> None:
    assert TABLES.has("phone", "#4")
    assert not TABLES.has("phone", "~")
    assert TABLES.index("emotion", "emotion_neutral") == 1
    assert TABLES.index("tone", "tone0") == 6
    with pytest.raises(InvalidRequest, match="no emotion 'emotion_bored'"):
        TABLES.index("emotion", "emotion_bored")


def test_at_signs_and_reserved_rows_of_table_files_do_not_matter() -> None:
    bare = SymbolTables.of({"phone": ["a", "b"], "speaker": ["F7"]})
    for rows in (["@a", "@b"], ["a", "b", "_", "~"], ["@a", "@b", "@_", "@~", "@[MASK]"]):
        assert SymbolTables.of({"phone": rows, "speaker": ["F7"]}) == bare
    assert bare.phone == ("a", "b", *RESERVED)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "no symbols for speaker"),
        ({"speaker": ["F7", "F7"]}, "speaker 'F7' stands twice"),
        ({"speaker": ["F7"], "phone": ["a", "@a"]}, "phone 'a' stands twice"),
        ({"speaker": ["F7"], "tone": ["tone 1"]}, "tone 'tone 1' holds"),
        ({"speaker": ["F$7"]}, "speaker 'F$7' holds"),
        ({"speaker": ["F7"], "syllable_flag": ["s_begin", "_", "s_end"]}, "syllable flag follows the reserved"),
        ({"speaker": ["_", "~"]}, "no speaker can be spoken"),
    ],
)
def test_broken_tables_are_refused(tables: dict[str, list[str]], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        SymbolTables.of(tables)


def test_only_a_checkpoint_without_the_mask_row_may_have_fewer_rows() -> None:
    assert TABLES.misfits({"phone": 147, "tone": 9, "emotion": 35, "speaker": 6}) == ()
    assert TABLES.misfits({"phone": 145, "speaker": 7}) == (
        "phone embedding: 145 rows in the file, 146 or 147 expected",
        "speaker embedding: 7 rows in the file, 5 or 6 expected",
    )


def test_published_rows_are_data_in_the_order_of_the_embedding() -> None:
    tables = published_tables()
    assert tables["phone"][:3] == ("a_c", "ai_c", "an_c")
    assert tables["tone"] == ("tone1", "tone_none", "tone4", "tone2", "tone3", "tone5", "tone0")
    assert tables["emotion"][:3] == ("emotion_none", "emotion_neutral", "emotion_angry")
