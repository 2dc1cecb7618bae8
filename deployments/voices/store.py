"""All voices of a service: opened and checked at start-up, looked up by name afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from deployments.errors import ConfigurationInvalid, VoiceInvalid, VoiceNotFound
from deployments.messages import VoiceInfo
from deployments.settings import VoiceSource, VoicesSettings
from deployments.voices.folder import VoiceFolder, open_model

BUNDLED: Final = "bundled"


class VoiceStore:
    """The voices of the configured sources.

    Args:
        folders: By name, in order.
        default: Name of the voice for requests that name none.
    """

    def __init__(self, folders: Mapping[str, VoiceFolder], default: str) -> None:
        self._folders = dict(folders)
        self.default = default

    @classmethod
    def open(cls, settings: VoicesSettings) -> VoiceStore:
        """Finds, downloads where needed, and checks every voice of the sources.

        Raises:
            VoiceInvalid: A source, its download or a file is wrong; names file and fix.
            ConfigurationInvalid: Two sources have a voice of one name, or the default is not served.
        """
        folders: dict[str, VoiceFolder] = {}
        for source in settings.sources:
            for folder in open_model(
                locate(source, Path(settings.cache_dir).expanduser()), source.model, source.voices
            ):
                other = folders.setdefault(folder.name, folder)
                if other is not folder:
                    raise ConfigurationInvalid(
                        f"Both {other.path} and {folder.path} have a voice {folder.name!r}. "
                        "Name the voices to serve in voices.sources, so that each name comes once.",
                        "voices.sources",
                    )
        if not folders:
            raise ConfigurationInvalid(
                "The sources serve no voice; name at least one in voices.sources.", "voices.sources"
            )
        default = settings.default if settings.default is not None else next(iter(folders))
        if default not in folders:
            raise ConfigurationInvalid(
                f"voices.default is {default!r}, which no source has. Served are: {', '.join(folders)}.",
                "voices.default",
            )
        return cls(folders, default)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the voices, in the order of the sources."""
        return tuple(self._folders)

    @property
    def infos(self) -> tuple[VoiceInfo, ...]:
        """What callers may know of the voices, in the order of the sources."""
        return tuple(folder.info(is_default=name == self.default) for name, folder in self._folders.items())

    @property
    def lexicon_files(self) -> dict[str, Path]:
        """The lexicons that lie in voice folders, by the voice's name."""
        return {folder.name: folder.lexicon_file for folder in self.folders if folder.lexicon_file is not None}

    @property
    def folders(self) -> tuple[VoiceFolder, ...]:
        """The voices, in the order of the sources."""
        return tuple(self._folders.values())

    def folder(self, name: str | None = None) -> VoiceFolder:
        """A voice by name; None is the default.

        Raises:
            VoiceNotFound: No such voice; lists those there are.
        """
        try:
            return self._folders[self.default if name is None else name]
        except KeyError:
            raise VoiceNotFound(
                f"There is no voice {name!r}. The voices are: {', '.join(self._folders)}.", "voice"
            ) from None


def locate(source: VoiceSource, cache_dir: Path) -> Path:
    """The folder of a source: the bundled one, a local one, or one downloaded by its model id.

    Raises:
        VoiceInvalid: The path does not exist, the text is no model id, or the download failed.
    """
    if (path := locate_here(source, cache_dir)) is not None:
        return path
    from deployments.voices.download import download_model  # only when asked for: most services never download

    return download_model(source.model, source.revision, cache_dir)


def locate_here(source: VoiceSource, cache_dir: Path) -> Path | None:
    """The folder of a source if it is on this machine; None for a model id that is not downloaded yet.

    What looks like a path never goes to the hub: it starts with "/", "./", "../", "~" or exists.

    Raises:
        VoiceInvalid: The path does not exist, or the text is no model id.
    """
    if source.model == BUNDLED:
        return Path(str(resources.files("deployments.voices").joinpath(BUNDLED)))
    try:
        path = Path(source.model).expanduser()
    except RuntimeError:  # "~name" of a user that this machine does not have
        path = Path(source.model)
    if source.model and path.exists():
        return path.resolve()
    if source.model.startswith(("/", "./", "../", "~")) or source.model in (".", ".."):
        raise VoiceInvalid(
            f"There is no folder {path} (voices.sources, model {source.model!r}). Mend the path; on a cluster it must "
            "exist on every node.",
            "voices.sources",
        )
    from deployments.voices.download import folder_of, is_complete

    folder = folder_of(source.model, source.revision, cache_dir)
    return folder if is_complete(folder) else None
