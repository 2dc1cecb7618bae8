"""A folder that is broken is refused with the file and the fix."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from voice_files import NSF, edit_yaml, make_nsf, opened, refused, set_am, set_voc, write_yaml


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


FAULTS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "no am config": (lambda v: (v / "am/config.yaml").unlink(), "am/config.yaml", "Download the voice again"),
    "no voc config": (lambda v: (v / "voc/config.yaml").unlink(), "voc/config.yaml", "Download the voice again"),
    "no am folder": (lambda v: shutil.rmtree(v / "am"), "am/config.yaml", "Download the voice again"),
    "no am checkpoint": (lambda v: shutil.rmtree(v / "am/ckpt"), "am/ckpt", "has no checkpoint_<step>.pth"),
    "no voc checkpoint": (lambda v: (v / "voc/ckpt/checkpoint_7.pth").unlink(), "voc/ckpt", "Download the voice again"),
    "broken yaml": (lambda v: (v / "am/config.yaml").write_text("a: [1"), "am/config.yaml", "cannot be read as YAML"),
    "binary yaml": (lambda v: (v / "voc/config.yaml").write_bytes(b"\xff\xfe\x00"), "voc/config.yaml", "as YAML"),
    "yaml with code": (
        lambda v: (v / "am/config.yaml").write_text("a: !!python/object/apply:os.system ['true']"),
        "am/config.yaml",
        "cannot be read as YAML",
    ),
    "yaml list": (lambda v: (v / "am/config.yaml").write_text("- 1"), "am/config.yaml", "is not a mapping"),
    "another network": (
        lambda v: edit_yaml(v / "am/config.yaml", lambda c: c.update(Model={"FastSpeech": {}})),
        "am/config.yaml",
        "no mapping Model.KanTtsSAMBERT.params",
    ),
    "truncated am checkpoint": (
        lambda v: cut(v / "am/ckpt/checkpoint_90.pth"),
        "am/ckpt/checkpoint_90.pth",
        "Delete the file and download it again",
    ),
    "truncated voc checkpoint": (
        lambda v: cut(v / "voc/ckpt/checkpoint_7.pth"),
        "voc/ckpt/checkpoint_7.pth",
        "Delete the file and download it again",
    ),
    "git-lfs pointer": (
        lambda v: (v / "am/ckpt/checkpoint_90.pth").write_text("version https://git-lfs.github.com/spec/v1\n"),
        "checkpoint_90.pth",
        "is no torch checkpoint",
    ),
    "checkpoint is a folder": (
        lambda v: ((v / "am/ckpt/checkpoint_90.pth").unlink(), (v / "am/ckpt/checkpoint_90.pth").mkdir()),
        "checkpoint_90.pth",
        "cannot be read",
    ),
    "sub-band vocoder": (lambda v: set_voc(v, out_channels=4), "voc/config.yaml", "out_channels must be 1"),
    "mel widths differ": (lambda v: set_voc(v, in_channels=100), "voc/config.yaml", "do not fit each other"),
    "NSF acoustic alone": (lambda v: set_am(v, **NSF), "voc/config.yaml", "do not fit each other"),
    "NSF vocoder alone": (
        lambda v: set_voc(v, nsf_params={"sampling_rate": 16000}),
        "voc/config.yaml",
        "do not fit each other",
    ),
    "NSF with 80": (
        lambda v: (make_nsf(v), set_am(v, num_mels=80)),
        "am/config.yaml",
        "do not fit each other",
    ),
    "mels are words": (lambda v: set_am(v, num_mels="many"), "am/config.yaml", "num_mels must be a number"),
    "mels are half": (lambda v: set_am(v, num_mels=80.5), "am/config.yaml", "num_mels must be a positive whole number"),
    "no mvn": (lambda v: (make_nsf(v), (v / "am/mvn.npy").unlink()), "am/mvn.npy", "is missing"),
    "mvn of 3": (lambda v: (make_nsf(v), np.save(v / "am/mvn.npy", np.ones((3, 1)))), "am/mvn.npy", "(2, 1)"),
    "mvn of words": (lambda v: (make_nsf(v), np.save(v / "am/mvn.npy", np.array(["a", "b"]))), "am/mvn.npy", "numbers"),
    "mvn of objects": (
        lambda v: (make_nsf(v), np.save(v / "am/mvn.npy", np.array([{}, {}], dtype=object), allow_pickle=True)),
        "am/mvn.npy",
        "is not a numpy array of numbers",
    ),
    "mvn NaN": (lambda v: (make_nsf(v), np.save(v / "am/mvn.npy", [[np.nan], [1]])), "am/mvn.npy", "not finite"),
    "mvn std 0": (lambda v: (make_nsf(v), np.save(v / "am/mvn.npy", [[200.0], [0.0]])), "am/mvn.npy", "positive"),
    "mvn empty file": (lambda v: (make_nsf(v), (v / "am/mvn.npy").write_bytes(b"")), "am/mvn.npy", "numpy array"),
    "mvn truncated": (lambda v: (make_nsf(v), cut(v / "am/mvn.npy")), "am/mvn.npy", "numpy array"),
    "mvn is npz": (
        lambda v: (make_nsf(v), np.savez(v / "am/m.npz", a=1), (v / "am/m.npz").replace(v / "am/mvn.npy")),
        "am/mvn.npy",
        "is not a numpy array of numbers",
    ),
    "unknown norm": (lambda v: make_nsf(v, nsf_norm_type="log"), "am/config.yaml", "must be mean_std or global"),
    "global range upside down": (
        lambda v: make_nsf(v, nsf_norm_type="global", nsf_f0_global_maximum=20.0),
        "am/config.yaml",
        "positive",
    ),
    "no se": (lambda v: set_am(v, SE=True), "am/se.npy", "is missing"),
    "se of another width": (
        lambda v: (set_am(v, SE=True), np.save(v / "am/se.npy", np.ones((1, 192)))),
        "am/se.npy",
        "(1, 16)",
    ),
    "se infinite": (
        lambda v: (set_am(v, SE=True), np.save(v / "am/se.npy", np.full((1, 16), np.inf))),
        "am/se.npy",
        "not finite",
    ),
    "no speakers": (
        lambda v: edit_yaml(v / "am/config.yaml", lambda c: c.pop("linguistic_unit")),
        "am/config.yaml",
        "speaker_list",
    ),
    "a speaker twice": (
        lambda v: edit_yaml(v / "am/config.yaml", lambda c: c["linguistic_unit"].update(speaker_list="F7,F7")),
        "am/config.yaml",
        "names a speaker twice",
    ),
    "a speaker with a blank": (
        lambda v: edit_yaml(v / "am/config.yaml", lambda c: c["linguistic_unit"].update(speaker_list="F 7")),
        "zhiyan",
        "speaker 'F 7' holds a blank",
    ),
    "English symbols": (
        lambda v: edit_yaml(v / "am/config.yaml", lambda c: c["linguistic_unit"].update(language="English")),
        "am/config.yaml",
        "writes Mandarin (PinYin)",
    ),
    "no sample rate": (lambda v: (v / "audio_config.yaml").unlink(), "audio_config.yaml", "Add"),
    "hop is not the upsampling": (
        lambda v: set_voc(v, upsample_scales=[8, 8, 2, 2]),
        "product of upsample_scales: 256",
        "contradict each other about its hop",
    ),
    "two rates": (
        lambda v: edit_yaml(v / "voc/config.yaml", lambda c: c.update(audio_config={"sampling_rate": 24000})),
        "voc/config.yaml, sampling_rate: 24000",
        "contradict each other about its sample rate",
    ),
    "NSF rate differs": (
        lambda v: (make_nsf(v), set_voc(v, nsf_params={"sampling_rate": 24000})),
        "nsf_params.sampling_rate: 24000",
        "contradict each other",
    ),
    "no scales": (lambda v: set_voc(v, upsample_scales=[]), "voc/config.yaml", "upsample_scales must be"),
    "scales are words": (lambda v: set_voc(v, upsample_scales="10,5"), "voc/config.yaml", "upsample_scales must be"),
    "rate is negative": (
        lambda v: write_yaml(v / "audio_config.yaml", {"audio_config": {"sampling_rate": -1}}),
        "audio_config.yaml",
        "positive whole number",
    ),
    "card with a typo": (
        lambda v: write_yaml(v / "card.yaml", {"licence": "MIT"}),
        "card.yaml",
        "licence: Extra inputs are not permitted. Keys of a card: language, license, english",
    ),
    "card with a foreign emotion": (
        lambda v: write_yaml(v / "card.yaml", {"emotions": ["bored"]}),
        "card.yaml",
        "no emotion 'bored'",
    ),
    "card of wrong type": (lambda v: write_yaml(v / "card.yaml", {"english": "maybe"}), "card.yaml", "english"),
}


BOMB = "x0: &x0 [a]\n" + "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 13))


@pytest.mark.parametrize(
    ("file", "key", "said"),
    [
        ("voc/config.yaml", "upsample_scales", "upsample_scales must be"),
        ("voc/config.yaml", "in_channels", "in_channels must be a number"),
        ("am/config.yaml", "num_mels", "num_mels must be a number"),
        ("am/config.yaml", "speaker_list", "speaker_list must name speakers"),
    ],
)
def test_aliases_that_stand_for_a_huge_value_do_no_harm(voice: Path, file: str, key: str, said: str) -> None:
    text = re.sub(rf"^( +{key}:)[^\n]*(\n +-[^\n]*)*", r"\1 *x12", (voice / file).read_text(), flags=re.MULTILINE)
    assert "*x12" in text
    (voice / file).write_text(BOMB + text)
    message = refused(voice)
    assert said in message
    assert len(message) < 2000


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_names_the_file_and_the_fix(voice: Path, name: str) -> None:
    break_it, file, said = FAULTS[name]
    opened(voice)  # sound before it is broken
    break_it(voice)
    message = refused(voice)
    assert file in message
    assert said in message
    assert str(voice) in message
