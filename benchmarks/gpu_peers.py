"""tracegrad and its peers on a GPU.  A ``GpuPeer`` gives calls that may return before the device has done its work, and
``wait`` for it.  Creating one imports the library: whatever that raises is why it is left out."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .peer import NotSpelledError
from .workload import Workload, leaves, map_leaves, rebind

Call = Callable[[], Any]


class GpuPeer:
    name = ""
    distributions: tuple[str, ...] = ()

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        """Value and gradient of *workload*, whose arguments are copied to the device.  NotSpelledError: not here."""
        raise NotImplementedError

    def wait(self) -> None:
        raise NotImplementedError

    def to_numpy(self, result: Any) -> list[np.ndarray]:
        """The value, then the gradients' leaves."""
        value, gradients = result
        return [np.asarray(self.host(x)) for x in (value, *leaves(gradients))]

    def host(self, x: Any) -> Any:
        return x


class Ours(GpuPeer):
    name = "tracegrad"
    distributions = ("tracegrad", "numba-cuda", "cupy-cuda13x")

    def __init__(self) -> None:
        import cupy

        import tracegrad

        self.cupy, self.compile_grad = cupy, tracegrad.compile_grad
        self.device = tracegrad.cuda.get_device_name

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        f = self.compile_grad(workload.fn, argnums=workload.argnums, target="cuda")
        here = map_leaves(self.cupy.asarray, args)
        return lambda: f.value_and_grad(*here)

    def wait(self) -> None:
        self.cupy.cuda.get_current_stream().synchronize()

    def host(self, x: Any) -> Any:
        return x.cpu().numpy() if hasattr(x, "cpu") else x


class CuPy(GpuPeer):
    """The gradient derived by hand, operation by operation."""

    name = "cupy"
    distributions = ("cupy-cuda13x",)

    def __init__(self) -> None:
        self.cupy, self.special = (importlib.import_module(name) for name in ("cupy", "cupyx.scipy.special"))

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        if workload.hand_gradient is None:
            raise NotSpelledError("no gradient by hand")
        f = rebind(workload.hand_gradient, np=self.cupy, special=self.special)
        here = map_leaves(self.cupy.asarray, args)
        return lambda: f(*here)

    def wait(self) -> None:
        self.cupy.cuda.get_current_stream().synchronize()

    def host(self, x: Any) -> Any:
        return x.get()


class Torch(GpuPeer):
    name = "torch"
    distributions = ("torch",)

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("this PyTorch has no CUDA")
        self.torch = torch

    def loss(self, workload: Workload) -> Callable[..., Any]:
        made = workload.spellings.get("torch")
        return made() if made else rebind(workload.fn, np=self.torch, special=self.torch.special)

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        torch, loss = self.torch, self.loss(workload)
        here = map_leaves(lambda leaf: torch.as_tensor(leaf, device="cuda"), args)
        wanted = [leaf.requires_grad_() for k in workload.argtuple for leaf in leaves(here[k])]

        def call() -> Any:
            value = loss(*here)
            return value.detach(), torch.autograd.grad(value, wanted)

        return call

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def host(self, x: Any) -> Any:
        return x.cpu().numpy()


class TorchCompile(Torch):
    name = "torch-compile"

    def loss(self, workload: Workload) -> Callable[..., Any]:
        return self.torch.compile(super().loss(workload), dynamic=False)


class Jax(GpuPeer):
    name = "jax"
    distributions = ("jax", "jaxlib")

    def __init__(self) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory, too
        import jax
        import jax.scipy.special

        if jax.default_backend() != "gpu":
            raise ImportError("this JAX has no CUDA")
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_matmul_precision", "highest")  # its default for float32 is TF32
        self.jax, self.last = jax, None

    def prepare(self, workload: Workload, args: tuple[Any, ...]) -> Call:
        jax = self.jax
        loss = rebind(workload.fn, np=jax.numpy, special=jax.scipy.special)
        step = jax.jit(jax.value_and_grad(loss, argnums=workload.argnums))
        here = map_leaves(jax.device_put, args)

        def call() -> Any:
            self.last = step(*here)
            return self.last

        return call

    def wait(self) -> None:
        self.jax.block_until_ready(self.last)


PEERS: dict[str, type[GpuPeer]] = {peer.name: peer for peer in (Ours, Torch, TorchCompile, Jax, CuPy)}


def available(names: list[str]) -> tuple[dict[str, GpuPeer], dict[str, str]]:
    """The peers that are there, and why the others are not."""
    found: dict[str, GpuPeer] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            found[name] = PEERS[name]()
        except Exception as error:  # a broken installation is also only a missing peer
            missing[name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return found, missing
