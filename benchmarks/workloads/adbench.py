"""The objectives of ADBench (``examples/adbench``): two gradients, two dense Jacobians, a sparse one.

Hand tracking has 100 points. JAX's Jacobians are ``jacfwd``; it goes through the bones in the order of their depth, so
that there is no Python loop over them. Of bundle adjustment it makes the blocks of each observation, by ``vmap``, and
doesn't put them together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..peer import Peer, Prepared
from ..workload import Workload

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from adbench import ba, generate, gmm, hand, lstm

from . import adbench_limits

STEP = 1e-6

# ---- what is right: central differences of the plain function ----


def _slopes(plain: Callable[..., Any], args: tuple[Any, ...], argnums: tuple[int, ...]) -> np.ndarray:
    """The Jacobian's columns, by central differences along each number of the arguments."""
    columns = []
    for i in argnums:
        for k in range(args[i].size):
            ends = []
            for sign in (1.0, -1.0):
                moved = list(args)
                moved[i] = args[i].copy()
                moved[i].flat[k] += sign * STEP
                ends.append(plain(*moved))
            columns.append((ends[0] - ends[1]) / (2.0 * STEP))
    return np.stack(columns, axis=-1)


# ---- hand tracking ----


@cache
def _hand(with_places: bool, points: int = 100) -> tuple[hand.Model, tuple[Any, ...]]:
    model = generate.hand_model(8, 2)
    return hand.Model(*model), generate.hand(model, points, with_places)


def _hand_reference(with_places: bool) -> tuple[float, list[np.ndarray]]:
    model, (unknowns, which, seen) = _hand(with_places)
    plain = hand.complicated if with_places else hand.simple
    return 0.0, [_slopes(lambda x: plain(x, model, which, seen), (unknowns,), (0,))]


def _hand_tracegrad(with_places: bool) -> Callable[[Peer], Prepared]:
    def prepare(_: Peer) -> Prepared:
        from tracegrad import autograd

        model, (unknowns, which, seen) = _hand(with_places)
        plain = hand.complicated if with_places else hand.simple
        jacobian = autograd.jacobian(lambda x: plain(x, model, which, seen))
        return Prepared(lambda: jacobian(unknowns), lambda result: (0.0, [result]))

    return prepare


def _depths(parents: tuple[int, ...]) -> list[np.ndarray]:
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return [np.flatnonzero(np.array(depth) == d) for d in range(max(depth) + 1)]


def jax_hand(jax: Any, model: hand.Model, which: np.ndarray, seen: np.ndarray, with_places: bool) -> Callable[..., Any]:
    """The objective as a user of JAX writes it."""
    jnp = jax.numpy
    parents, levels = np.array(model.parents), _depths(model.parents)
    rows, columns, sources = [], [], []
    k = 6
    for finger in range(5):
        for joint in range(3):
            for axis in range(2 if joint == 0 else 1):
                rows.append(5 + 4 * finger + joint)
                columns.append(axis)
                sources.append(k)
                k += 1
    rows, columns, sources = np.array(rows), np.array(columns), np.array(sources)

    def rotation(angles: Any) -> Any:
        x, z, y = angles
        zero, one = jnp.zeros(()), jnp.ones(())
        sin, cos = jnp.sin, jnp.cos
        Rx = jnp.array([[one, zero, zero], [zero, cos(x), -sin(x)], [zero, sin(x), cos(x)]])
        Ry = jnp.array([[cos(y), zero, sin(y)], [zero, one, zero], [-sin(y), zero, cos(y)]])
        Rz = jnp.array([[cos(z), -sin(z), zero], [sin(z), cos(z), zero], [zero, zero, one]])
        return Rz @ Ry @ Rx

    def about_axis(axis: Any) -> Any:
        angle = jnp.sqrt(jnp.sum(axis**2))
        x, y, z = axis / angle
        s, c = jnp.sin(angle), jnp.cos(angle)
        turned = jnp.array(
            [
                [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
                [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
                [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
            ]
        )
        return jnp.where(angle < 1e-4, jnp.eye(3), turned)

    def objective(unknowns: Any) -> Any:
        n = len(seen)
        theta = unknowns[2 * n :] if with_places else unknowns
        pose = jnp.zeros((len(parents) + 3, 3)).at[0].set(theta[:3]).at[1].set(1.0).at[2].set(theta[3:6])
        pose = pose.at[rows, columns].set(theta[sources])
        turns = jnp.zeros((len(parents), 4, 4)).at[:, 3, 3].set(1.0).at[:, :3, :3].set(jax.vmap(rotation)(pose[3:]))
        relatives = jnp.asarray(model.base_relatives) @ turns
        absolutes = relatives
        for bones in levels[1:]:
            absolutes = absolutes.at[bones].set(absolutes[parents[bones]] @ relatives[bones])
        transforms = absolutes @ jnp.asarray(model.inverse_base_absolutes)
        moved = jnp.einsum("bij,vj,vb->vi", transforms[:, :3], model.positions, model.weights)
        vertices = moved @ (about_axis(pose[0]) * pose[1]).T + pose[2]
        if not with_places:
            return (seen - vertices[which]).ravel()
        us = unknowns[: 2 * n].reshape(n, 2)
        a, b, c = (vertices[corner] for corner in model.triangles[which].T)
        u, v = us[:, :1], us[:, 1:]
        return (seen - (u * a + v * b + (1.0 - u - v) * c)).ravel()

    return objective


def _hand_jax(with_places: bool) -> Callable[[Any], Prepared]:
    def prepare(peer: Any) -> Prepared:
        jax = peer.jax
        model, (unknowns, which, seen) = _hand(with_places)
        step = jax.jit(jax.jacfwd(jax_hand(jax, model, which, seen, with_places)))
        here, block = jax.device_put(unknowns), jax.block_until_ready
        return Prepared(lambda: block(step(here)), lambda result: (0.0, [np.asarray(result)]))

    return prepare


def _hand_row(name: str, with_places: bool) -> Workload:
    model, (unknowns, which, seen) = _hand(with_places)
    return Workload(
        name=f"hand_{name}",
        group="adbench",
        fn=hand.complicated if with_places else hand.simple,
        make_args=lambda: (unknowns, model, which, seen),
        expected=lambda: _hand_reference(with_places),
        prepared={"tracegrad": _hand_tracegrad(with_places), "jax": _hand_jax(with_places)},
        reasons={"jax": "jacfwd; bones level by level"},
    )


# ---- bundle adjustment ----


@cache
def _scene(cameras: int, points: int, per_point: int) -> tuple[Any, ...]:
    return generate.ba(cameras, points, per_point)


def _by_observation(result: Any) -> tuple[float, list[np.ndarray]]:
    """The blocks of a Jacobian's rows, for each observation: (p, 2, 11), (p, 2, 3), (p, 2) and (p,)."""
    return 0.0, [np.asarray(block) for block in result]


def _blocks_of_matrix(matrix: Any, n: int, m: int, observed: np.ndarray) -> tuple[float, list[np.ndarray]]:
    """The same of a sparse matrix."""
    p = len(observed)
    csr, at = matrix.tocsr(), np.arange(p)

    def values(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        rows, columns = np.broadcast_arrays(rows, columns)
        return np.asarray(csr[rows.ravel(), columns.ravel()]).reshape(rows.shape)

    rows = 2 * at[:, None, None] + np.arange(2)[None, :, None]
    cameras = values(rows, 11 * observed[:, 0][:, None, None] + np.arange(11))
    points = values(rows, 11 * n + 3 * observed[:, 1][:, None, None] + np.arange(3))
    weights = 11 * n + 3 * m + at
    return 0.0, [cameras, points, values(rows[:, :, 0], weights[:, None]), values(2 * p + at, weights)]


def _scene_reference(scene: tuple[Any, ...]) -> tuple[float, list[np.ndarray]]:
    """One number of every camera, point and weight at a time: each observation is of one of each."""
    cameras, points, weights, observed, features = scene
    p = len(observed)

    def rows(which: int, column: int) -> np.ndarray:
        ends = []
        for sign in (1.0, -1.0):
            moved = [cameras.copy(), points.copy(), weights.copy()]
            moved[which].reshape(len(moved[which]), -1)[:, column] += sign * STEP
            ends.append(ba.residuals(*moved, observed, features))
        return (ends[0] - ends[1]) / (2.0 * STEP)

    def block(which: int, columns: int) -> np.ndarray:
        return np.stack([rows(which, k)[: 2 * p].reshape(p, 2) for k in range(columns)], axis=-1)

    return 0.0, [block(0, 11), block(1, 3), block(2, 1)[..., 0], -2.0 * weights]


def _scene_tracegrad(scene: tuple[Any, ...]) -> Callable[[Peer], Prepared]:
    def prepare(_: Peer) -> Prepared:
        from tracegrad import autograd

        cameras, points, weights, observed, features = scene
        n, m = len(cameras), len(points)
        unknowns = np.concatenate([cameras.ravel(), points.ravel(), weights])
        jacobian = autograd.sparse_jacobian(lambda x: ba.of_unknowns(x, n, m, observed, features))
        return Prepared(lambda: jacobian(unknowns), lambda result: _blocks_of_matrix(result, n, m, observed))

    return prepare


def _scene_jax(scene: tuple[Any, ...]) -> Callable[[Any], Prepared]:
    def prepare(peer: Any) -> Prepared:
        jax = peer.jax
        jnp = jax.numpy

        def rotated(axis: Any, x: Any) -> Any:
            square = jnp.sum(axis**2)
            angle = jnp.sqrt(jnp.where(square > 0.0, square, 1.0))
            w = axis / angle
            c, s = jnp.cos(angle), jnp.sin(angle)
            turned = x * c + jnp.cross(w, x) * s + w * (jnp.dot(w, x) * (1.0 - c))
            return jnp.where(square > 0.0, turned, x + jnp.cross(axis, x))

        def error(camera: Any, x: Any, weight: Any, feature: Any) -> Any:
            seen = rotated(camera[:3], x - camera[3:6])
            place = seen[:2] / seen[2]
            square = jnp.sum(place**2)
            distortion = 1.0 + camera[9] * square + camera[10] * square**2
            return weight * (place * distortion * camera[6] + camera[7:9] - feature)

        blocks = jax.vmap(jax.jacrev(error, argnums=(0, 1, 2)))  # two rows: the reverse mode is the cheaper one

        def step(cameras: Any, points: Any, weights: Any, observed: Any, features: Any) -> Any:
            made = blocks(cameras[observed[:, 0]], points[observed[:, 1]], weights, features)
            return *made, -2.0 * weights

        compiled, block = jax.jit(step), jax.block_until_ready
        here = [jax.device_put(array) for array in scene]
        return Prepared(lambda: block(compiled(*here)), _by_observation)

    return prepare


def _scene_row(name: str, *sizes: int) -> Workload:
    return Workload(
        name=f"ba_{name}",
        group="adbench",
        fn=ba.residuals,
        make_args=lambda: _scene(*sizes),
        tolerance=1e-5,
        expected=lambda: _scene_reference(_scene(*sizes)),
        prepared={
            "tracegrad": lambda peer: _scene_tracegrad(_scene(*sizes))(peer),
            "jax": lambda peer: _scene_jax(_scene(*sizes))(peer),
        },
        reasons={"jax": "vmap of jacrev: blocks, not a matrix", "tracegrad": "sparse_jacobian: a matrix"},
    )


# ---- mixture and language model: gradients ----


def _jax_gmm() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from scipy.special import multigammaln

    def objective(alphas: Any, means: Any, icf: Any, x: Any, gamma: Any, m: Any) -> Any:
        (n, d), k = x.shape, len(alphas)
        diagonals, sums = jnp.exp(icf[:, :d]), jnp.sum(icf[:, :d], axis=1)
        columns, rows = np.triu_indices(d, 1)
        factors = jnp.zeros((k, d, d)).at[:, rows, columns].set(icf[:, d:])
        factors = factors.at[:, np.arange(d), np.arange(d)].set(diagonals)
        scaled = jnp.einsum("kij,nkj->nki", factors, x[:, None, :] - means)
        inner = alphas + sums - 0.5 * jnp.sum(scaled**2, axis=2)
        lse = jax.scipy.special.logsumexp
        likelihood = jnp.sum(lse(inner, axis=1)) - n * lse(alphas) - 0.5 * n * d * jnp.log(2.0 * jnp.pi)
        freedom = d + 1  # m is 0 here
        squares = jnp.sum(diagonals**2) + jnp.sum(icf[:, d:] ** 2)
        constant = freedom * d * (jnp.log(gamma) - 0.5 * jnp.log(2.0)) - multigammaln(0.5 * freedom, d)
        return likelihood + 0.5 * gamma**2 * squares - m * jnp.sum(sums) - k * constant

    return objective


def _jax_lstm() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def objective(main: Any, extra: Any, state: Any, text: Any) -> Any:
        def step(state: Any, pair: Any) -> Any:
            x, following = pair
            x, after = x * extra[0], []
            for layer in range(0, len(state), 2):
                gates = jnp.concatenate((x, state[layer], x, state[layer])) * main[layer] + main[layer + 1]
                forget, ingate, outgate, change = jnp.split(gates, 4)
                cell = state[layer + 1] * jax.nn.sigmoid(forget) + jax.nn.sigmoid(ingate) * jnp.tanh(change)
                x = jax.nn.sigmoid(outgate) * jnp.tanh(cell)
                after += [x, cell]
            logits = x * extra[1] + extra[2]
            return jnp.stack(after), jnp.sum(following * (logits - jnp.log(jnp.sum(jnp.exp(logits)) + 2.0)))

        _, gains = jax.lax.scan(step, state, (text[:-1], text[1:]))
        return -jnp.sum(gains) / text[1:].size

    return objective


def _gradient_reference(plain: Callable[..., Any], args: tuple[Any, ...], argnums: tuple[int, ...]) -> Any:
    slopes = _slopes(lambda *args: np.asarray(plain(*args)), args, argnums)
    ends = np.cumsum([args[i].size for i in argnums])[:-1]
    parts = np.split(slopes, ends)
    return float(plain(*args)), [part.reshape(args[i].shape) for part, i in zip(parts, argnums, strict=True)]


def _gradient_row(
    name: str, module: Any, args: Callable[[], tuple[Any, ...]], count: int, jax: Any, limit: Any = None
) -> Workload:
    argnums = tuple(range(count))
    return Workload(
        name=name,
        group="adbench",
        fn=module.objective,
        make_args=args,
        argnums=argnums,
        tolerance=1e-5,
        expected=lambda: _gradient_reference(module.objective, args(), argnums),
        limit=limit,
        spellings={"jax": jax, "autograd": None, "torch": None, "drjit": None},
    )


def _text(characters: int, bits: int | None = None) -> tuple[Any, ...]:
    *parameters, text = generate.lstm(2, characters, bits=bits)
    bits = parameters[1].shape[1]
    numbers = np.array([ord(character) for character in text])
    return *parameters, (numbers[:, None] >> np.arange(bits)[::-1] & 1).astype(float)


WORKLOADS = [
    _gradient_row("adbench_gmm_1k_d10_K25", gmm, lambda: generate.gmm(1_000, 10, 25), 3, _jax_gmm),
    _gradient_row("adbench_lstm_l2_c1024", lstm, lambda: _text(1_024), 2, _jax_lstm),
    _gradient_row("adbench_lstm_l2_c128_14_bits", lstm, lambda: _text(128, 14), 2, _jax_lstm, adbench_limits.lstm),
    _hand_row("simple_100", False),
    _hand_row("complicated_100", True),
    _scene_row("n100_m10000_p40000", 100, 10_000, 4),
    _scene_row("n100_m10000_p80000", 100, 10_000, 8),
]
