"""The two tables of the README that come from the code. `python tests/unit/readme_tables.py` writes them."""

import re
import sys
from pathlib import Path

from pydantic import BaseModel

from deployments.errors import ConfigurationInvalid, all_errors
from deployments.settings import Settings

README = Path(__file__).parents[2] / "README.md"


def settings_rows(settings, prefix=""):
    """One row per setting, in order, with dotted keys."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from settings_rows(value, f"{prefix}{name}.")
        else:
            yield f"| `{prefix}{name}` | `{shown(value)}` | {field.description} |"


def shown(value):
    if isinstance(value, tuple):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, BaseModel):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.model_dump(exclude_none=True).items()) + "}"
    return "none" if value is None else str(value)


def settings_table():
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *settings_rows(Settings())])


def errors_table():
    rows = [
        f"| `{error.code}` | {'at start-up' if issubclass(error, ConfigurationInvalid) else error.status} "
        f"| {error.__doc__.splitlines()[0]} |"
        for error in sorted(all_errors(), key=lambda error: (error.status, error.code))
    ]
    return "\n".join(["| code | status | when |", "|---|---|---|", *rows])


TABLES = {"settings": settings_table, "errors": errors_table}


def section(text, name):
    return re.search(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", text, re.DOTALL)


def main():
    text = README.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        found = section(text, name)
        text = text[: found.start()] + table() + "\n" + text[found.end() :]
    README.write_text(text, encoding="utf-8")
    sys.stdout.write("README.md written\n")


if __name__ == "__main__":
    main()
