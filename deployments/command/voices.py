"""`sambert-serve voices`: which voices the sources offer, fetched by model id, checked file by file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deployments.command.config import settings_of
from deployments.command.faults import tell
from deployments.command.tables import aligned
from deployments.errors import SpeechError, VoiceInvalid
from deployments.messages import VoiceInfo
from deployments.settings import Settings, VoiceSource
from deployments.voices.folder import VoiceFolder, open_model, voice_names
from deployments.voices.store import VoiceStore, locate, locate_here

HEADINGS = ("VOICE", "LANGUAGE", "HZ", "LICENSE", "EMOTIONS", "MODEL")


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Adds the command and its three parts."""
    parser = commands.add_parser("voices", allow_abbrev=False, help="list, download or check voices")
    parts = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listing = parts.add_parser(
        "list", parents=[shared], allow_abbrev=False, help="the voices of the configured sources; downloads nothing"
    )
    listing.add_argument("--json", action="store_true", help="the answer of GET /v1/audio/voices")
    listing.set_defaults(run=show)
    loading = parts.add_parser(
        "download", parents=[shared], allow_abbrev=False, help="fetch model folders into voices.cache_dir"
    )
    loading.add_argument(
        "models", nargs="*", metavar="MODEL[@REVISION]", help="ids at ModelScope; none: those of the sources"
    )
    loading.set_defaults(run=download)
    checking = parts.add_parser(
        "verify", parents=[shared], allow_abbrev=False, help="check every file of voices as a start of the service does"
    )
    checking.add_argument(
        "models", nargs="*", metavar="FOLDER|MODEL[@REVISION]", help="what to check; none: all sources"
    )
    checking.set_defaults(run=verify)


def show(arguments: argparse.Namespace) -> int:
    """Prints the voices of the sources; tells of sources that are broken or not here yet, and goes on."""
    settings = settings_of(arguments.config)
    infos, faults = _offered(settings)
    if arguments.json:
        from deployments.ingress.replies import voices_reply

        sys.stdout.write(json.dumps(voices_reply(infos).model_dump(), ensure_ascii=False, indent=2) + "\n")
    elif infos:
        sys.stdout.write("\n".join(aligned([HEADINGS, *map(_row, infos)])) + "\n")
    return _told(faults)


def download(arguments: argparse.Namespace) -> int:
    """Fetches model folders and says which voices they have; what is complete is not fetched again.

    Raises:
        VoiceInvalid: A download failed, or what came is no model folder.
    """
    settings = settings_of(arguments.config)
    for source in _sources(arguments.models, settings):
        folder = locate(source, _cache_dir(settings))
        names = voice_names(folder)
        sys.stdout.write(f"{_title(source)}: {folder}\n  voices: {', '.join(names)}\n")
    return 0


def verify(arguments: argparse.Namespace) -> int:
    """Opens voices and loads their networks, as the stages do when they start; every fault is told, with its fix."""
    settings = settings_of(arguments.config)
    sources = _sources(arguments.models, settings)
    faults = [fault for source in sources for fault in _verified(source, _cache_dir(settings))]
    if not arguments.models and not faults:
        VoiceStore.open(settings.voices)  # the sources together: names that come twice, the default
    return _told(faults)


def _sources(models: Sequence[str], settings: Settings) -> tuple[VoiceSource, ...]:
    """What was named, else the configured sources."""
    return tuple(map(_source, models)) or settings.voices.sources


def _source(named: str) -> VoiceSource:
    if Path(named).expanduser().exists():
        return VoiceSource(model=named)
    model, separator, revision = named.partition("@")
    if separator and not revision:
        raise VoiceInvalid(f"{named} names no revision after @. Write MODEL or MODEL@REVISION.", "voices.sources")
    return VoiceSource(model=model, revision=revision or None)


def _title(source: VoiceSource) -> str:
    return source.model if source.revision is None else f"{source.model}@{source.revision}"


def _cache_dir(settings: Settings) -> Path:
    return Path(settings.voices.cache_dir).expanduser()


def _offered(settings: Settings) -> tuple[list[VoiceInfo], list[SpeechError]]:
    """What callers may know of each voice that can be opened, and what is wrong with the sources of the others."""
    folders: dict[str, VoiceFolder] = {}
    faults: list[SpeechError] = []
    for source in settings.voices.sources:
        try:
            for folder in open_model(_present(source, _cache_dir(settings)), source.model, source.voices):
                folders.setdefault(folder.name, folder)
        except VoiceInvalid as error:
            faults.append(error)
    default = settings.voices.default or next(iter(folders), None)
    return [folder.info(is_default=name == default) for name, folder in folders.items()], faults


def _present(source: VoiceSource, cache_dir: Path) -> Path:
    """The folder of a source that is on this machine.

    Raises:
        VoiceInvalid: It is not there; says how to get it.
    """
    folder = locate_here(source, cache_dir)
    if folder is None:
        raise VoiceInvalid(
            f"{_title(source)} is not downloaded yet. Run: sambert-serve voices download {_title(source)}",
            "voices.sources",
        )
    return folder


def _row(info: VoiceInfo) -> tuple[str, ...]:
    name = f"{info.name} (default)" if info.is_default else info.name
    return name, info.language, str(info.sample_rate_hz), info.license, " ".join(info.emotions) or "none", info.model


def _verified(source: VoiceSource, cache_dir: Path) -> Iterable[SpeechError]:
    """Checks the voices of a source one by one; says which are whole, yields what is wrong with the others."""
    try:
        folder = _present(source, cache_dir)
        names = source.voices or voice_names(folder)
    except VoiceInvalid as error:
        yield error
        return
    for name in names:
        try:
            _load(folder, source.model, name)
        except VoiceInvalid as error:
            yield error
        else:
            sys.stdout.write(f"{name}: whole ({folder / 'voices' / name})\n")


def _load(folder: Path, model: str, name: str) -> None:
    """Opens a voice and loads both networks.

    Raises:
        VoiceInvalid: A file is missing, broken or at odds with another.
    """
    from deployments.acoustic.checkpoint import load_sambert
    from deployments.vocoder.checkpoint import load_generator

    (voice,) = open_model(folder, model, [name])
    load_sambert(voice)
    load_generator(voice)


def _told(faults: Sequence[SpeechError]) -> int:
    """Writes faults to stderr, one line each; the exit code."""
    for fault in faults:
        tell(fault.code, fault.message)
    return 1 if faults else 0
