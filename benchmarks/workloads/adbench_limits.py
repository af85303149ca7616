"""Gradients of ADBench's programs by hand, as fast as we can write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LANES = 16  # numbers that a row of bits is filled up to, so that its loops are vectors without a rest
# places in a record: gates, hyperbolic tangent of the cell, states after the layer, and what went in
FORGET, INGATE, OUTGATE, CHANGE, TANH, HIDDEN, CELL, INPUT = range(0, 8 * LANES, LANES)
RECORD = 8 * LANES  # of one layer at one character
STEP = 2 * RECORD
WEIGHTS, BIASES = range(0, 8 * LANES, 4 * LANES)  # of a layer, for the four gates


def lstm() -> Callable[..., Any]:
    """The limit of the LSTM with diagonal weights and two layers, for at most 16 bits.

    Everything is in two arrays, what is read and what is written, so that LLVM sees at which distances, and makes
    two vectors of each row without asking whether they overlap.
    """
    from numba import njit

    from ..vecmath import FAST, exp, log, tanh

    @njit(**FAST)
    def forward_layer(w, tape):
        for k in range(LANES):
            j = k + STEP
            x, h, c = tape[j + INPUT], tape[k + HIDDEN], tape[k + CELL]
            f = 1.0 / (1.0 + exp(-(x * w[k + WEIGHTS] + w[k + BIASES])))
            i = 1.0 / (1.0 + exp(-(h * w[k + WEIGHTS + LANES] + w[k + BIASES + LANES])))
            o = 1.0 / (1.0 + exp(-(x * w[k + WEIGHTS + 2 * LANES] + w[k + BIASES + 2 * LANES])))
            g = tanh(h * w[k + WEIGHTS + 3 * LANES] + w[k + BIASES + 3 * LANES])
            cell = c * f + i * g
            t = tanh(cell)
            tape[j + FORGET], tape[j + INGATE], tape[j + OUTGATE], tape[j + CHANGE], tape[j + TANH] = f, i, o, g, t
            tape[j + CELL] = cell
            tape[j + HIDDEN] = o * t

    @njit(**FAST)
    def backward_layer(w, tape, out):
        """out: gradients of weights and biases, then the cotangents of states and of what went in."""
        for k in range(LANES):
            j = k + STEP
            f, i, o, g, t = tape[j + FORGET], tape[j + INGATE], tape[j + OUTGATE], tape[j + CHANGE], tape[j + TANH]
            h, c, x = tape[k + HIDDEN], tape[k + CELL], tape[j + INPUT]
            dh, dc = out[k + 8 * LANES], out[k + 9 * LANES]
            cell = dc + dh * o * (1.0 - t * t)
            zo = dh * t * o * (1.0 - o)
            zf = cell * c * f * (1.0 - f)
            zi = cell * g * i * (1.0 - i)
            zg = cell * i * (1.0 - g * g)
            out[k + WEIGHTS] += zf * x
            out[k + WEIGHTS + LANES] += zi * h
            out[k + WEIGHTS + 2 * LANES] += zo * x
            out[k + WEIGHTS + 3 * LANES] += zg * h
            out[k + BIASES] += zf
            out[k + BIASES + LANES] += zi
            out[k + BIASES + 2 * LANES] += zo
            out[k + BIASES + 3 * LANES] += zg
            out[k + 8 * LANES] = zi * w[k + WEIGHTS + LANES] + zg * w[k + WEIGHTS + 3 * LANES]
            out[k + 9 * LANES] = cell * f
            out[k + 10 * LANES] = zf * w[k + WEIGHTS] + zo * w[k + WEIGHTS + 2 * LANES]

    @njit(**FAST)
    def kernel(w, extra, text, bits, tape, shares, out):
        steps, value = len(text) - 1, 0.0
        for n in range(steps):
            first, second = tape[n * STEP : (n + 2) * STEP], tape[n * STEP + RECORD : (n + 2) * STEP]
            x, following, share = text[n], text[n + 1], shares[n]
            for j in range(LANES):
                first[STEP + INPUT + j] = x[j] * extra[j]
            forward_layer(w[0], first)
            for j in range(LANES):
                second[STEP + INPUT + j] = first[STEP + HIDDEN + j]
            forward_layer(w[1], second)
            total, chosen, count = 0.0, 0.0, 0.0
            for j in range(LANES):
                y = second[STEP + HIDDEN + j] * extra[LANES + j] + extra[2 * LANES + j]
                share[j] = exp(y)
                chosen += following[j] * y
                count += following[j]
            for j in range(bits):
                total += share[j]
            value += chosen - count * log(total + 2.0)
            scale = count / (total + 2.0)
            for j in range(LANES):
                share[j] = following[j] - share[j] * scale
        factor = -1.0 / (steps * bits)
        below, above, more = out[0], out[1], out[2]
        for n in range(steps - 1, -1, -1):
            first, second = tape[n * STEP : (n + 2) * STEP], tape[n * STEP + RECORD : (n + 2) * STEP]
            x, share = text[n], shares[n]
            for j in range(LANES):
                dy = factor * share[j]
                more[LANES + j] += dy * second[STEP + HIDDEN + j]
                more[2 * LANES + j] += dy
                above[8 * LANES + j] += dy * extra[LANES + j]
            backward_layer(w[1], second, above)
            for j in range(LANES):
                below[8 * LANES + j] += above[10 * LANES + j]
            backward_layer(w[0], first, below)
            for j in range(LANES):
                more[j] += below[10 * LANES + j] * x[j]
        return value * factor

    def filled(x: Any) -> Any:
        wide = np.zeros((*x.shape[:-1], LANES))
        wide[..., : x.shape[-1]] = x
        return wide

    tapes: dict[int, tuple[Any, Any]] = {}

    def value_and_grad(main: Any, extra: Any, state: Any, text: Any) -> Any:
        bits, steps = extra.shape[1], len(text) - 1
        tape, shares = tapes.setdefault(steps, (np.zeros((steps + 1) * STEP), np.empty((steps, LANES))))
        tape[:STEP].reshape(2, 8, LANES)[:, 5:7, :bits] = state.reshape(2, 2, bits)
        out, w = np.zeros((3, 11 * LANES)), filled(main.reshape(16, bits)).reshape(2, 8 * LANES)
        value = kernel(w, filled(extra).ravel(), filled(text), bits, tape, shares, out)
        gradient = out[:2, : 8 * LANES].reshape(16, LANES)[:, :bits].reshape(4, 4 * bits)
        return value, (gradient, out[2, : 3 * LANES].reshape(3, LANES)[:, :bits].copy())

    return value_and_grad
