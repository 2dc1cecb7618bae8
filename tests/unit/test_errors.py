"""The error tree: one JSON shape, unique codes, errors survive pickling across handles."""

import pickle

import pytest

from deployments.errors import SpeechError, all_errors


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.__name__)
def test_errors_survive_pickling(error):
    original = error("what is wrong; how to mend it.", param="voice", retry_after_s=2.0)
    copy = pickle.loads(pickle.dumps(original))
    assert type(copy) is error
    assert (copy.message, copy.param, copy.retry_after_s) == (original.message, original.param, original.retry_after_s)
    assert copy.body() == {
        "error": {"message": original.message, "type": error.type, "param": "voice", "code": error.code}
    }


def test_codes_are_unique_and_statuses_are_errors():
    codes = [error.code for error in all_errors()]
    assert len(set(codes)) == len(codes)
    assert all(400 <= error.status < 600 for error in all_errors())


def test_tree_has_one_root():
    assert all(issubclass(error, SpeechError) for error in all_errors())
