"""``state_dict`` and ``load_state_dict``: the tensors of a module by name, and back.

Start reading at ``load``.  Modules may replace their own part of it by overriding ``_save_to_state_dict`` and
``_load_from_state_dict``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..tensors import create
from ..tensors.modes import no_grad
from ..tensors.ops_basic import copy_
from ..tensors.tensor import Tensor, changed
from .parameter import Parameter


class _LoadedKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class _IncompatibleKeys(_LoadedKeys):
    """Names that ``load_state_dict(strict=False)`` left out."""

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"

    __str__ = __repr__


def save(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Add the tensors of *module* and of its children to *destination* (by default an empty dict)."""
    if destination is None:
        destination = OrderedDict()
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            save(child, destination, f"{prefix}{name}.", keep_vars)
    return destination


def save_own(module: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Add the module's own tensors."""
    for name, t in persistent(module).items():
        if t is not None:
            destination[prefix + name] = t if keep_vars else t.detach()


def persistent(module: Any) -> dict[str, Tensor | None]:
    """The module's own parameters and persistent buffers, by name."""
    kept = {name: t for name, t in module._buffers.items() if name not in module._non_persistent_buffers_set}
    return {**module._parameters, **kept}


def load(module: Any, state_dict: Any, strict: bool, assign: bool) -> _IncompatibleKeys:
    """Copy (with *assign*: take over) the tensors, or NumPy arrays, in *state_dict*; RuntimeError names all
    that do not fit."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []
    metadata = {"assign_to_params_buffers": assign}

    def descend(part: Any, prefix: str) -> None:
        part._load_from_state_dict(state_dict, prefix, metadata, True, missing, unexpected, errors)
        for name, child in part._modules.items():
            if child is not None:
                descend(child, f"{prefix}{name}.")

    descend(module, "")
    changed()
    if strict:
        for keys, what in ((unexpected, "Unexpected"), (missing, "Missing")):
            if keys:
                listed = ", ".join(['"' + k + '"' for k in keys])
                errors.insert(0, f"{what} key(s) in state_dict: {listed}. ")
    if errors:
        lines = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{lines}")
    return _IncompatibleKeys(missing, unexpected)


def load_own(
    module: Any, state_dict: Any, prefix: str, assign: bool, strict: bool, missing: list[str], unexpected: list[str],
    errors: list[str],
) -> None:  # fmt: skip
    """Load the module's own tensors."""
    wanted = {name: t for name, t in persistent(module).items() if t is not None}
    for name, mine in wanted.items():
        key = prefix + name
        if key in state_dict:
            _load_tensor(module, name, key, mine, state_dict[key], assign, errors)
        elif strict:
            missing.append(key)
    if strict:
        for key in state_dict:
            if key.startswith(prefix):
                head, *rest = key[len(prefix) :].split(".", 1)
                if not (head in module._modules if rest else head in wanted):
                    unexpected.append(key)


def _load_tensor(module: Any, name: str, key: str, mine: Tensor, given: Any, assign: bool, errors: list[str]) -> None:
    if isinstance(given, np.ndarray | np.generic):
        given = create.tensor(given)
    if not isinstance(given, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(given)}"
        )
    elif given.shape != mine.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape torch.{given.shape} from checkpoint, the shape in "
            f"current model is torch.{mine.shape}."
        )
    elif assign:
        if isinstance(mine, Parameter) and not isinstance(given, Parameter):
            given = Parameter(given, mine.requires_grad)
        setattr(module, name, given)
    else:
        with no_grad():
            copy_(mine, given)
