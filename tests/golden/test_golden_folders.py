"""A folder without golden numbers is a mistake that shows."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture
def golden_folders():
    spec = importlib.util.spec_from_file_location("golden_conftest", Path(__file__).with_name("conftest.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.golden_folders


def test_a_folder_without_any_golden_sub_folder_is_an_error(golden_folders, tmp_path):
    with pytest.raises(pytest.UsageError, match="no sub-folder"):
        golden_folders(tmp_path, "am_")
    with pytest.raises(pytest.UsageError, match="no sub-folder"):
        golden_folders(tmp_path / "missing", "am_")


def test_sub_folders_are_found_by_kind(golden_folders, tmp_path):
    for name in ("voc_b", "am_z", "am_a", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "am_file").touch()
    assert [path.name for path in golden_folders(tmp_path, "am_")] == ["am_a", "am_z"]
    assert [path.name for path in golden_folders(tmp_path, "voc_")] == ["voc_b"]


def test_the_projects_own_data_holds_every_configuration(golden_folders):
    data = Path(__file__).parent / "data"
    assert len(golden_folders(data, "am_")) >= 4
