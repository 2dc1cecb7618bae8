"""sambert-serve: a subcommand per task; faults are one line, with an exit code that tells their kind."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

from deployments.command import analyse, say, serve, voices
from deployments.command.faults import tell
from deployments.errors import ConfigurationInvalid, InvalidRequest, SpeechError, VoiceInvalid

FAILED: Final = 1
REFUSED: Final = 2
INTERRUPTED: Final = 130
COMMANDS: Final = (say, analyse, voices, serve)


class Parser(argparse.ArgumentParser):
    """Wrong usage is a fault like any other."""

    def error(self, message: str) -> NoReturn:
        """Refuses the arguments.

        Raises:
            InvalidRequest: Always; names the help.
        """
        raise InvalidRequest(f"{message} ({self.prog} --help tells what there is).")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name; None takes the process's own.

    Returns:
        0: done; 1: it failed; 2: the request or the configuration is wrong; 130: Ctrl-C.
    """
    arguments: argparse.Namespace | None = None
    try:
        arguments = parser().parse_args(argv)
        if arguments.verbose:
            logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries again, and complains, at exit
        return FAILED
    except KeyboardInterrupt:
        return _failed("interrupted", "Stopped by Ctrl-C; nothing was written.", INTERRUPTED)
    except SpeechError as error:
        return _failed(error.code, error.message, _exit_code(error))
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _failed("system_error", f"{name}{error.strerror or error}.", FAILED)
    except Exception as error:
        if arguments is not None and arguments.verbose:
            traceback.print_exc()
        return _failed(SpeechError.code, f"{error!r}; with --verbose it tells where.", FAILED)
    return code


def parser() -> Parser:
    """All commands and their options."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--config", metavar="FILE", help="serve config, such as configs/local.yaml, whose settings apply"
    )
    shared.add_argument("--verbose", action="store_true", help="tell on stderr what is being done")
    root = Parser(prog="sambert-serve", description="Chinese text in, emotional speech out.", allow_abbrev=False)
    commands = root.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands, shared)
    return root


def _exit_code(error: SpeechError) -> int:
    is_wrong = isinstance(error, ConfigurationInvalid) and not isinstance(error, VoiceInvalid)
    return REFUSED if is_wrong or error.status < SpeechError.status else FAILED


def _failed(code: str, message: str, exit_code: int) -> int:
    tell(code, message)
    return exit_code
