"""The programs of tests/science: a cached call of value and gradient beside the forward pass in NumPy, HIPS autograd
and JAX.

The programs are taken as they are.  HIPS autograd and JAX run a copy of the module that imports their NumPy, and are
left out where they can't; JAX has other spellings for those that it can run only so (``JAX``).
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib
import re
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import report
from .timing import seconds_of, settle

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "science"
PEERS = ("NumPy, forward", "tracegrad, value", "tracegrad", "JAX", "HIPS autograd")
ROUNDS, BATCH = 7, 0.1  # seconds


def _examples() -> dict[str, Callable[[types.ModuleType], tuple[Callable[..., Any], tuple[Any, ...]]]]:
    """For each row: the function and its arguments, made in a module's own NumPy."""
    return {
        "gaussian_process, 200 points": lambda m: (m.example(200).nlml, (np.array([0.1, 0.3, 0.2, -1.0]),)),
        "kalman, 500 steps": lambda m: (
            m.negative_log_likelihood, (np.array([-1.0, -0.5]), m.measurements(500)[0])
        ),
        "nbody, 4 bodies, 200 steps": lambda m: (m.misfit, _orbits(m, 4, 200)),
        "sabr, 11 strikes": lambda m: (m.objective, (np.array([-3.0, 0.0, -1.0]), *m.smile())),
        "hmc, 100 Metropolis steps": lambda m: (m.random_walk, _walk(m, 100)),
        "bundle_adjustment, 3 x 100 points": lambda m: (m.cost, _scene(m)),
        "inverse_kinematics, a pose": lambda m: (m.pose_cost, _pose(m)),
        "inverse_kinematics, manipulability": lambda m: (m.manipulability, (np.full(6, 0.4), m.six_axes())),
        "renderer, 48 x 32": lambda m: (m.loss, (*m.scene(), np.full((32, 48, 3), 0.4))),
    }  # fmt: skip


def _orbits(m: Any, bodies: int, steps: int) -> tuple[Any, ...]:
    mass, pos, vel = m.cluster(bodies)
    rng = np.random.default_rng(0)
    return 1.1 * mass, pos, vel, pos + 0.1 * rng.normal(size=(steps + 1, bodies, 3))


def _walk(m: Any, steps: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    return 0.2, m.data(), steps, rng.normal(size=(steps, 3)), np.log(rng.uniform(size=steps))


def _scene(m: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    cameras = np.tile([0.1, 0.2, 0.1, 0.0, 0.0, -5.0, 10.0, -0.1, 0.01], (3, 1))
    points = rng.uniform(-1, 1, (100, 3))
    cameras[:, :3] += 0.1 * rng.normal(size=(3, 3))
    indices = np.repeat(np.arange(3), 100), np.tile(np.arange(100), 3)
    return np.hstack([cameras.ravel(), points.ravel()]), 3, 100, *indices, rng.normal(size=(300, 2))


def _pose(m: Any) -> tuple[Any, ...]:
    arm = m.six_axes()
    return np.array([0.1, 0.2, -0.3, 0.4, 0.5, 0.6]), arm, arm.forward(np.full(6, 0.3))


# ---- JAX's own spellings: no item is assigned, loops are lax.scan ----------------------------------------------------


def _gaussian_process(jax: Any, gp: Any) -> Callable[..., Any]:
    jnp = jax.numpy
    X, y = jnp.asarray(gp.X), jnp.asarray(gp.y)

    def nlml(theta: Any) -> Any:
        A = X / jnp.exp(theta[:-2])
        squares = jnp.sum(A**2, 1)
        K = jnp.exp(2 * theta[-2]) * jnp.exp(-0.5 * (squares[:, None] + squares - 2 * A @ A.T))
        L = jnp.linalg.cholesky(K + (jnp.exp(2 * theta[-1]) + gp.jitter) * jnp.eye(len(y)))
        alpha = jax.scipy.linalg.cho_solve((L, True), y)
        return 0.5 * y @ alpha + jnp.log(jnp.diag(L)).sum() + 0.5 * len(y) * jnp.log(2 * jnp.pi)

    return nlml


def _kalman(jax: Any) -> Callable[..., Any]:
    jnp = jax.numpy

    def negative_log_likelihood(theta: Any, zs: Any, dt: float = 0.1) -> Any:
        q, r = jnp.exp(theta)
        F = jnp.kron(jnp.eye(2), jnp.array([[1.0, dt], [0.0, 1.0]]))
        H = jnp.array([[1.0, 0, 0, 0], [0, 0, 1, 0]])
        Q = q * jnp.kron(jnp.eye(2), jnp.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]]))
        R = r**2 * jnp.eye(2)

        def step(carry: Any, z: Any) -> Any:
            x, P, total = carry
            x, P = F @ x, F @ P @ F.T + Q
            y, S = z - H @ x, R + H @ P @ H.T
            inverse = jnp.linalg.inv(S)
            K = P @ H.T @ inverse
            total += -0.5 * (jnp.linalg.slogdet(S)[1] + y @ inverse @ y + 2 * jnp.log(2 * jnp.pi))
            return (x + K @ y, (jnp.eye(4) - K @ H) @ P, total), None

        x0 = jnp.array([zs[0, 0], 0.0, zs[0, 1], 0.0])
        return -jax.lax.scan(step, (x0, jnp.diag(jnp.array([1.0, 10.0, 1.0, 10.0])), 0.0), zs)[0][2]

    return negative_log_likelihood


def _nbody(jax: Any) -> Callable[..., Any]:
    jnp = jax.numpy
    G = 6.674e-2

    def energy(pos: Any, vel: Any, mass: Any) -> Any:
        d = pos[:, None] - pos
        r = jnp.sqrt(jnp.sum(d**2, axis=2) + jnp.eye(len(mass)))
        return 0.5 * jnp.sum(mass[:, None] * vel**2) - G * jnp.sum(jnp.triu(mass * mass[:, None] / r, 1))

    def misfit(mass: Any, pos: Any, vel: Any, observed: Any, dt: float = 0.01) -> Any:
        def pull(pos: Any) -> Any:
            d = pos - pos[:, None]
            return G * jnp.sum(mass[None, :, None] * (jnp.sum(d**2, axis=2) + 0.01)[..., None] ** -1.5 * d, axis=1)

        def step(carry: Any, seen: Any) -> Any:
            pos, vel, acc = carry
            vel = vel + acc * dt / 2
            pos = pos + vel * dt
            acc = pull(pos)
            return (pos, vel + acc * dt / 2, acc), jnp.sum((pos - seen) ** 2)

        vel = vel - jnp.mean(mass[:, None] * vel, axis=0) / jnp.mean(mass)
        (last, speed, _), squares = jax.lax.scan(step, (pos, vel, pull(pos)), observed[1:])
        before, after = energy(pos, vel, mass), energy(last, speed, mass)
        return (jnp.sum((pos - observed[0]) ** 2) + jnp.sum(squares)) / observed.size + ((after - before) / before) ** 2

    return misfit


def _sabr(jax: Any) -> Callable[..., Any]:
    jnp = jax.numpy

    def objective(x: Any, k: Any, vols: Any, f: float = 0.03, t: float = 2.0, beta: float = 0.5) -> Any:
        alpha, rho, volvol = jnp.exp(x[0]), jnp.tanh(x[1]), jnp.exp(x[2])
        logfk, fkbeta = jnp.log(f / k), (f * k) ** (1 - beta)
        a = (1 - beta) ** 2 * alpha**2 / (24 * fkbeta)
        b = 0.25 * rho * beta * volvol * alpha / jnp.sqrt(fkbeta)
        c = (2 - 3 * rho**2) * volvol**2 / 24
        lower = jnp.sqrt(fkbeta) * (1 + (1 - beta) ** 2 * logfk**2 / 24 + (1 - beta) ** 4 * logfk**4 / 1920)
        z = volvol * jnp.sqrt(fkbeta) * logfk / alpha
        near = jnp.abs(z) <= 1e-7
        safe = jnp.where(near, 1.0, z)
        x_of_z = jnp.log((jnp.sqrt(1 - 2 * rho * safe + safe**2) + safe - rho) / (1 - rho))
        vol = alpha * (1 + (a + b + c) * t) / lower * jnp.where(near, 1.0, safe / x_of_z)
        return 1e4 * jnp.sum(jnp.exp(-(logfk**2)) * (vol - vols) ** 2)

    return objective


def _walk_by_scan(jax: Any, model: Any) -> Callable[..., Any]:
    jnp = jax.numpy
    X, y = jnp.asarray(model.X), jnp.asarray(model.y)

    def random_walk(scale: Any, normals: Any, log_uniforms: Any) -> Any:
        def potential(w: Any) -> Any:
            logits = X @ w
            return jnp.sum(jnp.logaddexp(0, logits) - y * logits) + 0.5 * w @ w

        def step(carry: Any, drawn: Any) -> Any:
            w, energy = carry
            proposal = w + scale * drawn[0]
            new = potential(proposal)
            accepted = drawn[1] < energy - new
            w, energy = jnp.where(accepted, proposal, w), jnp.where(accepted, new, energy)
            return (w, energy), w

        w = jnp.zeros(normals.shape[1])
        return jnp.mean(jax.lax.scan(step, (w, potential(w)), (normals, log_uniforms))[1] ** 2)

    return random_walk


def _in_jax(row: str, plain: Any, args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The row as JAX can run it, or None where it is tried as it is."""
    import jax

    if row.startswith("gaussian"):
        return _gaussian_process(jax, plain.__self__), args
    if row.startswith("kalman"):
        return _kalman(jax), args
    if row.startswith("nbody"):
        return _nbody(jax), args
    if row.startswith("sabr"):
        return _sabr(jax), args
    if row.startswith("hmc"):
        return _walk_by_scan(jax, args[1]), (args[0], *args[3:])
    return None


# ---- peers -----------------------------------------------------------------------------------------------------------


def _module(row: str, numpy: str = "numpy") -> types.ModuleType:
    """The program's module, with another library in NumPy's place."""
    name = row.partition(",")[0]
    if numpy == "numpy":
        return importlib.import_module(name)
    text = (PROGRAMS / f"{name}.py").read_text()
    text = re.sub(r"^import numpy as np$", f"import {numpy} as np", text, flags=re.MULTILINE)
    text = re.sub(r"^from numpy\b", f"from {numpy}", text, flags=re.MULTILINE)
    module = types.ModuleType(f"{name}_in_{numpy.partition('.')[0]}")
    sys.modules[module.__name__] = module
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def _call(row: str, peer: str) -> Callable[[], Any]:
    """The timed call of a peer; the first calls of it have been made."""
    make = _examples()[row]
    plain, args = make(_module(row))
    if peer == "NumPy, forward":
        return lambda: plain(*args)
    if peer.startswith("tracegrad"):
        from tracegrad import compile_grad

        compiled = compile_grad(plain)
        run = compiled if peer.endswith("value") else compiled.value_and_grad
        return lambda: run(*args)
    if peer == "JAX":
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        fn, args = _in_jax(row, plain, args) or make(_module(row, "jax.numpy"))
        fixed = [k for k, x in enumerate(args) if not isinstance(x, np.ndarray | float)]
        step = jax.jit(jax.value_and_grad(fn), static_argnums=fixed)
        here = [x if k in fixed else jax.device_put(x) for k, x in enumerate(args)]
        return lambda: jax.block_until_ready(step(*here))
    import autograd

    fn, args = make(_module(row, "autograd.numpy"))
    step = autograd.value_and_grad(fn)
    return lambda: step(*args)


def measure(row: str) -> dict[str, tuple[float, float] | str]:
    """For each peer (median seconds of a call, of the first one), or why it is left out."""
    calls: dict[str, Callable[[], Any]] = {}
    found: dict[str, tuple[float, float] | str] = {}
    firsts, reference = {}, None
    for peer in PEERS:
        try:
            begin = time.perf_counter()
            call = _call(row, peer)
            result = call()
            firsts[peer] = time.perf_counter() - begin
            for _ in range(3):
                result = call()
        except Exception as error:
            found[peer] = f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
            continue
        if peer == "tracegrad":
            reference = result
        elif reference is not None:
            np.testing.assert_allclose(float(result[0]), float(reference[0]), rtol=1e-6, err_msg=f"{row}: {peer}")
            np.testing.assert_allclose(result[1], reference[1], rtol=1e-5, atol=1e-9, err_msg=f"{row}: {peer}")
        calls[peer] = call
    for call in calls.values():
        settle(call)
    counts = {peer: max(1, int(BATCH / max(seconds_of(call, 1), 1e-7))) for peer, call in calls.items()}
    samples: dict[str, list[float]] = {peer: [] for peer in calls}
    for _ in range(ROUNDS):
        for peer, call in calls.items():
            gc.collect()
            samples[peer].append(seconds_of(call, counts[peer]))
    return found | {peer: (statistics.median(times), firsts[peer]) for peer, times in samples.items()}


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    sys.path.insert(0, str(PROGRAMS))
    known = report.versions("numpy", "tracegrad", "numba", "jax", "autograd")
    print(f"{datetime.date.today()}, {report.cpu_name()}, {known}\n")
    print(f"| value and gradient | {' | '.join(PEERS)} | first call: tracegrad | JAX |")
    print(f"| --- |{' ---: |' * (len(PEERS) + 2)}", flush=True)
    wanted = [word for word in options.only.split(",") if word]
    reasons = []
    for row in _examples():
        if wanted and not any(row.startswith(word) for word in wanted):
            continue
        found = measure(row)
        cells = [report.duration(found[p][0]) if isinstance(found[p], tuple) else "–" for p in PEERS]  # type: ignore[arg-type]
        firsts = [report.duration(f[1]) if isinstance(f := found[p], tuple) else "–" for p in ("tracegrad", "JAX")]
        print(f"| {row} | {' | '.join([*cells, *firsts])} |", flush=True)
        reasons += [f"- {row}, {peer}: {why}" for peer, why in found.items() if isinstance(why, str)]
    print("\n".join(["", *reasons]))
    return 0
