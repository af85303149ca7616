"""Mistakes of beginners, and what they are told: ``docs/errors.md`` is made from it (``docs/make_errors.py``).

Each is a program of a few lines in a file of its own, the error that it raises (by name), and words of the message:
what was found, or what to write instead.
"""

from __future__ import annotations

import linecache
import textwrap
from typing import Any, NamedTuple

FILE = "yours.py"
BEFORE = """
import math
import numpy as np
import scipy
import tracegrad
from tracegrad import autograd, compile_grad

x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
"""


class Mistake(NamedTuple):
    """``line`` is that of the program which the message names, where it names one."""

    title: str
    code: str
    error: str
    words: tuple[str, ...]
    line: int = 0


def _of(title: str, code: str, error: str, *words: str, line: int = 0) -> Mistake:
    return Mistake(title, textwrap.dedent(code).strip("\n"), error, words, line)


GROUPS: dict[str, list[Mistake]] = {
    "Arguments": [
        _of("Integers have no gradient", "compile_grad(lambda w: np.sum(w**2)).grad(np.array([1, 2, 3]))",
            "DifferentiationError", "`w`, an array of int64", "x.astype(float)", line=1),
        _of("Nor has a Python int in a list", "compile_grad(lambda w: np.sum(np.asarray(w) ** 2)).grad([1, 2, 3])",
            "DifferentiationError", "`w[0]`, int 1", "pass 1.0", line=1),
        _of("A text", "compile_grad(lambda w: np.sum(w**2)).grad('1, 2, 3')",
            "DifferentiationError", "`w`, str '1, 2, 3'", "a float array", line=1),
        _of("An array of Python objects", "compile_grad(lambda w: np.sum(w**2)).grad(np.array([1.0, None, 3.0]))",
            "UnsupportedError", "dtype object", "dtype=float", line=1),
        _of("No argument there: argnums counts positions", "compile_grad(lambda w: np.sum(w**2), argnums=1).grad(x)",
            "DifferentiationError", "argnums=1: the call has 1 positional argument", line=1),
        _of("argnums by name", "compile_grad(lambda w: np.sum(w**2), argnums='w')",
            "TypeError", "argnums is a position", "not 'w'"),
        _of("An argument is missing", "compile_grad(lambda w, y: np.sum(w * y)).grad(x)",
            "TypeError", "missing 1 required positional argument: 'y'"),
        _of("grad of a value, not of a function", """
            def loss(w):
                return np.sum(w**2)

            autograd.grad(loss(x))
            """, "TypeError", "got float64", "write grad(f)(x), not grad(f(x))"),
        _of("A number in place of a function", "compile_grad(3.0)", "TypeError", "needs a function, not float"),
        _of("A class in place of a function", """
            @compile_grad
            class Model:
                def loss(self, w):
                    return np.sum(w**2)
            """, "TypeError", "needs a function, not the class Model", "its methods can be decorated"),
        _of("A class whose objects are called", """
            class Model:
                def __call__(self, w):
                    return np.sum(w**2)

            autograd.grad(Model)
            """, "TypeError", "grad needs a function, not the class Model", "pass an object of it, Model(...)"),
        _of("static_argnums", """
            def loss(w, n):
                return np.sum(w**n)

            compile_grad(loss, static_argnums=1)
            """, "TypeError", "compile_grad has no argument `static_argnums`", "static_argnames=('n',)"),
        _of("argnum", "autograd.value_and_grad(lambda w: np.sum(w**2), argnum=0)",
            "TypeError", "value_and_grad has no argument `argnum`", "write argnums=0"),
        _of("f.gradient", "compile_grad(lambda w: np.sum(w**2)).gradient(x)",
            "AttributeError", "no attribute 'gradient'", "write f.grad(...)"),
        _of("A list of numbers", """
            @compile_grad
            def loss(w):
                return np.sum(w**2)

            loss.grad([1.0, 2.0, 3.0])
            """, "TypeError", "'list' and 'int'", "the argument `w` is a list; pass np.array(w)"),
        _of("A table with a column of texts", """
            import pandas as pd

            table = pd.DataFrame({"name": ["a", "b"], "size": [1.0, 2.0]})
            compile_grad(lambda t: np.sum(t["size"])).grad(table)
            """, "DifferentiationError", "`t`, an object of type pandas.DataFrame", "np.asarray(x)", line=4),
        _of("Rows of different numbers for vmap", "tracegrad.vmap(lambda a, b: a * b)(np.ones(3), np.ones(4))",
            "ShapeError", "`a` has 3, and `b` has 4", line=1),
    ],
    "Results": [
        _of("The loss is an array", "compile_grad(lambda w: w**2).grad(x)",
            "DifferentiationError", "returned an array of shape (5,)", "np.sum(...)", line=1),
        _of("A return is missing", """
            def loss(w):
                np.sum(w**2)

            compile_grad(loss).grad(x)
            """, "DifferentiationError", "returned None: is a return missing?", line=4),
        _of("The loss and more", "compile_grad(lambda w: (np.sum(w**2), w)).grad(x)",
            "DifferentiationError", "returned tuple", "has_aux=True", line=1),
        _of("A text in place of a loss", "compile_grad(lambda w: f'{w.sum()}').grad(x)",
            "DifferentiationError", "returned str", "return the loss", line=1),
        _of("A complex loss", "compile_grad(lambda w: np.sum(np.fft.fft(w))).grad(x)",
            "DifferentiationError", "returned a complex number", "np.abs(z)**2", line=1),
        _of("A comparison as loss", "compile_grad(lambda w: np.all(w > 0)).grad(x)",
            "DifferentiationError", "returned bool, which has no gradient", "return a float", line=1),
    ],
    "Shapes and indices": [
        _of("Shapes that do not fit", "compile_grad(lambda w: np.sum(w * np.ones(3))).grad(x)",
            "ShapeError", "(5,) (3,)", "x[:, None]", line=1),
        _of("Matrices that do not fit", "compile_grad(lambda w: np.sum(np.ones((3, 4)) @ w)).grad(x)",
            "ShapeError", "(3, 4) and (5,)", ".T", line=1),
        _of("Rows of different lengths", "compile_grad(lambda w: np.sum(np.array([w[:2], w[2:]]))).grad(x)",
            "ShapeError", "the same shape", "(2,)", line=1),
        _of("An index out of bounds", "compile_grad(lambda w: w[5]).grad(x)",
            "BadIndexError", "index 5 is out of bounds for axis 0 with size 5", line=1),
        _of("A float as index", "compile_grad(lambda w: w[len(w) / 2]).grad(x)",
            "BadIndexError", "only integers, slices", "not a float", line=1),
        _of("reshape to another size", "compile_grad(lambda w: np.sum(w.reshape(2, 3))).grad(x)",
            "ShapeError", "cannot reshape array of size 5 into shape (2, 3)", line=1),
    ],
    "Writing": [
        _of("x.at[...]", "compile_grad(lambda w: np.sum(w.at[0].set(0.0))).grad(x)",
            "AttributeError", "has no attribute 'at'", "write y = x.copy(), then y[i] = v", line=1),
        _of("Into an argument", """
            def loss(w):
                w[0] = 0.0
                return np.sum(w**2)

            compile_grad(loss).grad(x)
            """, "MutationError", "the argument `w`, which belongs to the caller", "x = x.copy()", line=2),
        _of("Into a list of results that stays", """
            history = np.zeros(5)

            def loss(w):
                history[:] = w
                return np.sum(history**2)

            compile_grad(loss).grad(x)
            """, "MutationError", "`global history`", "from outside the function", "x.copy()", line=4),
        _of("x += y of an argument", """
            def loss(w):
                w += 1.0
                return np.sum(w**2)

            compile_grad(loss).grad(x)
            """, "MutationError", "the argument `w`", "x = x + ... instead of x += ...", line=2),
    ],
    "Control flow": [
        _of("if of an array", """
            def loss(w):
                if w > 0:
                    return np.sum(w)
                return np.sum(w**2)

            compile_grad(loss).grad(x)
            """, "ValueError", "more than one element", "a.any() or a.all()", "np.where", line=2),
        _of("0 < w < 3 of an array", "compile_grad(lambda w: np.sum(np.where(0 < w < 3, w, 0.0))).grad(x)",
            "ValueError", "more than one element", "np.where", line=1),
        _of("min of an array and a number", "compile_grad(lambda w: np.sum(min(w, 3.0))).grad(x)",
            "ValueError", "more than one element", line=1),
    ],
    "Functions": [
        _of("math of an array", "compile_grad(lambda w: np.sum(math.sin(w))).grad(x)",
            "TypeError", "take one number; those of NumPy take arrays", line=1),
        _of("An array has no append", "compile_grad(lambda w: w.append(1.0)).grad(x)",
            "AttributeError", "np.append(x, ...)", line=1),
        _of("Another misspelt method", "compile_grad(lambda w: w.summ()).grad(x)",
            "AttributeError", "no attribute 'summ'", line=1),
        _of("A function of SciPy that is not known", """
            import scipy.signal

            compile_grad(lambda w: np.sum(scipy.signal.find_peaks(w)[0])).grad(x)
            """, "UnsupportedError", "scipy.signal.find_peaks", "custom_vjp", line=3),
        _of("A class of SciPy in C", """
            import scipy.spatial

            compile_grad(lambda w: np.sum(scipy.spatial.cKDTree(w[:, None]).query([[0.0]])[0])).grad(x)
            """, "UnsupportedError", "scipy.spatial.cKDTree", "custom_vjp", line=3),
        _of("A singular matrix", "compile_grad(lambda w: np.sum(np.linalg.inv(np.outer(w, w)))).grad(x)",
            "LinAlgError", "Singular matrix", line=1),
        _of("A matrix that is not positive definite",
            "compile_grad(lambda w: np.sum(np.linalg.cholesky(np.outer(w, w) - 10 * np.eye(5)))).grad(x)",
            "LinAlgError", "not positive definite", line=1),
        _of("Conversion to texts", "compile_grad(lambda w: np.sum(w.astype(str) == '1.0')).grad(x)",
            "UnsupportedError", "astype(<U0)", "use a float", line=1),
        _of("A name that is in autograd", "tracegrad.hessian(lambda w: np.sum(w**3))(x)",
            "AttributeError", "it is tracegrad.autograd.hessian"),
        _of("A name of JAX", "tracegrad.jit(lambda w: np.sum(w**3))(x)",
            "AttributeError", "tracegrad.compile_grad"),
    ],
    "Tensors and devices": [
        _of("backward of an array", "t = tracegrad.tensor(x, requires_grad=True)\n(t * t).backward()",
            "RuntimeError", "grad can be implicitly created only for scalar outputs"),
        _of("backward twice", "t = tracegrad.tensor(x, requires_grad=True)\ny = (t * t).sum()\ny.backward()\n"
            "y.backward()", "RuntimeError", "retain_graph=True"),
        _of("backward without requires_grad", "tracegrad.tensor(x).sum().backward()",
            "RuntimeError", "does not require grad"),
        _of("numpy() of what has a gradient", "tracegrad.tensor(x, requires_grad=True).numpy()",
            "RuntimeError", "tensor.detach().numpy()"),
        _of("Dtypes that do not go together", "tracegrad.ones(2, 2, dtype=tracegrad.float32) @ "
            "tracegrad.ones(2, 2, dtype=tracegrad.float64)", "RuntimeError", "same dtype", "float != double"),
        _of("An unknown target", "compile_grad(lambda w: np.sum(w), target='gpu')",
            "TracegradError", "there is no target='gpu'", 'target="cuda"', line=1),
    ],
}  # fmt: skip
MISTAKES = [mistake for group in GROUPS.values() for mistake in group]


def told(mistake: Mistake) -> BaseException | None:
    """The exception that the program of *mistake* raises."""
    space: dict[str, Any] = {"__name__": "yours"}
    exec(BEFORE, space)
    linecache.cache[FILE] = (len(mistake.code), None, mistake.code.splitlines(keepends=True), FILE)
    try:
        exec(compile(mistake.code, FILE, "exec"), space)
    except Exception as error:
        return error
    return None
