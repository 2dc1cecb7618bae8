"""Readings of characters that have several, from the sentence around them: g2pM's network over whole sentences."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deployments.normalization.text import symbols, tables

_BOS = "시"  # the markers that g2pM's vocabulary uses
_EOS = "끝"
_UNKNOWN = "<UNK>"
_WIDTH = 32  # of the state, each direction

Floats = NDArray[np.float32]


class PolyphoneNetwork:
    """The bidirectional LSTM of g2pM, as numpy in float32. Safe to use from several threads."""

    def __init__(self) -> None:
        weights = _load("np_ckpt.pkl")
        self._ids: dict[str, int] = _load("char2idx.pkl")
        classes: dict[str, int] = _load("class2idx.pkl")
        readings: dict[str, list[str]] = _load("digest_cedict.pkl")
        # The dictionary behind it writes xx5 for a reading that it does not know, and ng4 and the like for cries.
        sounding = {char: [reading for reading in found if _sounds(reading)] for char, found in readings.items()}
        self.readings = {char: [r.replace("u:", "v") for r in found] for char, found in sounding.items()}
        self._class_ids = {
            char: np.array([classes[reading] for reading in found])
            for char, found in sounding.items()
            if len(found) > 1 and all(reading in classes for reading in found)
        }
        self._embeddings: Floats = weights["embedding.weight"]
        # Both directions run as one network of twice the width, its gates in the order i, f, o, g; one tanh serves all
        # four because sigmoid(x) = (tanh(x / 2) + 1) / 2.
        directions = ("", "_reverse")
        self._input_weight = [_gates(weights[f"lstm.weight_ih_l0{d}"].T) for d in directions]
        biases = [weights[f"lstm.bias_ih_l0{d}"] + weights[f"lstm.bias_hh_l0{d}"] for d in directions]
        self._bias = [_gates(bias[None, :]) for bias in biases]
        state_weight = np.zeros((2 * _WIDTH, 4, 2, _WIDTH), np.float32)
        for side, d in enumerate(directions):
            rows = slice(side * _WIDTH, (side + 1) * _WIDTH)
            state_weight[rows, :, side] = _gates(weights[f"lstm.weight_hh_l0{d}"].T)
        self._state_weight = state_weight.reshape(2 * _WIDTH, 8 * _WIDTH)
        self._hidden = (weights["logit_layer.0.weight"].T, weights["logit_layer.0.bias"])
        self._output = (weights["logit_layer.2.weight"].T, weights["logit_layer.2.bias"])

    def knows(self, char: str) -> bool:
        """Whether the network was trained on a character."""
        return char in self._class_ids

    def choose(self, text: str, places: list[int]) -> list[str]:
        """The likeliest readings of some characters.

        Args:
            text: The sentence.
            places: Indices of characters that the network knows.

        Returns:
            For each place, one of the readings of that character.
        """
        if not places:
            return []
        hidden = np.maximum(self._states(text)[[place + 1 for place in places]] @ self._hidden[0] + self._hidden[1], 0)
        logits = hidden @ self._output[0] + self._output[1]
        return [
            self.readings[text[place]][int(row[self._class_ids[text[place]]].argmax())]
            for place, row in zip(places, logits, strict=True)
        ]

    def _states(self, text: str) -> Floats:
        """Hidden states [characters + 2, 64] of the markers and the text."""
        unknown = self._ids[_UNKNOWN]
        ids = [self._ids[_BOS], *(self._ids.get(char, unknown) for char in text), self._ids[_EOS]]
        embedded = self._embeddings[ids]
        length, both = len(ids), 2 * _WIDTH
        gates_in = np.empty((length, 4, 2, _WIDTH), np.float32)
        for side, seen in enumerate((embedded, embedded[::-1])):
            gates_in[:, :, side] = np.tensordot(seen, self._input_weight[side], 1) + self._bias[side]
        flat_in = gates_in.reshape(length, 8 * _WIDTH)
        states = np.zeros((length + 1, both), np.float32)
        cell = np.zeros(both, np.float32)
        gates = np.empty(8 * _WIDTH, np.float32)
        sigmoids = gates[: 3 * both]
        inputs, forgets, outputs, candidates = gates.reshape(4, both)
        for step in range(length):
            np.dot(states[step - 1], self._state_weight, out=gates)  # states[-1] is the zero state at first
            gates += flat_in[step]
            np.tanh(gates, out=gates)
            sigmoids += 1
            sigmoids *= 0.5
            cell *= forgets
            candidates *= inputs
            cell += candidates
            np.multiply(np.tanh(cell), outputs, out=states[step])
        return np.concatenate((states[:length, :_WIDTH], states[length - 1 :: -1, _WIDTH:]), axis=1)


def _sounds(reading: str) -> bool:
    base = reading[:-1].replace("u:", "v")
    return base == "r" or symbols.is_syllable(base)


def _gates(weight: Floats) -> Floats:
    """[inputs, 4 * width] in the order i, f, g, o to [inputs, 4, width] in the order i, f, o, g, scaled for tanh."""
    parts = weight.reshape(weight.shape[0], 4, _WIDTH)[:, [0, 1, 3, 2]].copy()
    parts[:, :3] *= 0.5
    return parts


def _load(name: str) -> Any:
    # Files of an installed, pinned package: as trustworthy as its code.
    return pickle.loads((tables.package("g2pM") / name).read_bytes())  # noqa: S301
