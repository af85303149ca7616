"""``Module``: parameters, buffers and other modules as attributes of one object.

The members are in three registries, ``_parameters``, ``_buffers`` and ``_modules``; write to them through attributes
and the ``register_*`` methods.  Members stand in the instance's ``__dict__`` as well, so reading an attribute runs no
code of ours and a recording can follow it; ``__setattr__`` and ``__delattr__`` keep the two in step.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..tensors import create, dtypes
from ..tensors.device import wanted
from ..tensors.ops_basic import zero_
from ..tensors.tensor import Tensor, changed, make, raw
from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ..tracer.ir.tracebacks import shorten
from . import hooks, loading
from .parameter import Parameter

Self = TypeVar("Self", bound="Module")

_REGISTRIES = {  # kind of the members, and the texts for error messages
    "_parameters": ("parameter", "torch.nn.Parameter or None"),
    "_modules": ("child module", "torch.nn.Module or None"),
    "_buffers": ("buffer", "torch.nn.Buffer, torch.Tensor or None"),
}
_ABSENT = object()


class Module:
    """The base of all layers and networks.  Subclasses call ``super().__init__()``, assign parameters and modules to
    attributes, and define ``forward``; calling the module runs it."""

    _shown: ClassVar[tuple[str, ...]] = ()  # the settings that ``repr`` tells, of those with a colon the value alone
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]
    _forward_hooks: OrderedDict[int, Any]
    _forward_pre_hooks: OrderedDict[int, Any]
    _backward_hooks: OrderedDict[int, Any]
    _backward_pre_hooks: OrderedDict[int, Any]

    def __init__(self) -> None:
        self.__dict__.update(
            training=True, _parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set(),
            _forward_hooks=OrderedDict(), _forward_pre_hooks=OrderedDict(), _backward_hooks=OrderedDict(),
            _backward_pre_hooks=OrderedDict(),
        )  # fmt: skip

    # ---- calling -----------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks:
                return hooks.call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's computation, to be defined by the subclass."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> hooks.RemovableHandle:
        """``hook(module, args)`` runs before ``forward`` and may return other arguments."""
        return hooks.register(self._forward_pre_hooks, (hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> hooks.RemovableHandle:
        """``hook(module, args, output)`` runs after ``forward`` and may return another output."""
        return hooks.register(self._forward_hooks, (hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> hooks.RemovableHandle:
        """``hook(module, grad_output)`` runs when the gradients of the outputs are known and may return others."""
        return hooks.register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> hooks.RemovableHandle:
        """``hook(module, grad_input, grad_output)`` runs when the gradients of the positional arguments are known, and
        may return others for them."""
        return hooks.register(self._backward_hooks, hook, prepend)

    # ---- attributes --------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            if own["_parameters"].get(name) is not value:
                self._clear(name, keep="_parameters")
                self.register_parameter(name, value)
            return
        if isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            if own["_modules"].get(name) is not value:
                self._clear(name, keep="_modules")
                self._register("_modules", name, value)
            return
        for registry, (what, fitting) in _REGISTRIES.items():
            if name in own.get(registry, ()):
                if value is not None and not (registry == "_buffers" and isinstance(value, Tensor)):
                    raise TypeError(f"cannot assign '{_typename(value)}' as {what} '{name}' ({fitting} expected)")
                if own[registry][name] is not value:
                    self._register(registry, name, value)
                return
        before = own.get(name, _ABSENT)
        object.__setattr__(self, name, value)
        if before is not value:
            changed()

    def __delattr__(self, name: str) -> None:
        if not self._clear(name):
            object.__delattr__(self, name)
        changed()

    def _register(self, registry: str, name: str, value: Any) -> None:
        own = self.__dict__
        own[registry][name] = own[name] = value
        changed()

    def _clear(self, name: str, keep: str = "") -> bool:
        """Remove *name* from the registries; whether it was in one."""
        own = self.__dict__
        found = False
        for registry in _REGISTRIES:
            if registry != keep and name in own.get(registry, ()):
                del own[registry][name]
                found = True
        own.get("_non_persistent_buffers_set", set()).discard(name)
        if found or keep:
            own.pop(name, None)
        return found

    def _check_name(self, what: str, registry: str, name: Any) -> None:
        if registry not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_typename(name)}")
        if "." in name:
            got = f", got: {name}" if what == "module" else ""
            raise KeyError(f'{what} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None where there might be one."""
        self._check_name("parameter", "_parameters", name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._register("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is no parameter but part of the module's state: it moves with ``to()``, and unless
        *persistent* is False it is saved."""
        self._check_name("buffer", "_buffers", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)
        self._register("_buffers", name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child; ``self.name = module`` with a computed name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", "_modules", name)
        self._register("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of ``add_module``."""
        self.add_module(name, module)

    # ---- what it consists of -------------------------------------------------------------------------------------

    def _members(self, registry: str, prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        parts = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else iter([(prefix, self)])
        for path, module in parts:
            for name, value in list(getattr(module, registry).items()):
                if value is None or value in seen:
                    continue
                if once:
                    seen.add(value)
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Each parameter once; of the module alone, unless *recurse*."""
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) pairs."""
        return self._members("_parameters", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Each buffer once; of the module alone, unless *recurse*."""
        return (b for _, b in self.named_buffers(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer) pairs."""
        return self._members("_buffers", prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        return (m for _, m in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) pairs of the direct children, each once."""
        seen: set[Module] = set()
        for name, module in list(self._modules.items()):
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (m for _, m in self.named_modules())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """(dotted name, module) pairs: this module, then all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in list(self._modules.items()):
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def get_submodule(self, target: str) -> Module:
        """The module with this dotted name; this one for the empty name."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            found = getattr(module, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
            module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with this dotted name."""
        return self._get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with this dotted name."""
        return self._get_member(target, "_buffers", "a buffer")

    def _get_member(self, target: str, registry: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if module.__dict__[registry].get(name) is None:
            raise AttributeError(f"`{name}` is not {what}")
        return module.__dict__[registry][name]

    # ---- saving and loading --------------------------------------------------------------------------------------

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by dotted name, over the memory of the module's own."""
        return loading.save(self, destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> loading._IncompatibleKeys:
        """Copy the tensors of a ``state_dict``.

        :param strict: raise RuntimeError where names are missing or left over.
        :param assign: take over the given tensors instead of copying their values.
        """
        return loading.load(self, state_dict, strict, assign)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        loading.save_own(self, destination, prefix, keep_vars)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        assign = local_metadata.get("assign_to_params_buffers", False)
        loading.load_own(self, state_dict, prefix, assign, strict, missing_keys, unexpected_keys, error_msgs)

    # ---- modes and conversions -------------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Training mode for this module and all below it; dropout and batch normalisation look at it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """``train(False)``"""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Ask for gradients of all parameters, or stop asking."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters; with *set_to_none* False they become zeros."""
        for p in self.parameters():
            grad = p.grad
            if grad is None:
                continue
            if set_to_none:
                p.grad = None
            elif grad.requires_grad:
                p.grad = make(raw(grad) * 0)
            else:
                zero_(grad)

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """``fn(module)`` for each module below this one, then for this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self: Self, *args: Any, dtype: Any = None, device: Any = None, **options: Any) -> Self:
        """``to(dtype)``, ``to(device)`` or ``to(tensor)``: convert all floating-point tensors, or copy all tensors, in
        place."""
        for arg in args:
            if isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif isinstance(arg, np.dtype | type) or (isinstance(arg, str) and not arg.startswith(("cpu", "cuda"))):
                dtype = arg
            elif not isinstance(arg, bool):  # which would be non_blocking
                device = arg
        if device is not None:
            where = wanted(device)
            self._change(lambda array: create.placed(array, where))
        return self if dtype is None else self._convert(dtypes.as_dtype(dtype))

    def _convert(self: Self, dtype: Any) -> Self:
        if dtype.kind not in INEXACT_KINDS:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=tracegrad.{dtype}"
            )
        kinds = INEXACT_KINDS if dtype.kind == "c" else FLOAT_KINDS  # what is complex stays so
        self._change(lambda x: x.astype(dtype) if x.dtype.kind in kinds and x.dtype != dtype else x)
        return self

    def _change(self, change: Callable[[Any], Any]) -> None:
        """Replace the arrays of parameters, their gradients and buffers by what *change* makes of them: of all, before
        the first is replaced."""
        parameters = [p for module in self.modules() for p in module._parameters.values() if p is not None]
        buffers = [(m, n, b) for m in self.modules() for n, b in m._buffers.items() if b is not None]
        found = [
            (p, change(raw(p)), None if p.grad is None else change(raw(p.grad))) for p in dict.fromkeys(parameters)
        ]
        kept = {id(b): change(raw(b)) for _, _, b in buffers}
        for p, data, grad in found:
            if data is not raw(p):
                p.data = make(data)
            if p.grad is not None and grad is not raw(p.grad):
                p.grad = make(grad)
        for module, name, b in buffers:
            if kept[id(b)] is not raw(b):
                module._register("_buffers", name, make(kept[id(b)]))

    def float(self: Self) -> Self:
        """All floating-point tensors become float32."""
        return self._convert(dtypes.float32)

    def double(self: Self) -> Self:
        """All floating-point tensors become float64."""
        return self._convert(dtypes.float64)

    def half(self: Self) -> Self:
        """All floating-point tensors become float16."""
        return self._convert(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        """All floating-point tensors become bfloat16."""
        return self._convert(dtypes.bfloat16)

    def type(self: Self, dst_type: Any) -> Self:
        """All floating-point tensors get this dtype."""
        return self._convert(dtypes.as_dtype(dst_type))

    def cpu(self: Self) -> Self:
        """All parameters and buffers on the CPU."""
        return self.to("cpu")

    def cuda(self: Self, device: Any = None) -> Self:
        """All parameters and buffers on a CUDA device.  DeviceError, saying what is missing, where there is none."""
        return self.to("cuda" if device is None else device)

    # ---- printing ------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The text in the parentheses, to be defined by the subclass, where it is not the attributes in ``_shown``."""
        parts = []
        for name in self._shown:
            value = getattr(self, name.lstrip(":"))
            value = value is not None if name == "bias" else repr(value) if isinstance(value, str) else value
            parts.append(str(value) if name[0] == ":" else f"{name}={value}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        return framed(self._get_name(), lines, [f"({name}): {child!r}" for name, child in self._modules.items()])


def framed(name: str, extra: list[str], children: list[str]) -> str:
    """The repr of a module, with its children each on lines of their own."""
    if len(extra) == 1 and not children:
        return f"{name}({extra[0]})"
    lines = extra + [child.replace("\n", "\n  ") for child in children]
    return f"{name}(" + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"


def _typename(value: Any) -> str:
    return type(value).__name__
