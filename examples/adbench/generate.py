"""Problems for the four objectives, and the files in data/: ``python examples/adbench/generate.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
TEXT = """Shall I compare thee to a summer’s day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer’s lease hath all too short a date;
"""  # Shakespeare, sonnet 18


def gmm(n=100, d=2, k=5, seed=0):
    """(alphas, means, icf, x, gamma, m)."""
    rng = np.random.default_rng(seed)
    alphas, means, x = rng.standard_normal(k), rng.uniform(size=(k, d)), rng.standard_normal((n, d))
    return alphas, means, 0.5 * rng.standard_normal((k, d * (d + 1) // 2)), x, 1.0, 0


def lstm(layers=2, characters=128, seed=0, bits=None):
    """(main, extra, state) and the text; the states have as many numbers as its characters have *bits*, or more."""
    rng = np.random.default_rng(seed)
    text = (TEXT * (characters // len(TEXT) + 1))[:characters]
    bits = bits or int(np.ceil(np.log2(max(map(ord, text)))))
    return (
        rng.uniform(size=(2 * layers, 4 * bits)),
        rng.uniform(size=(3, bits)),
        rng.uniform(size=(2 * layers, bits)),
        text,
    )


def ba(cameras=4, points=12, per_point=3, seed=0):
    """(cameras, points, weights, observed, features): cameras before a cloud of points, each seen by some of them."""
    rng = np.random.default_rng(seed)
    table = np.zeros((cameras, 11))
    table[:, :3] = 0.2 * rng.standard_normal((cameras, 3))
    table[:, 3:6] = [0.0, 0.0, -6.0] + 0.3 * rng.standard_normal((cameras, 3))
    table[:, 6], table[:, 7:9], table[:, 9:] = 500.0, 250.0, 0.01 * rng.standard_normal((cameras, 2))
    cloud = rng.uniform(-1.0, 1.0, (points, 3))
    who = np.stack([rng.permutation(cameras)[:per_point] for _ in range(points)])
    observed = np.stack([who.ravel(), np.repeat(np.arange(points), per_point)], axis=1)
    weights = rng.uniform(0.5, 1.0, len(observed))
    return table, cloud, weights, observed, 250.0 + 80.0 * rng.standard_normal((len(observed), 2))


def hand_model(around=4, along=2, digits=None):
    """(parents, base_relatives, inverse_base_absolutes, positions, weights, triangles) of a hand of 22 bones, each with
    `along` + 1 rings of `around` vertices; the numbers of a file have few `digits`."""
    parents = [-1, 0]
    offsets = [[0.0, 0.0, 0.0], [0.0, 0.06, 0.0]]
    for finger in range(5):
        parents += [1] + [2 + 4 * finger + joint for joint in range(3)]
        offsets += [[0.02 * (finger - 2), 0.05 - 0.006 * abs(finger - 2), 0.0]]
        offsets += [[0.004 * (finger - 2), 0.03 - 0.004 * joint, 0.002] for joint in range(3)]
    relatives = np.tile(np.eye(4), (len(parents), 1, 1))
    relatives[:, :3, 3] = offsets
    for bone in range(2, len(parents)):  # bones are turned against their parents a little
        angle = 0.1 * np.sin(bone)
        relatives[bone, :2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    if digits is not None:
        relatives = relatives.round(digits)
    absolutes = []
    for bone, parent in enumerate(parents):
        absolutes.append(relatives[bone] if parent < 0 else absolutes[parent] @ relatives[bone])

    positions, weights, triangles = [], [], []
    turn = 2.0 * np.pi * np.arange(around) / around
    for bone, parent in enumerate(parents):
        first = len(positions)
        for ring in range(along + 1):
            share = 0.25 * (1.0 - ring / along) if parent >= 0 else 0.0  # of the parent
            for angle in turn:
                local = [0.008 * np.cos(angle), 0.025 * ring / along, 0.008 * np.sin(angle), 1.0]
                positions.append(absolutes[bone] @ local)
                row = np.zeros(len(parents))
                row[bone] = 1.0 - share
                if share:
                    row[parent] = share
                weights.append(row)
        for ring in range(along):
            for k in range(around):
                a, b = first + ring * around + k, first + ring * around + (k + 1) % around
                triangles += [[a, b, a + around], [b, b + around, a + around]]
    positions, inverses = np.array(positions), np.linalg.inv(absolutes)
    if digits is not None:
        positions, inverses = positions.round(digits), inverses.round(digits)
    return tuple(parents), relatives, inverses, positions, np.array(weights), np.array(triangles)


def hand(model, points=100, with_places=False, seed=0):
    """(unknowns, correspondences, points seen) for a model."""
    rng = np.random.default_rng(seed)
    theta = np.concatenate([[0.3, -0.2, 0.1], 0.05 * rng.standard_normal(3), 0.3 * rng.standard_normal(20)])
    vertices, triangles = model[3], model[5]
    which = rng.integers(len(triangles) if with_places else len(vertices), size=points)
    near = vertices[triangles[which][:, 0] if with_places else which, :3]
    places = rng.uniform(0.1, 0.4, 2 * points) if with_places else []
    return np.concatenate([places, theta]), which, near + 0.02 * rng.standard_normal((points, 3))


def _text(*rows):
    return "\n".join(" ".join(f"{x:.6g}" for x in np.atleast_1d(row)) for row in rows) + "\n"


def write():
    """The files in data/, in ADBench's formats."""
    (DATA / "hand_model").mkdir(parents=True, exist_ok=True)
    alphas, means, icf, x, gamma, m = gmm()
    head = f"{x.shape[1]} {len(alphas)} {len(x)}\n"
    (DATA / "gmm_d2_k5.txt").write_text(head + _text(*alphas, *means, *icf, *x, [gamma, m]))

    main, extra, state, text = lstm()
    head = f"{len(state) // 2} {len(text)} {state.shape[1]}\n\n"
    tables = "\n".join([_text(*main), _text(*extra), _text(*state)])
    (DATA / "lstm_l2_c128.txt").write_text(f"{head}{tables}\n{text}\n", encoding="utf-8")

    cameras, points, weights, observed, features = ba()
    one = _text(cameras[0], points[0], weights[0], features[0])
    (DATA / "ba_n4_m12_p36.txt").write_text(f"{len(cameras)} {len(points)} {len(observed)}\n{one}")

    model = hand_model(digits=5)
    parents, relatives, inverses, positions, weights, triangles = model
    rows = [
        ":".join([f"bone{k}", str(parents[k]), *(f"{x:.6g}" for x in (*relatives[k].ravel(), *inverses[k].ravel()))])
        for k in range(len(parents))
    ]
    (DATA / "hand_model" / "bones.txt").write_text("\n".join(rows) + "\n")
    rows = []
    for place, row in zip(positions, weights, strict=True):
        bones = np.flatnonzero(row)
        pairs = [f"{bone}:{row[bone]:.6g}" for bone in bones]
        rows.append(":".join([*(f"{x:.6g}" for x in place[:3]), "0:0:0:0:0", str(len(bones)), *pairs]))
    (DATA / "hand_model" / "vertices.txt").write_text("\n".join(rows) + "\n")
    (DATA / "hand_model" / "triangles.txt").write_text("\n".join(":".join(map(str, row)) for row in triangles) + "\n")
    for name, with_places in (("simple", False), ("complicated", True)):
        unknowns, which, seen = hand(model, 10, with_places)
        rows = [f"{k} " + " ".join(f"{x:.6g}" for x in point) for k, point in zip(which, seen, strict=True)]
        places, theta = unknowns[:-26].reshape(-1, 2), unknowns[-26:]
        text = (
            f"{len(seen)} {len(theta)}\n"
            + "\n".join(rows)
            + "\n"
            + (_text(*places) if with_places else "")
            + _text(*theta)
        )
        (DATA / f"hand_{name}_t26_c10.txt").write_text(text)


if __name__ == "__main__":
    write()
