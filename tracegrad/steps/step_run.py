"""One run of a step as converted code: what it does with Python's objects is logged, what with tensors is captured.

Code of the user's, of modules and of optimizers is converted; functions and methods of tensors run as they are, under
the capture, which has their reads and writes.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..runtime.logged.attributes import found_in
from ..runtime.logged.run import LoggedRun
from ..runtime.record.kinds import EAGER, treat_as_eager
from ..tensors.node import TapeNode
from ..tensors.tensor import Tensor
from .step_reads import StepReads, is_converted
from .tensor_facts import held_facts

_LASTING = frozenset(
    """
    register_hook register_post_accumulate_grad_hook retain_grad share_memory_ apply_ map_ data_ptr __setstate__
""".split()
)  # methods that leave something in a tensor, run functions of the user's, or tell where it lies
_HOOKING = frozenset("register_hook register_prehook register_post_accumulate_grad_hook retain_grad".split())
_FACTS = frozenset(
    """
    shape dtype ndim device is_cuda requires_grad is_leaf grad data T mT H mH real imag itemsize nbytes
""".split()
)  # attributes that are values of their own, the capture's, or among the facts that recordings compare
_SETTINGS = frozenset("manual_seed seed set_default_dtype set_printoptions set_rng_state save load".split())

treat_as_eager(Tensor, Parameter)


class StepRun(LoggedRun):
    """One run of a step."""

    reads: StepReads
    capture: Any = None
    returns_texts = True

    def varies(self, found: Any, value: Any) -> bool:
        return super().varies(found, value) or (
            type(found) is type(value) is Tensor and held_facts(found) is not None and id(found) in self.reads.ids()
        )

    def is_fixed(self, module: Any) -> bool:
        return isinstance(module, str) and (module.startswith("tracegrad.") or module == "math")

    def handed(self, value: Any, callbacks: bool, depth: int = 0) -> Any:
        if type(value) is FunctionType and is_converted(value) and value.__closure__ is None:
            return value  # a rule of an optimizer's, over arrays
        return super().handed(value, callbacks, depth)

    # ---- tensors

    def of_tensor(self, t: Tensor, name: str) -> Any:
        if name in _LASTING and not (name in _HOOKING and self.capture.is_own(t)):  # which ends with the run
            raise self.refuse(f"`.{name}` of a tensor")
        if name in t.__dict__ and name not in Tensor.__annotations__ and not hasattr(Tensor, name):
            return self._own_attribute(t, name)
        if not hasattr(type(t), name):
            node = self.reads.node_of(t)
            if node is None:
                raise self.refuse(f"`.{name}` of a tensor, which is absent")
            self.reads.read(node, "noattr", name, None, f"{node.label}.{name}")
        found = getattr(t, name)
        if name == "grad_fn" and (found is None or self.capture.is_own(t)):
            return found
        if name not in _FACTS and not callable(found):
            raise self.refuse(f"`.{name}` of a tensor")
        return found

    def _own_attribute(self, t: Tensor, name: str) -> Any:
        """An attribute that the user has given to a tensor."""
        node = self.reads.node_of(t)
        if node is None:
            raise self.refuse(f"`.{name}`, an attribute of the user's of a tensor")
        return self.reads.read(node, "attr", name, t.__dict__[name], f"{node.label}.{name}")

    def method_of_tensor(self, t: Tensor, name: str, args: Any, kwargs: Any) -> Any:
        if name == "item" and not args and not kwargs:
            return t._tracegrad_item()
        return super().method_of_tensor(t, name, args, kwargs)

    # ---- assignments

    def sets(self, obj: Any, name: str, value: Any) -> bool:
        if isinstance(obj, Tensor):
            if name not in ("grad", "data") and not (name == "requires_grad" and self.capture.is_own(obj)):
                raise self.refuse(f"an assignment of `.{name}` of a tensor")
            setattr(obj, name, value)
            return True
        if not isinstance(obj, Module) or type(obj).__setattr__ is not Module.__setattr__:
            return False
        self._set_in_module(obj, name, value)
        return True

    def _set_in_module(self, module: Module, name: str, value: Any) -> None:
        node, own = self.reads.node_of(module), module.__dict__
        of_class = found_in(type(module), name)[1]
        member = name in own["_parameters"] or name in own["_modules"]
        if node is None or member or isinstance(value, Parameter | Module) or hasattr(type(of_class), "__set__"):
            raise self.refuse(f"an assignment of `.{name}` of a module")
        if name in own["_buffers"]:
            if not (value is None or isinstance(value, Tensor)):
                raise self.refuse(f"an assignment of `.{name}` of a module, a buffer")
            buffers = self.reads.read(node, "attr", "_buffers", own["_buffers"], f"{node.label}._buffers")
            self.set_key(buffers, name, value)
        self.write_name(module, name, value, f"{node.label}.{name}", self.reads.shown_in(node, "attr", name))

    # ---- calls

    def _keeps_flag(self, t: Tensor, requires_grad: Any = True) -> bool:
        """Whether a tensor requires gradients after ``requires_grad_`` as before, or is the run's own."""
        return self.capture.is_own(t) or (requires_grad is False and not t._requires)

    def _call_function(self, f: Any, args: Any, kwargs: Any) -> Any:
        inner = getattr(f, "__wrapped__", None)
        if inner is not None and f.__code__.co_filename.endswith("<for users>") and not self.reads.trust.owns(inner):
            return self._call_function(inner, args, kwargs)
        if f.__name__ in _HOOKING and isinstance(args[0], Tensor | TapeNode):
            return f(*args, **kwargs)  # the hook is called as the run calls functions
        if f.__name__ in _SETTINGS and self.reads.trust.owns(f):
            raise self.refuse(f"{f.__name__}()")
        if f.__name__ == "requires_grad_" and type(args[0]) in EAGER and not self._keeps_flag(*args, **kwargs):
            raise self.refuse("requires_grad_() of a tensor from outside")
        return super()._call_function(f, args, kwargs)
