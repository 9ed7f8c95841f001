"""multilingual-e5-small in numpy and single precision, operator by operator, to compare the graphs with."""

from __future__ import annotations

import numpy as np

from spellbook.models.e5.prepare import Weights
from spellbook.models.e5.tokens import E5Tokeniser

HEADS, EPSILON = 12, 1e-12
"""Heads of a layer, and the number that keeps a normalisation from dividing by zero."""


def vector(weights: Weights, tokens: E5Tokeniser, text: str) -> np.ndarray:
    """The unit vector of a short text that has its prefix, shape (384,)."""
    ids = [tokens.first, *tokens(text), tokens.last]
    scales, nibbles = weights.blocks("emb.word", weights.width)
    words = np.stack([nibbles[ids] & 15, nibbles[ids] >> 4], axis=-1).reshape(len(ids), -1, 32).astype(np.float32)
    value = ((words - 8) * scales[ids].astype(np.float32)[..., None]).reshape(len(ids), weights.width)
    value += (
        weights.floats("emb.pos").reshape(-1, weights.width)[: len(ids)] + weights.floats("emb.type")[: weights.width]
    )
    value = _normal(weights, value, "emb.ln")
    for layer in range(weights.layers):
        at = f"l{layer}."
        query, key, content = (
            _product(weights, value, f"{at}{part}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2) for part in "qkv"
        )
        likeness = query @ key.transpose(0, 2, 1) * (weights.width // HEADS) ** -0.5
        share = np.exp(likeness - likeness.max(axis=-1, keepdims=True))
        mixed = (share / share.sum(axis=-1, keepdims=True) @ content).transpose(1, 0, 2).reshape(value.shape)
        value = _normal(weights, _product(weights, mixed, f"{at}ao") + value, f"{at}aln")
        inner = _gelu(_product(weights, value, f"{at}fi"))
        value = _normal(weights, _product(weights, inner, f"{at}fo") + value, f"{at}oln")
    mean = value.mean(axis=0)
    unit: np.ndarray = mean / np.linalg.norm(mean)
    return unit


def _product(weights: Weights, value: np.ndarray, name: str) -> np.ndarray:
    return value @ weights.matrix([f"{name}.w"], value.shape[1]).T + weights.floats(f"{name}.b")


def _normal(weights: Weights, value: np.ndarray, name: str) -> np.ndarray:
    value = value - value.mean(axis=-1, keepdims=True)
    value /= np.sqrt((value**2).mean(axis=-1, keepdims=True) + EPSILON)
    return value * weights.floats(f"{name}.w") + weights.floats(f"{name}.b")


def _gelu(value: np.ndarray) -> np.ndarray:
    # Abramowitz and Stegun, 7.1.26: an error function that numpy lacks, right to 1.5e-7.
    root = np.abs(value) / np.sqrt(2)
    part = 1 / (1 + 0.3275911 * root)
    sums = part * (
        0.254829592 + part * (-0.284496736 + part * (1.421413741 + part * (-1.453152027 + part * 1.061405429)))
    )
    error = np.sign(value) * (1 - sums * np.exp(-(root**2)))
    result: np.ndarray = value * (1 + error) / 2
    return result
