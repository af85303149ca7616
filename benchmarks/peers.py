"""tracegrad and its peers behind one face.

Each peer gets its best spelling: inputs are converted before the clock starts, results stay in the peer's own
arrays, and what it can do once (jit, freeze, torch.compile) is done once.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from .peer import WARM_UP, Bind, NotSpelledError, Peer, Result
from .workload import Workload, leaves, map_leaves, rebind


class TraceGrad(Peer):
    name = "tracegrad"
    distributions = ("tracegrad", "numba", "llvmlite")

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        from tracegrad import compile_grad

        self.compile_grad = compile_grad

    def function(self, workload: Workload) -> Callable[..., Any]:
        return workload.fn  # itself: no copy as for the others

    def bind(self, workload: Workload) -> Bind:
        compiled = self.compile_grad(self.function(workload), argnums=workload.argnums)
        return lambda args: lambda: compiled.value_and_grad(*args)


class TraceGradExplicit(TraceGrad):
    """tracegrad where control flow is spelled out: ``scan``, ``fori_loop``, ``while_loop``, ``cond``."""

    name = "tracegrad-explicit"

    def spells(self, workload: Workload) -> bool:
        return self.name in {**workload.spellings, **workload.prepared} or workload is WARM_UP

    def function(self, workload: Workload) -> Callable[..., Any]:
        if not self.spells(workload):
            raise NotSpelledError("no loop that could be spelled out")
        return Peer.function(self, workload)


class Jax(Peer):
    """``jit(value_and_grad(f))`` on device arrays, float64 enabled, blocked until ready.

    With one thread, asynchronous dispatch only adds a switch between two threads on one core: it is off then,
    which is to JAX's advantage (a small call takes 39 instead of 64 µs).
    """

    name = "jax"
    distributions = ("jax", "jaxlib")

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import jax
        import jax.scipy.special

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_enable_async_dispatch", threads > 1)
        self.jax = jax

    def namespaces(self) -> dict[str, Any]:
        return {"np": self.jax.numpy, "special": self.jax.scipy.special}

    def bind(self, workload: Workload) -> Bind:
        jax = self.jax
        step = jax.jit(jax.value_and_grad(self.function(workload), argnums=workload.argnums))
        block = jax.block_until_ready

        def bound(args: tuple[Any, ...]) -> Callable[[], Any]:
            here = block(map_leaves(lambda leaf: jax.device_put(np.asarray(leaf)), args))
            return lambda: block(step(*here))

        return bound


class Torch(Peer):
    """Eager PyTorch: forward, then ``torch.autograd.grad``."""

    name = "torch"
    distributions = ("torch",)
    eager = True

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import torch

        torch.set_num_threads(threads)
        self.torch = torch

    def namespaces(self) -> dict[str, Any]:
        return {"np": self.torch, "special": self.torch.special}

    def loss(self, workload: Workload) -> Callable[..., Any]:
        return self.function(workload)

    def bind(self, workload: Workload) -> Bind:
        torch = self.torch
        loss, grad = self.loss(workload), torch.autograd.grad

        def bound(args: tuple[Any, ...]) -> Callable[[], Any]:
            here = map_leaves(lambda leaf: torch.as_tensor(np.asarray(leaf)).clone(), args)
            wanted = [leaf.requires_grad_() for leaf in _wanted(workload, here)]

            def call() -> Any:
                value = loss(*here)
                return value.detach(), grad(value, wanted)

            return call

        return bound


class TorchCompile(Torch):
    """PyTorch with ``torch.compile`` (needs a C++ compiler; first calls take seconds to minutes)."""

    name = "torch-compile"
    eager = False

    def function(self, workload: Workload) -> Callable[..., Any]:
        if "torch" in workload.spellings:
            maker = workload.spellings["torch"]
            if maker is not None:
                return maker()
        return rebind(workload.fn, **self.namespaces())

    def loss(self, workload: Workload) -> Callable[..., Any]:
        return self.torch.compile(self.function(workload), dynamic=False)


class Autograd(Peer):
    """HIPS autograd: a tape in Python over NumPy, nothing compiled."""

    name = "autograd"
    distributions = ("autograd",)
    eager = True

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import autograd
        import autograd.scipy.special

        self.autograd = autograd

    def namespaces(self) -> dict[str, Any]:
        return {"np": self.autograd.numpy, "special": self.autograd.scipy.special}

    def bind(self, workload: Workload) -> Bind:
        step = self.autograd.value_and_grad(self.function(workload), workload.argnums)
        return lambda args: lambda: step(*args)


def newest_llvm() -> str | None:
    """The newest LLVM library in the usual places: Dr.Jit works with old ones, but some abort on newer operations."""
    folders = ["/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/llvm-*/lib", "/opt/homebrew/opt/llvm/lib"]
    found: dict[tuple[int, ...], str] = {}
    for folder in folders:
        for path in glob.glob(f"{folder}/libLLVM*.so*") + glob.glob(f"{folder}/libLLVM*.dylib"):
            version = re.search(r"(\d+(?:\.\d+)*)", os.path.basename(path))
            if version:
                found.setdefault(tuple(int(part) for part in version.group(1).split(".")), path)
    return found[max(found)] if found else None


class DrJit(Peer):
    """Dr.Jit on its LLVM backend, the step under ``@dr.freeze``, results evaluated and synchronised."""

    name = "drjit"
    distributions = ("drjit",)
    aborts = True  # LLVM, on what it can't compile

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        library = newest_llvm()
        if library and "DRJIT_LIBLLVM_PATH" not in os.environ:
            os.environ["DRJIT_LIBLLVM_PATH"] = library
        import drjit
        import drjit.llvm.ad

        if not drjit.has_backend(drjit.JitBackend.LLVM):
            raise ImportError("Dr.Jit finds no LLVM library (install libLLVM or set DRJIT_LIBLLVM_PATH)")
        drjit.set_thread_count(threads if threads > 1 else 0)  # 0: the calling thread does the work
        self.dr, self.types = drjit, drjit.llvm.ad

    def namespaces(self) -> dict[str, Any]:
        return {"np": _DrNames(self.dr), "special": self.dr}

    def convert(self, leaf: Any, tensors: bool) -> Any:
        """One leaf as a Dr.Jit array, or as a tensor where the workload has matrices."""
        array, types = np.asarray(leaf), self.types
        letter = "i64" if array.dtype.kind == "i" else "f64" if array.dtype == np.float64 else "f"
        if tensors:
            return getattr(types, f"TensorX{letter}")(array)
        return {"i64": types.Int64, "f64": types.Float64, "f": types.Float}[letter](array)

    def bind(self, workload: Workload) -> Bind:
        dr = self.dr
        loss, positions = self.function(workload), workload.argtuple

        @dr.freeze
        def step(*args: Any) -> Any:
            fresh = list(args)
            for i in positions:
                fresh[i] = map_leaves(lambda leaf: type(leaf)(leaf), args[i])
            wanted = [leaf for i in positions for leaf in leaves(fresh[i])]
            dr.enable_grad(wanted)
            value = loss(*fresh)
            dr.backward(value)
            return dr.detach(value), [dr.grad(leaf) for leaf in wanted]

        def bound(inputs: tuple[Any, ...]) -> Callable[[], Any]:
            tensors = any(np.ndim(leaf) > 1 for leaf in leaves(inputs))
            args = map_leaves(lambda leaf: self.convert(leaf, tensors), inputs)
            dr.make_opaque(args)  # or a scalar would be a literal, and the whole function folded at record time
            dr.sync_thread()

            def call() -> Any:
                result = step(*args)
                dr.eval(result)
                dr.sync_thread()
                return result

            return call

        return bound

    def read(self, workload: Workload, result: Any) -> Result:
        value, gradients = result
        arrays = [
            np.array(g) if np.ndim(leaf) else np.array(g).reshape(())
            for g, leaf in zip(gradients, _wanted(workload, workload.make_args()), strict=True)
        ]
        return float(np.array(value).ravel()[0]), arrays


def _wanted(workload: Workload, args: tuple[Any, ...]) -> list[Any]:
    return [leaf for i in workload.argtuple for leaf in leaves(args[i])]


class _DrNames:
    """Dr.Jit's functions under NumPy's names."""

    def __init__(self, dr: Any) -> None:
        self._dr = dr
        self.arctan = dr.atan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dr, name)


class NumPy(Peer):
    """Value and gradient derived by hand, in NumPy: no automatic derivative at all. The reference of every check."""

    name = "numpy"
    distributions = ("numpy", "scipy")
    compiles = False

    def bind(self, workload: Workload) -> Bind:
        gradient = workload.hand_gradient
        if gradient is None:
            raise NotSpelledError("no hand-written gradient")
        return lambda args: lambda: gradient(*args)


class Numba(Peer):
    """The hand-written kernel, value and gradient in one pass: what there is to reach."""

    name = "numba"
    distributions = ("numba", "llvmlite")

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        import numba  # noqa: F401

    def spells(self, workload: Workload) -> bool:
        return workload.limit is not None or self.name in workload.prepared

    def bind(self, workload: Workload) -> Bind:
        if workload.limit is None:
            raise NotSpelledError("no hand-written kernel")
        kernel = workload.limit()
        return lambda args: lambda: kernel(*args)


PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (TraceGrad, TraceGradExplicit, Jax, Torch, TorchCompile, Autograd, DrJit, NumPy, Numba)
}
DEFAULT_PEERS = ["jax", "torch", "autograd", "drjit", "numpy"]
#: of control flow; the gradient by hand in plain Python loops is a reference there, no contender
LOOP_PEERS = ["tracegrad-explicit", "jax", "torch", "autograd"]
#: of derivatives other than a gradient, and of ADBench
DERIVATIVE_PEERS = ["jax"]


def available(names: list[str], threads: int) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that can be imported, and for the others the reason."""
    found: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            found[name] = PEERS[name](threads)
        except Exception as error:  # a broken installation is also only a missing peer
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return found, missing
