"""``save`` and ``load``: state dicts, and trees of them, as files without code.

A file holds arrays by name, in the safetensors format or in NumPy's, and how they are put together: the *layout*, a
text of JSON, in which arrays stand by name.  Other libraries read the arrays: safetensors has a place for the layout,
and a flat dict of arrays needs none.  Nothing is pickled, and nothing in a file is run.  Start reading at ``save``.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .runtime.disk.location import existing_folder

__all__ = ["load", "save"]

LAYOUT = "tracegrad.layout"  # the layout's name in a file
_PLAIN = (type(None), bool, int, float, str)


def save(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a state dict, or a tree of them, to a file, which is replaced as a whole or not at all.

    :param state: dicts, lists and tuples of Tensors, NumPy arrays and scalars, numbers, texts, bools and None: the
        result of a Module's or an optimizer's ``state_dict()``, or several of them in a dict.  Keys are texts or ints.
    :param path: ends in ``.safetensors`` (the package safetensors) or in ``.npz``.
    :raises TypeError: for another object in *state*; the message says where.
    """
    write, _ = _format_of(path)
    arrays: dict[str, np.ndarray] = {}
    layout = _taken_apart(state, "", arrays)
    text = json.dumps(layout)
    folder, name = os.path.split(os.path.abspath(path))
    existing_folder(folder, "save")
    handle, beside = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        os.close(handle)
        write(beside, arrays, text)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Any:
    """The state that :func:`save` wrote: Tensors (on the CPU, without ``requires_grad``) where there were Tensors.  A
    file of another library is a dict of NumPy arrays, which ``load_state_dict`` takes.

    A file that ends in ``.tgz`` is a compiled function's (:meth:`CompiledFunction.export`): what is returned is called
    as that was, without its source.  It holds machine code, so it is to be trusted like a program.

    :raises ValueError: for a file that is none of these, or holds Python objects.
    """
    if os.fspath(path).endswith(".tgz"):
        return importlib.import_module(".runtime.ahead.archive", __package__).load(path)
    _, read = _format_of(path)
    arrays, text = read(os.fspath(path))
    return _put_together(json.loads(text), arrays) if text else arrays


# ---- formats -----------------------------------------------------------------------------------------------------


def _write_safetensors(path: str, arrays: dict[str, np.ndarray], layout: str) -> None:
    for name, array in arrays.items():
        if array.dtype == np.complex128:
            raise TypeError(f"state[{name!r}] is complex128, which the safetensors format has not: save to .npz")
    _package("safetensors.numpy").save_file(arrays, path, metadata={LAYOUT: layout})


def _read_safetensors(path: str) -> tuple[dict[str, np.ndarray], str]:
    with _package("safetensors").safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, (file.metadata() or {}).get(LAYOUT, "")  # noqa: SIM118


def _write_npz(path: str, arrays: dict[str, np.ndarray], layout: str) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "V":
            raise TypeError(f"state[{name!r}] is {array.dtype}, which NumPy's format has not: save to .safetensors")
    flat = json.dumps({"dict": [[name, {"array": name}] for name in arrays]})
    extra = [] if layout == flat else [(LAYOUT, np.array(layout))]
    with zipfile.ZipFile(path, "w") as file:  # by hand, since np.savez takes no array called "file"
        for name, array in [*arrays.items(), *extra]:
            with file.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def _read_npz(path: str) -> tuple[dict[str, np.ndarray], str]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return arrays, str(arrays.pop(LAYOUT, ""))


Write = Callable[[str, dict[str, np.ndarray], str], None]
Read = Callable[[str], tuple[dict[str, np.ndarray], str]]
FORMATS: dict[str, tuple[Write, Read]] = {
    ".safetensors": (_write_safetensors, _read_safetensors),
    ".npz": (_write_npz, _read_npz),
}


def _format_of(path: str | os.PathLike[str]) -> tuple[Write, Read]:
    suffix = os.path.splitext(path)[1]
    if suffix not in FORMATS:
        known = f"{', '.join(FORMATS)} (states) or .tgz (of f.export)"
        raise ValueError(f"{os.fspath(path)!r} does not end in {known}, which say the format")
    return FORMATS[suffix]


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            "files that end in .safetensors need the package safetensors: pip install safetensors"
        ) from error


def _tensors(name: str) -> Any:
    """A module of the library of tensors, without which the file of a function is loaded."""
    return importlib.import_module(f".tensors.{name}", __package__)


# ---- layout ------------------------------------------------------------------------------------------------------


def _taken_apart(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """The layout of *value*, whose arrays go into *arrays*, by *name* and the keys that lead to them."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, _tensors("tensor").Tensor):
        array = _tensors("tensor").METHODS["numpy"](value.detach().cpu())
        return {"tensor": _kept(array, name, arrays)}
    if isinstance(value, np.ndarray | np.generic):
        return {"array" if isinstance(value, np.ndarray) else "scalar": _kept(np.asarray(value), name, arrays)}
    if isinstance(value, Mapping):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(f"state{_place(name)} has the key {key!r}: keys are texts or ints")
        return {"dict": [[key, _taken_apart(part, _joined(name, key), arrays)] for key, part in value.items()]}
    if type(value) in (list, tuple):
        parts = [_taken_apart(part, _joined(name, k), arrays) for k, part in enumerate(value)]
        return parts if type(value) is list else {"tuple": parts}
    raise TypeError(
        f"state{_place(name)} is of class {type(value).__name__}; save takes dicts, lists and tuples of Tensors, NumPy "
        "arrays, numbers, texts, bools and None"
    )


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _place(name: str) -> str:
    return f"[{name!r}]" if name else ""


def _kept(array: np.ndarray, name: str, arrays: dict[str, np.ndarray]) -> str:
    """The name under which *array* stands in the file."""
    if array.dtype.hasobject or array.dtype.names:
        raise TypeError(f"state{_place(name)} is an array of dtype {array.dtype}, which is no array of numbers")
    own = name = name or "value"
    while own in arrays:  # "a.b" beside "a" with "b" in it
        own += "'"
    arrays[own] = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    return own


def _put_together(layout: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(layout, list):
        return [_put_together(part, arrays) for part in layout]
    if not isinstance(layout, dict):
        return layout
    ((kind, content),) = layout.items()
    if kind == "dict":
        return {key: _put_together(part, arrays) for key, part in content}
    if kind == "tuple":
        return tuple([_put_together(part, arrays) for part in content])
    array = arrays[content]
    return _tensors("create").from_numpy(array) if kind == "tensor" else array[()] if kind == "scalar" else array
