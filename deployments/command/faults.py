"""Faults as a user of the command line sees them: one line on stderr."""

import sys


def tell(code: str, message: str) -> None:
    """Writes a fault to stderr.

    Args:
        code: Of the error; see the README's table.
        message: What is wrong and how to fix it.
    """
    sys.stderr.write(f"sambert-serve: {code}: {' '.join(message.split())}\n")
    sys.stderr.flush()
