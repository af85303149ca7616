"""``Optimizer``: parameter groups, state, and saving both.

A *group* is a dict with the parameters it holds and its own hyperparameters, which are read in each step, so that
schedulers and users may change them at any time.  ``state[p]`` is a dict of tensors.  A step does not compute anything
itself: it collects rows (parameter, gradient, state) and hands them to ``fused_update`` with the rule of the optimizer.

Options that choose among PyTorch's implementations (``foreach``, ``fused``, ``capturable``) are kept in the groups and
have no effect here: every step is one fused launch.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from ..tensors import create
from ..tensors.modes import STATE, enable_grad
from ..tensors.node import RemovableHandle, registered
from ..tensors.tensor import METHODS, Tensor, changed, raw
from ..tracer.ir.aval import INEXACT_KINDS
from ..tracer.ir.site import warn_at_site
from ..tracer.ir.tracebacks import shortened
from .state import count_of, new_count, zeros_like

Params = Iterable[Any]
Group = dict[str, Any]


class _Required:
    """Marker for an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base of the optimizers.

    :param params: an iterable of tensors, of (name, tensor) pairs, or of groups (dicts with "params" and options).
    :param defaults: options of groups that do not set them.
    """

    _later: ClassVar[dict[str, Any]] = {}  # options that groups have got since states were first saved

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if defaults.get("differentiable"):
            raise NotImplementedError("differentiable=True: steps of optimizers are not recorded for differentiation")
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__name__}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def _prepare(self) -> None:
        self._pre_hooks: OrderedDict[int, Any] = OrderedDict()
        self._post_hooks: OrderedDict[int, Any] = OrderedDict()
        self._opt_called = False  # for schedulers, which ask whether a step came before theirs

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_pre_hooks" not in self.__dict__:
            self._prepare()
        self.__dict__.update(state)

        if self._later:
            self._fill_in()

    def _fill_in(self) -> None:
        """Update a loaded state of an older version: missing options of groups, and counts of steps."""
        for group in self.param_groups:
            for name, default in self._later.items():
                group.setdefault(name, default)
            for p in group["params"]:
                known = self.state.get(p)
                if known and "step" in known:
                    known["step"] = count_of(known["step"])

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join([f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"])
        return text + ")"

    # ---- groups ------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with "params", and options that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _unpacked(param_group["params"])
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len({id(p) for p in params}):
            warn_at_site(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if any(("param_names" in group) != ("param_names" in param_group) for group in self.param_groups):
            kind = "with names" if "param_names" in param_group else "without names"
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{kind} to the optimizer"
            )
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)
        changed()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        eager = STATE.capture is None
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    if eager:
                        p._grad = None
                    else:
                        p.grad = None
                    continue
                grad = p.grad
                if grad is not None:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()

    # ---- a step ------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients.

        :param closure: evaluates the model again and returns the loss, which is then returned.
        """
        raise NotImplementedError

    def _loss(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def _with_grads(self, group: Group) -> list[tuple[Tensor, ...]]:
        """(parameter, gradient) for those that have one."""
        if STATE.capture is None:
            return [(p, p._grad) for p in group["params"] if p._grad is not None]
        return [(p, grad) for p in group["params"] if (grad := p.grad) is not None]

    def _rows(self, group: Group, names: Sequence[str]) -> list[tuple[Tensor, ...]]:
        """(parameter, gradient, its state under each of these several *names*), made where there is none: a count and
        zeros."""
        rows, those = [], itemgetter(*names)
        for p, grad in self._with_grads(group):
            state = self.state[p]
            if not state:
                for name in names:
                    state[name] = new_count() if name == "step" else zeros_like(p)
            rows.append((p, grad, *those(state)))
        return rows

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(optimizer, args, kwargs)`` runs before each step and may return other (args, kwargs)."""
        return registered(self._pre_hooks, hook, False)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``hook(optimizer, args, kwargs)`` runs after each step."""
        return registered(self._post_hooks, hook, False)

    # ---- saving ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number of the parameter: its state}, "param_groups": [...]}``: the tensors are not copied."""
        numbers: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            start += len(group["params"])
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``; state is cast to the dtype of its parameter."""
        saved = deepcopy(state_dict["param_groups"])
        groups = self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        numbers = chain.from_iterable(g["params"] for g in saved)
        by_number = dict(zip(numbers, chain.from_iterable(g["params"] for g in groups), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for k, value in state_dict["state"].items():
            if k in by_number:
                state[by_number[k]] = _cast(by_number[k], value, None)
            else:
                state[k] = value
        for old, new in zip(groups, saved, strict=True):
            new["params"] = old["params"]
            if "param_names" in old:
                new.setdefault("param_names", old["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        changed()


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """*step* between its hooks."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        for hook in self._pre_hooks.values() if self._pre_hooks else ():
            found = hook(self, args, kwargs)
            if found is not None:
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {found}."
                    )
                args, kwargs = found
        out = step(self, *args, **kwargs)
        self._opt_called = True
        for hook in self._post_hooks.values() if self._post_hooks else ():
            hook(self, args, kwargs)
        return out

    return shortened(hooked)


class FusedOptimizer(Optimizer):
    """An optimizer that updates group by group."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients."""
        loss = self._loss(closure)
        for group in self.param_groups:
            self._update(group)
        return loss

    def _update(self, group: Group) -> None:
        """Update the parameters of *group* by ``fused_update``; settings that choose the program are its statics."""
        raise NotImplementedError


def _unpacked(params: Any) -> tuple[list[Any], list[str]]:
    """(tensors, their names or nothing) from the parameters given for a group."""
    if isinstance(params, Tensor):
        return [params], []
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    items = list(params)
    names = [item[0] for item in items if isinstance(item, tuple)]
    if names and len(names) != len(items):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [item[1] if isinstance(item, tuple) else item for item in items], names


def _cast(param: Tensor, value: Any, key: Any) -> Any:
    """State, Tensors or NumPy arrays, in the dtype of its parameter and on its device; counts of steps as they are."""
    if isinstance(value, np.ndarray | np.generic):
        value = create.tensor(value)
    if isinstance(value, Tensor):
        if key == "step":
            return value
        dtype = param.dtype if param.dtype.kind in INEXACT_KINDS else value.dtype
        return METHODS["to"](value, device=param.device, dtype=dtype)
    if isinstance(value, dict):
        return {k: _cast(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(param, v, None) for v in value])
    return value


def descended(p: Any, g: Any, weight_decay: Any, maximize: bool, decays: bool) -> Any:
    """The gradient that a step goes down, of the gradient *g* of the parameter *p*."""
    if maximize:
        g = np.negative(g)
    return g + weight_decay * p if decays else g


def options(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options among the *arguments* of a constructor (``locals()``), which groups get."""
    return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}


def check_option(name: str, value: Any, valid: bool) -> None:
    """Raise ``Invalid <name>: <value>`` unless *valid*."""
    if not valid:
        raise ValueError(f"Invalid {name}: {value}")


def check_not_negative(**options: float) -> None:
    for name, value in options.items():
        check_option(f"{name} value", value, value >= 0.0)


def check_learning_rate(lr: Any) -> None:
    if isinstance(lr, Tensor) and raw(lr).size != 1:
        raise ValueError("Tensor lr must be 1-element")
    check_option("learning rate", lr, bool(lr >= 0.0))


def check_flags(fused: Any, foreach: Any) -> None:
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
