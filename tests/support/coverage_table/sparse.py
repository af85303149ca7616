"""scipy.sparse and scipy.sparse.linalg: products, matrices with traced entries, equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sl

from .case import Case

N = 5
V = np.array([0.3, 1.2, -0.7, 2.1, 0.8])
W = np.stack([V, V[::-1] ** 2], axis=1)
ROWS, COLUMNS = np.array([0, 0, 1, 2, 2, 1, 0]), np.array([0, 2, 1, 2, 0, 0, 2])  # one place twice
FORMS = ("csr", "csc", "coo")
DATA = np.array([4.0, 1.0, 3.0, 5.0, -1.0, 0.5, 0.25])


def _system(form: str = "csc") -> Any:
    """Made anew in each call, as in a function."""
    return sp.diags([1.0, 4.0, -1.5], [-1, 0, 2], shape=(N, N), format=form)


def _even(d: np.ndarray) -> Any:
    return (_system() + _system().T + sp.diags(d**2)).tocsr()


def _case(name: str, call: Any, args: list[np.ndarray], label: str = "", **options: Any) -> Case:
    return Case(f"scipy.sparse.{name}", call, args, label=label, **options)


def _made(cls: Any) -> Any:
    return lambda d: cls((d, (ROWS, COLUMNS)), shape=(3, 3)).toarray()


def _formats(x: np.ndarray) -> Any:
    found: Any = 0.0
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        S = sp.csr_array(_system("csr")).asformat(form)
        found = found + S @ x + x @ S + S.T @ x + S.dot(x) + S.multiply(x).sum(axis=1)
    return found


def _iterative(name: str) -> Any:
    return lambda d, b: getattr(sl, name)(_even(d), b, rtol=1e-13)[0]


CASES = [
    _case("csr_array", _formats, [V], "products"),
    _case("csr_matrix", lambda x: _system("csr") * x + x * _system("csr"), [V], "products"),
    *[_case(f"{form}_matrix", _made(getattr(sp, f"{form}_matrix")), [DATA], "entries") for form in FORMS],
    _case("csr_array", lambda d: sp.csr_array((d, [0, 2, 1], [0, 2, 3]), shape=(2, 3)) @ V[:3], [V[:3]], "pointers"),
    _case("dia_array", lambda d: sp.dia_array((d, [0, -1]), shape=(5, 5)) @ V, [W.T], "entries"),
    _case("diags", lambda d: sp.diags([d[1:], -2.0, d[:-1]], [-1, 0, 1], shape=(N, N)).tocsr() @ d, [V]),
    _case("diags_array", lambda d: sp.diags_array([d[1:], d], offsets=[1, 0], format="csr").toarray(), [V]),
    _case("kron", lambda d: sp.kron(sp.eye(2), sp.diags(d)) @ np.arange(10.0), [V]),
    _case("vstack", lambda d: sp.vstack([_system().multiply(d), _system()]) @ d, [V]),
    _case("hstack", lambda d: sp.hstack([sp.diags(d), _system()], format="csr") @ np.arange(10.0), [V]),
    _case("bmat", lambda d: sp.bmat([[sp.diags(d), None], [_system(), sp.eye(N)]]) @ np.arange(10.0), [V]),
    _case("block_diag", lambda d: sp.block_diag([sp.diags(d), _system()]).tocsr() @ np.arange(10.0), [V]),
    _case("csr_matrix", lambda d: (_system("csr") @ sp.diags(d) @ _system().T) @ d, [V], "of two"),
    _case("csr_matrix", lambda d: (sp.eye(N) - _system("csr") * d[0] + sp.diags(d)).toarray(), [V], "sums"),
    _case("csr_matrix", lambda d: _system("csr").multiply(sp.diags(d)).power(2).toarray(), [V], "powers"),
    _case("csr_matrix", lambda d: _system("csr").multiply(d).tocsr()[1:4, ::2].toarray(), [V], "slices"),
    _case("csr_matrix", lambda d: _system("csr").multiply(d).tocsr()[1, 1] * d, [V], "elements"),
    _case("csr_matrix", lambda d: np.array(_system("csr").multiply(d).sum(axis=1)).flatten(), [V], "sums of rows"),
    _case("csr_matrix", lambda d: abs(_system().multiply(d)).diagonal(), [V], "diagonal"),
    _case("linalg.spsolve", lambda d, b: sl.spsolve(_system().multiply(d).tocsc(), b), [V, V**2]),
    _case("linalg.spsolve", lambda d, b: sl.spsolve(_system("csr") * d, b), [np.array(1.3), W], "columns"),
    _case("linalg.spsolve", lambda d: sl.spsolve(_system(), sp.csc_matrix(W) * d[0]).toarray(), [V], "sparse"),
    _case("linalg.splu", lambda d, b: sl.splu(_system().multiply(d).tocsc()).solve(b, "T"), [V, V**2]),
    _case("linalg.factorized", lambda d, b: sl.factorized(sp.diags(d, format="csc"))(b), [V, W]),
    _case("linalg.spsolve_triangular", lambda b: sl.spsolve_triangular(sp.tril(_system(), format="csr"), b), [V]),
    _case("linalg.inv", lambda d: sl.inv(_system().multiply(d).tocsc()).toarray(), [V]),
    _case("linalg.norm", lambda d: sl.norm(_system().multiply(d)) + sl.norm(_system().multiply(d), 1), [V]),
    _case("linalg.expm_multiply", lambda b: sl.expm_multiply(_system() * 0.3, b), [V]),
    _case("linalg.aslinearoperator", lambda b: sl.aslinearoperator(_system()).rmatvec(b), [V]),
    *[_case(f"linalg.{name}", _iterative(name), [V + 2, V**2], tol=1e-5)
      for name in ("cg", "bicg", "bicgstab", "cgs", "gmres", "lgmres", "minres", "qmr", "gcrotmk", "tfqmr")],
]  # fmt: skip
