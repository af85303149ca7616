"""Text of tensors: NumPy arrays written the way PyTorch writes tensors.

Pure functions over plain arrays; start reading at ``format_tensor``. One ``_Style`` is chosen for all numbers of a
tensor (plain, scientific, or whole floats as ``3.``), from the elements that will be shown; then the brackets are
laid out (``_layout``), and size, dtype and gradient are appended where needed (``_with_notes``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..tracer.ir.aval import FLOAT_KINDS
from .dtypes import complex_with

PACKAGE = "tracegrad"  # dtypes are shown as members of it


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """``precision``: digits after the point. ``threshold``: from more elements than this, only ``edgeitems`` at each
    end of an axis are shown. ``linewidth``: characters before a line is broken. ``sci_mode``: None decides by the
    magnitudes."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = _PROFILES["default"]  # replaced as a whole, so that a thread that prints sees one set of options


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set options of printing; those left out stay as they are, but for ``sci_mode``, which goes back to None.

    ``profile`` is "default", "short" or "full"; the other arguments are applied on top of it. ValueError for another
    profile.
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"there is no print profile {profile!r}; there are {', '.join(map(repr, _PROFILES))}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    base = _options if profile is None else _PROFILES[profile]
    kept: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options = replace(base, sci_mode=sci_mode, **kept)


def format_tensor(
    array: np.ndarray,
    *,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    default_dtype: np.dtype,
    prefix: str = "",
) -> str:
    """The text of a tensor that holds *array* (of any shape; floats, integers, bools or complex numbers).

    The dtype is shown where it is neither *default_dtype* nor int64 nor bool; *grad_fn_name* takes the place of
    ``requires_grad=True``. *prefix* is put in front as it is: ``"Parameter containing:\\n"``.
    """
    options, indent = _options, len("tensor(")
    if array.size == 0:  # without a number to look at, integers and complex numbers are named
        numbers, with_size, known = "[]", array.ndim != 1, {default_dtype}
    else:
        cut = tuple(array.size > options.threshold and n > 2 * options.edgeitems for n in array.shape)
        shown = _edges(array, cut, options.edgeitems)
        numbers = _layout(shown, cut, indent, _choose_style(shown, options), options)
        with_size = not options.edgeitems
        known = {default_dtype, complex_with(default_dtype), np.dtype(np.int64), np.dtype(np.bool_)}
    notes = [f"size={array.shape}"] if with_size else []
    if array.dtype not in known:
        notes.append(f"dtype={PACKAGE}.{array.dtype.name}")
    if grad_fn_name is not None:
        notes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        notes.append("requires_grad=True")
    return prefix + _with_notes("tensor(" + numbers, notes, indent, options.linewidth)


# ---- how each number is written -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Style:
    """``spec``: the format of one element; ``point``: finite floats are whole and end in a point; ``width``: of the
    widest finite element, to which all are filled up from the left."""

    spec: str
    width: int
    point: bool = False

    def text(self, value: Any) -> str:
        """One element (a Python number), filled up."""
        text = format(value, self.spec)
        if self.point and math.isfinite(value):
            text += "."
        return text.rjust(self.width)


@dataclass(frozen=True, slots=True)
class _ComplexStyle:
    """The styles of real and of imaginary parts."""

    re: _Style
    im: _Style

    @property
    def width(self) -> int:
        return self.re.width + self.im.width + 1

    def text(self, value: complex) -> str:
        im = f"{self.im.text(value.imag)}j".lstrip()
        return self.re.text(value.real) + ("" if im[0] in "+-" else "+") + im


def _choose_style(shown: np.ndarray, options: PrintOptions) -> _Style | _ComplexStyle:
    """The style of all elements, chosen by those in *shown*."""
    if shown.dtype.kind == "c":
        return _ComplexStyle(_style_of_real(shown.real, options), _style_of_real(shown.imag, options))
    return _style_of_real(shown, options)


def _style_of_real(shown: np.ndarray, options: PrintOptions) -> _Style:
    if shown.dtype.kind not in FLOAT_KINDS:
        return _Style("", max([len(str(value)) for value in shown.ravel().tolist()], default=1))
    wide = shown.astype(np.float64).ravel()
    values = wide[np.isfinite(wide) & (wide != 0)]
    if not values.size:
        return _Style(".0f", 1, point=True)
    smallest, largest = float(np.abs(values).min()), float(np.abs(values).max())
    scientific = options.sci_mode
    if scientific is None:
        scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
    whole = bool(np.all(values == np.ceil(values))) and not scientific
    spec = f".{options.precision}e" if scientific else ".0f" if whole else f".{options.precision}f"
    return _Style(spec, max(len(format(value, spec)) for value in values.tolist()) + whole, point=whole)


# ---- brackets, line breaks, notes ---------------------------------------------------------------------------------


def _edges(array: np.ndarray, cut: tuple[bool, ...], edge: int) -> np.ndarray:
    """*array* without the middle of the axes marked in *cut*."""
    for axis, shorten in enumerate(cut):
        if shorten:
            size = array.shape[axis]
            array = array.take([*range(edge), *range(size - edge, size)], axis)
    return array


def _layout(
    shown: np.ndarray, cut: tuple[bool, ...], indent: int, style: _Style | _ComplexStyle, options: PrintOptions
) -> str:  # fmt: skip
    """The bracketed text of *shown*, whose first line starts after *indent* characters; ``...`` where axes were cut."""
    if not shown.ndim:
        return style.text(shown.item())
    margin = " " * (indent + 1)
    if shown.ndim > 1:
        parts = [_layout(part, cut[1:], indent + 1, style, options) for part in shown]
        if cut[0]:
            parts.insert(options.edgeitems, "...")
        return "[" + ("," + "\n" * (shown.ndim - 1) + margin).join(parts) + "]"
    parts = [style.text(value) for value in shown.tolist()]
    if cut[0]:
        parts.insert(options.edgeitems, " ..." if parts else "...")
    per_line = max(1, (options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(parts[start : start + per_line]) for start in range(0, len(parts), per_line)]
    return "[" + (",\n" + margin).join(lines) + "]"


def _with_notes(text: str, notes: list[str], indent: int, linewidth: int) -> str:
    """*text* with the notes and the closing bracket; a note that would not fit begins a line."""
    used = len(text) - text.rfind("\n") + 1
    for note in notes:
        if used + len(note) + 2 > linewidth:
            text += ",\n" + " " * indent + note
            used = indent + len(note)
        else:
            text += ", " + note
            used += len(note) + 2
    return text + ")"
