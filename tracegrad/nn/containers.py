"""Containers of modules or parameters: ``Sequential``, lists, dicts.

The members of a list are children called "0", "1", ...; changing a list in the middle names them anew (``_refill``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index
from typing import Any

from ..tensors.tensor import Tensor
from .module import Module, framed
from .parameter import Parameter


class _Row(Module):
    """Children in an order, by number or slice."""

    def _all(self) -> list[Any]:
        return list(self._modules.values())

    def _refill(self, modules: Iterable[Any]) -> None:
        """Replace all children by this list."""
        modules = list(modules)
        for name in list(self._modules):
            self._clear(name)
        for k, module in enumerate(modules):
            self.add_module(str(k), module)

    def _name_at(self, idx: Any) -> str:
        position, size = index(idx), len(self)
        if not -size <= position < size:
            raise IndexError(f"index {position} is out of range")
        return list(self._modules)[position % size]

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def __delitem__(self, idx: Any) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __setitem__(self, idx: Any, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def insert(self, index: int, module: Module) -> Any:
        """Put *module* before the child at *index*."""
        modules = self._all()
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._refill(modules)
        return self

    def append(self, module: Module) -> Any:
        """Add *module* at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add all *modules* at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Take out the child at *key*."""
        module = self[key]
        del self[key]
        return module

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)


class Sequential(_Row):
    """Modules applied one after the other: ``Sequential(a, b)(x)`` is ``b(a(x))``.

    Made of modules, or of one OrderedDict of named modules.  A slice of it is another Sequential.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], Mapping) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(dict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        self._refill(self._all())

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)


class ModuleList(_Row):
    """A list of modules, which ``parameters()`` and its relatives see."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(self._all()[idx])
        return self._modules[self._name_at(idx)]

    def __delitem__(self, idx: Any) -> None:
        modules = self._all()
        if isinstance(idx, slice):
            del modules[idx]
        else:
            del modules[int(self._name_at(idx))]
        self._refill(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Neighbours that look alike are shown once."""
        blocks: list[list[Any]] = []  # [first, last, text]
        for k, text in enumerate([repr(module) for module in self]):
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = k
            else:
                blocks.append([k, k, text])
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in blocks
        ]
        return framed(self._get_name(), [], lines)


class ModuleDict(Module):
    """Modules by name, which ``parameters()`` and its relatives see."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        if key not in self._modules:
            raise KeyError(key)
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take out everything."""
        for key in self:
            del self[key]

    def pop(self, key: str) -> Any:
        """Take out the module of this name."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping, or from (name, module) pairs."""
        for key, module in modules.items() if isinstance(modules, Mapping | ModuleDict) else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters; tensors become parameters, anything else is just kept."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name_at(self, idx: Any) -> str:
        position = index(idx)
        if not -self._size <= position < self._size:
            raise IndexError(f"index {position} is out of range")
        return str(position % self._size)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)([self[k] for k in range(*idx.indices(self._size))])
        return getattr(self, self._name_at(idx))

    def __setitem__(self, idx: Any, param: Any) -> None:
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param)
        setattr(self, self._name_at(idx), param)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(self._size)])

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def append(self, value: Any) -> ParameterList:
        """Add one at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add all at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = []
        for k, p in enumerate(self):
            if isinstance(p, Tensor):
                kind = "Parameter" if isinstance(p, Parameter) else "Tensor"
                lines.append(f"  ({k}): {kind} containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}]")
            else:
                lines.append(f"  ({k}): Object of type: {type(p).__name__}")
        return "\n".join(lines)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential"]
