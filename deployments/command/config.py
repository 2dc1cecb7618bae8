"""The settings that a command runs with: those of a serve config, or the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deployments.errors import ConfigurationInvalid
from deployments.settings import Settings

MODULE = "graph:"


def read_config(path: Path) -> dict[str, Any]:
    """A serve config.

    Raises:
        ConfigurationInvalid: It cannot be read or is no YAML mapping with applications.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationInvalid(
            f"{path} cannot be read ({error.strerror}). Give a serve config, such as configs/local.yaml.", str(path)
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid(f"{path} is not YAML: {error}. Mend it.", str(path)) from error
    applications = config.get("applications") if isinstance(config, dict) else None
    if not isinstance(applications, list) or not all(isinstance(application, dict) for application in applications):
        raise ConfigurationInvalid(
            f"{path} is no serve config: it has no list of applications. Take configs/local.yaml as a pattern.",
            str(path),
        )
    return dict(config)


def settings_of(path: str | None) -> Settings:
    """The settings under `args` of the speech application in a serve config; the defaults without one.

    Raises:
        ConfigurationInvalid: The file, a key or a value is wrong.
    """
    if path is None:
        return Settings()
    for application in read_config(Path(path))["applications"]:
        if str(application.get("import_path", "")).startswith(MODULE):
            return Settings.load(application.get("args"))
    raise ConfigurationInvalid(
        f"{path} has no application with the import_path graph:build. Add one as in configs/local.yaml.", path
    )
