"""Tensors of a checkpoint file from the net: read without running code, checked, in float32."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from deployments.errors import VoiceInvalid

AGAIN: Final = "Delete the file and download it again"
_GLOBALS_LOCK: Final = threading.Lock()  # torch keeps its allow-list per process, and scopes of two threads would mix


def read_tensors(path: Path, *keys: str) -> dict[str, torch.Tensor]:
    """The state dict of a checkpoint.

    Only tensors, containers and plain numbers are unpickled; optimizer states of published checkpoints hold numpy
    numbers, so numpy's scalar types are allowed for the time of the call, and nothing more.

    Args:
        path: A file written by torch.save.
        keys: Where the state dict lies inside, as ("model", "generator").

    Returns:
        Tensors by parameter name on the CPU; floating-point ones as float32.

    Raises:
        VoiceInvalid: The file is missing, truncated, not a checkpoint, holds code, lacks a key, or a value is no
            finite tensor; names the file and the fix.
    """
    state = _load(path)
    for depth, key in enumerate(keys):
        if not isinstance(state, Mapping) or key not in state:
            place = " -> ".join(keys[: depth + 1])
            found = ", ".join(sorted(map(str, state))[:8]) if isinstance(state, Mapping) else type(state).__name__
            raise VoiceInvalid(
                f"{path} has no {place!r} (found: {found}); it is the checkpoint of another kind of model. "
                "Put the file of the published voice in its place.",
                str(path),
            )
        state = state[key]
    if not isinstance(state, Mapping) or not state:
        raise VoiceInvalid(f"{path}: {' -> '.join(keys) or 'the file'} holds no tensors. {AGAIN}.", str(path))
    return {str(name): _checked(path, str(name), value) for name, value in state.items()}


def explain_mismatch(
    path: Path, missing: Sequence[str] = (), unexpected: Sequence[str] = (), mismatched: Sequence[str] = ()
) -> VoiceInvalid:
    """The error for a checkpoint whose tensors are not those that the voice's config.yaml asks for.

    Args:
        path: The checkpoint.
        missing: Names that the network has and the checkpoint lacks.
        unexpected: Names that only the checkpoint has.
        mismatched: One text per tensor of another shape, as "name: [36, 32] in the file, [37, 32] expected".

    Returns:
        The error to raise; it shows the first three of each kind.
    """
    kinds = (("missing", missing), ("not known", unexpected), ("of another shape", mismatched))
    parts = [
        f"{len(names)} tensors {kind} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for kind, names in kinds
        if names
    ]
    return VoiceInvalid(
        f"{path} does not fit the config.yaml beside it: {'; '.join(parts)}. "
        "Take checkpoint and config.yaml from the same download of the voice.",
        str(path),
    )


def _load(path: Path) -> Any:
    if not path.is_file():
        raise VoiceInvalid(
            f"{path} is missing. Download the voice again or mend the path in voices.sources.", str(path)
        )
    try:
        with _GLOBALS_LOCK, torch.serialization.safe_globals(_numpy_scalars()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError as error:
        raise VoiceInvalid(f"{path} cannot be read ({error.strerror}). Mend its permissions.", str(path)) from error
    # On damaged bytes torch's unpickler raises whatever its next step happens to raise.
    except Exception as error:
        raise _fault(path, error) from error


def _fault(path: Path, error: Exception) -> VoiceInvalid:
    # torch's own words stay in the traceback alone: they recommend to switch the guard off.
    foreign = re.search(r"GLOBAL ([\w.]+)|unrecognized \w+ (.+)", str(error))
    if foreign is None:
        return VoiceInvalid(f"{path} is truncated or not a torch checkpoint. {AGAIN}.", str(path))
    return VoiceInvalid(
        f"{path} holds code or objects ({foreign[1] or foreign[2]}) that weights have no need of; it was not loaded. "
        "Take the file from its publisher; if it is your own, save the state dict alone.",
        str(path),
    )


def _numpy_scalars() -> list[Any]:
    from numpy._core import multiarray

    names = ("Bool", "Int32", "Int64", "Float16", "Float32", "Float64")
    return [
        # numpy 1 and 2 write the function under different module names.
        (multiarray.scalar, "numpy.core.multiarray.scalar"),
        (multiarray.scalar, "numpy._core.multiarray.scalar"),
        np.dtype,
        *(getattr(np.dtypes, f"{name}DType") for name in names),
    ]


def _checked(path: Path, name: str, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise VoiceInvalid(
            f"{path}: {name!r} is a {type(value).__name__}, not a tensor. "
            "Put the file of the published voice in its place.",
            str(path),
        )
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        raise VoiceInvalid(
            f"{path}: {name!r} is sparse, quantized or without data. Save the weights as plain tensors.", str(path)
        )
    # A view may claim far more elements than the file holds; converting it would fill the memory.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise VoiceInvalid(f"{path}: {name!r} claims more elements than the file holds. {AGAIN}.", str(path))
    if value.is_complex():
        raise VoiceInvalid(f"{path}: {name!r} holds complex numbers. Save the weights as real numbers.", str(path))
    if not value.is_floating_point():
        return value.detach()
    tensor = value.detach().to(torch.float32)
    if not torch.isfinite(tensor).all():
        raise VoiceInvalid(f"{path}: {name!r} holds values that are not finite. {AGAIN}.", str(path))
    return tensor
