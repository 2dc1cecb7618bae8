"""What the scripts' command lines share."""

from __future__ import annotations

import argparse


def parser_of(module: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the documentation of a module.

    Args:
        module: Its name under load_tests.
        doc: Its docstring; the first line is what it does.
    """
    description, _, epilog = (doc or "").partition("\n")
    return argparse.ArgumentParser(
        prog=f"python -m load_tests.{module}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
