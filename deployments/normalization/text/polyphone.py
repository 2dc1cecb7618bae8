"""Readings of characters that have several, from the sentence around them: g2pM's network over whole sentences."""

from __future__ import annotations

import pickle
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BOS = "시"  # the markers that g2pM's vocabulary uses
_EOS = "끝"
_UNKNOWN = "<UNK>"
_WINDOW = 48  # characters of context on either side

Floats = NDArray[np.float32]


class PolyphoneNetwork:
    """The bidirectional LSTM of g2pM, as numpy in float32. Safe to use from several threads."""

    def __init__(self) -> None:
        weights = _load("np_ckpt.pkl")
        self._ids: dict[str, int] = _load("char2idx.pkl")
        classes: dict[str, int] = _load("class2idx.pkl")
        readings: dict[str, list[str]] = _load("digest_cedict.pkl")
        self.readings = {char: [r.replace("u:", "v") for r in found] for char, found in readings.items()}
        self._class_ids = {
            char: np.array([classes[reading] for reading in found])
            for char, found in readings.items()
            if len(found) > 1 and all(reading in classes for reading in found)
        }
        self._embeddings: Floats = weights["embedding.weight"]
        # Both directions side by side; one tanh serves all four gates because sigmoid(x) = (tanh(x / 2) + 1) / 2.
        scale = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], np.float32), 32)
        directions = ("", "_reverse")
        self._input_weight = np.stack([weights[f"lstm.weight_ih_l0{d}"].T * scale for d in directions])
        self._state_weight = np.stack([weights[f"lstm.weight_hh_l0{d}"].T * scale for d in directions])
        self._bias = np.stack(
            [(weights[f"lstm.bias_ih_l0{d}"] + weights[f"lstm.bias_hh_l0{d}"]) * scale for d in directions]
        )
        self._hidden = (weights["logit_layer.0.weight"].T, weights["logit_layer.0.bias"])
        self._output = (weights["logit_layer.2.weight"].T, weights["logit_layer.2.bias"])

    def knows(self, char: str) -> bool:
        """Whether the network was trained on a character."""
        return char in self._class_ids

    def scores(self, text: str, places: list[int]) -> list[dict[str, float]]:
        """Log probabilities of the readings of some characters.

        Args:
            text: The sentence.
            places: Indices of characters that the network knows.

        Returns:
            For each place, reading to log probability among the readings of that character.
        """
        if not places:
            return []
        hidden = np.maximum(self._states(text)[[place + 1 for place in places]] @ self._hidden[0] + self._hidden[1], 0)
        found = []
        for place, row in zip(places, hidden, strict=True):
            ids = self._class_ids[text[place]]
            logits = row @ self._output[0][:, ids] + self._output[1][ids]
            logits = logits - np.logaddexp.reduce(logits)
            found.append(dict(zip(self.readings[text[place]], map(float, logits), strict=True)))
        return found

    def _states(self, text: str) -> Floats:
        """Hidden states [characters + 2, 64] of the markers and the text."""
        unknown = self._ids[_UNKNOWN]
        ids = [self._ids[_BOS], *(self._ids.get(char, unknown) for char in text), self._ids[_EOS]]
        embedded = self._embeddings[ids]
        gates_in = np.stack((embedded, embedded[::-1])) @ self._input_weight + self._bias[:, None, :]
        length = len(ids)
        states = np.zeros((2, length, 32), np.float32)
        hidden = np.zeros((2, 1, 32), np.float32)
        cell = np.zeros((2, 32), np.float32)
        for step in range(length):
            gates = np.tanh(gates_in[:, step] + (hidden @ self._state_weight)[:, 0])
            cell = 0.5 * ((gates[:, 32:64] + 1) * cell + (gates[:, :32] + 1) * gates[:, 64:96])
            state = 0.5 * (gates[:, 96:] + 1) * np.tanh(cell)
            states[:, step] = state
            hidden = state[:, None, :]
        return np.concatenate((states[0], states[1, ::-1]), axis=1)


def _load(name: str) -> Any:
    # Files of an installed, pinned package: as trustworthy as its code.
    return pickle.loads((files("g2pM") / name).read_bytes())  # noqa: S301
