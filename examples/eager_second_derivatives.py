"""Derivatives of derivatives: ``create_graph=True``, a Hessian-vector product, Newton's method with an exact Hessian.

Three parts: the first three derivatives of a function of one variable, against the formulas; the product of the Hessian
of a thousand variables with a vector, without the Hessian; Newton on Rosenbrock's valley.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import matplotlib
import numpy as np

import tracegrad as torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).resolve().parent / "out"


def wave(x):
    return torch.sin(3 * x) * torch.exp(-(x**2) / 2)


def exact(x):
    """The wave and three derivatives, from pencil and paper."""
    s, c, e = np.sin(3 * x), np.cos(3 * x), np.exp(-(x**2) / 2)
    second = (x**2 - 10) * s - 6 * x * c
    return e * s, e * (3 * c - x * s), e * second, e * ((30 * x - x**3) * s + (9 * x**2 - 36) * c)


def derivatives(x, order):
    """The wave and its derivatives at all points at once: each is a function of its own point alone."""
    found = [wave(x)]
    for _ in range(order):
        (slope,) = torch.autograd.grad(found[-1].sum(), x, create_graph=True)
        found.append(slope)
    return [each.detach() for each in found]


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def hessian_times(x, v):
    """H v as the gradient of g . v: two backward passes, and no matrix."""
    (g,) = torch.autograd.grad(rosenbrock(x), x, create_graph=True)
    (product,) = torch.autograd.grad(g @ v, x)
    return product


def exact_hessian_times(x, v):
    """The same by hand: the Hessian has three diagonals."""
    main = np.zeros_like(x)
    main[:-1] = 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
    main[1:] += 200
    side = -400 * x[:-1]
    result = main * v
    result[:-1] += side * v[1:]
    result[1:] += side * v[:-1]
    return result


def newton(start, tolerance=1e-12, most=50):
    """The points from *start* to where the gradient vanishes, and the norm of the gradient at each."""
    x = torch.tensor(start, requires_grad=True)
    path, norms = [], []
    for _ in range(most):
        loss = rosenbrock(x)
        (g,) = torch.autograd.grad(loss, x)
        path.append(x.tolist())
        norms.append(g.norm().item())
        if norms[-1] < tolerance:
            break
        hessian = torch.autograd.functional.hessian(rosenbrock, x)
        with torch.no_grad():
            x -= torch.tensor(np.linalg.solve(hessian.numpy(), g.numpy()))
    return np.array(path), np.array(norms)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer points and variables")
    parser.add_argument("--out", type=Path, default=OUT, help="where the picture goes (default: examples/out)")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    points = torch.linspace(-3, 3, 101 if options.quick else 601, requires_grad=True)
    found = [each.numpy() for each in derivatives(points, 3)]
    x = points.detach().numpy()
    wanted = exact(x)
    print(f"sin(3x) exp(-x²/2) at {len(x)} points, against the formulas:\n")
    errors = [float(np.max(np.abs(a - b))) for a, b in zip(found, wanted, strict=True)]
    for order, error in enumerate(errors):
        print(f"  derivative {order}: largest error {error:.1e}")

    size = 100 if options.quick else 1000
    at, v = torch.randn(size, requires_grad=True), torch.randn(size)
    product = hessian_times(at, v).numpy()
    by_hand = exact_hessian_times(at.detach().numpy(), v.numpy())
    _, library = torch.autograd.functional.hvp(rosenbrock, at, v)
    scale = np.max(np.abs(by_hand))
    product_error = max(float(np.max(np.abs(p - by_hand)) / scale) for p in (product, library.numpy()))
    print(f"\nRosenbrock's Hessian in {size} variables times a vector: relative error {product_error:.1e}")

    path, norms = newton([-1.2, 1.0])
    print("\nNewton from (-1.2, 1):\n")
    for step, (place, norm) in enumerate(zip(path, norms, strict=True)):
        print(f"  step {step}   x = ({place[0]: .12f}, {place[1]: .12f})   gradient {norm:.1e}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    names = ("f", "f'", "f''", "f'''")
    for name, mine, theirs, height in zip(names, found, wanted, (1, 1 / 3, 1 / 9, 1 / 27), strict=True):
        (line,) = left.plot(x, height * mine, label=f"{name} / {1 / height:.0f}" if height < 1 else name)
        left.plot(x[::12], height * theirs[::12], ".", color=line.get_color())
    left.set_xlabel("x")
    left.set_title("autograd (lines) and formulas (dots)")
    left.legend()
    across, up = np.meshgrid(np.linspace(-1.6, 1.6, 300), np.linspace(-4.0, 2.0, 300))
    valley = 100 * (up - across**2) ** 2 + (1 - across) ** 2
    right.contour(across, up, np.log10(valley + 1e-3), levels=20, cmap="viridis", linewidths=0.6)
    right.plot(*path.T, "k.-")
    right.plot(1, 1, "r*", markersize=12)
    right.set_title(f"Newton on Rosenbrock: {len(path) - 1} steps")
    figure.tight_layout()
    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "eager_second_derivatives.png"
    figure.savefig(picture, dpi=120)
    print(f"\n  picture: {os.path.relpath(picture)}\n")

    good = max(errors) < 1e-12 and product_error < 1e-12 and np.allclose(path[-1], 1.0, rtol=0, atol=1e-10)
    print("OK: the derivatives are the exact ones." if good else "FAILED: a derivative is off.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
