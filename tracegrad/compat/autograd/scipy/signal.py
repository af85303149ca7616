"""``scipy.signal``, with HIPS autograd's ``convolve``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.signal


def convolve(
    A: Any, B: Any, axes: Sequence[Sequence[int]] | None = None,
    dot_axes: Sequence[Sequence[int]] = ((), ()), mode: str = "full",
) -> Any:  # fmt: skip
    """The convolution of *A* and *B* over pairs of *axes*, of which *dot_axes* are summed over: the axes of the result
    are the others of A, the others of B, and those of the convolution."""
    if axes is None and not any(map(len, dot_axes)):
        return scipy.signal.convolve(A, B, mode)
    axes_a, axes_b = axes if axes is not None else (range(np.ndim(A)), range(np.ndim(B)))
    sizes = [(A.shape[a], B.shape[b]) for a, b in zip(axes_a, axes_b, strict=True)]
    if mode == "same":  # of the size of A
        return convolve(A, B, axes, dot_axes)[(..., *[slice((m - 1) // 2, (m - 1) // 2 + n) for n, m in sizes])]
    larger = any(n > m for n, m in sizes)
    if mode == "valid" and larger and any(n < m for n, m in sizes):
        raise ValueError("One array must be larger than the other along all convolved dimensions")
    if larger:  # the smaller one slides over the other
        found = convolve(B, A, (axes_b, axes_a), dot_axes[::-1], mode)
        of_b, of_a = (x.ndim - len(dots) - len(axes_a) for x, dots in ((B, dot_axes[1]), (A, dot_axes[0])))
        return np.transpose(found, [*range(of_b, of_b + of_a), *range(of_b), *range(of_b + of_a, found.ndim)])
    pads = [(0, 0)] * B.ndim
    for b, (n, _) in zip(axes_b, sizes if mode == "full" else (), strict=False):
        pads[b] = n - 1, n - 1
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(B, pads), tuple([A.shape[a] for a in axes_a]), tuple(axes_b)
    )
    letters = "abcdefghijklmnopqrstuvwxyz"
    names_a, names_b = list(letters[: A.ndim]), list(letters[A.ndim :][: B.ndim])
    for a, b in zip(*dot_axes, strict=True):
        names_b[b] = names_a[a]
    inside = [names_a[a] for a in axes_a]
    rest_a = [n for k, n in enumerate(names_a) if k not in (*axes_a, *dot_axes[0])]
    rest_b = [n for k, n in enumerate(names_b) if k not in (*axes_b, *dot_axes[1])]
    result = [*rest_a, *rest_b, *[names_b[b] for b in axes_b]]
    text = f"{''.join(names_a)},{''.join(names_b + inside)}->{''.join(result)}"
    return np.einsum(text, np.flip(A, tuple(axes_a)), windows)


def __getattr__(name: str) -> Any:
    return getattr(scipy.signal, name)
