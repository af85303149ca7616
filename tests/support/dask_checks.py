"""Checks of ``tracegrad.dask`` on two worker processes: a program, since a cluster leaves threads and settings behind.

``python dask_checks.py FOLDER`` prints the name of each check and how it went.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracegrad
from tracegrad import compile_grad
from tracegrad.autograd import value_and_grad
from tracegrad.dask import ChunkedLoss, fit
from tracegrad.optim import functional as tx

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(801, 5)), RNG.normal(size=801)
PARAMS = {"w": RNG.normal(size=5), "b": 0.1}
OPTIMIZER = tx.chain(tx.clip_by_global_norm(10.0), tx.adam(0.1))


@compile_grad
def loss(p: Any, x: Any, y: Any) -> Any:
    return np.sum((np.tanh(x @ p["w"]) + p["b"] - y) ** 2)


def of_columns(p: Any, batch: Any) -> Any:
    return np.sum((p["b"] * batch["x"] + batch["y"]) ** 2)


def killed_once(p: Any, x: Any, y: Any, flag: str) -> Any:
    """The loss, in whose first call its process is killed."""
    if not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return loss(p, x, y)


def failing(p: Any, x: Any) -> Any:
    raise ZeroDivisionError("of the user's")


def first_call() -> tuple[Any, bool]:
    """A first call, and whether the process has come to need a compiler."""
    return value_and_grad(loss)(PARAMS, X[:101], Y[:101]), "llvmlite" in sys.modules


def arrays() -> Any:
    import dask.array as da

    return da.from_array(X, chunks=(101, -1)), da.from_array(Y, chunks=101)


def same(a: Any, b: Any) -> bool:
    pairs = zip(tracegrad.tree.leaves(a), tracegrad.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def two_workers_have_the_bits_of_one_process(client: Any, folder: Path) -> None:
    x, y = arrays()
    alone, together = ChunkedLoss(loss, x, y), ChunkedLoss(loss, x, y, client=client)
    assert x.numblocks == (8, 1)
    for scale in (1.0, 0.3):
        params = {"w": PARAMS["w"] * scale, "b": PARAMS["b"] * scale}
        value, gradient = alone.value_and_grad(params)
        assert same(together.value_and_grad(params), (value, gradient))
        assert together(params) == alone(params) == value
        np.testing.assert_allclose(value, loss(params, X, Y), rtol=1e-12)


def a_worker_that_is_killed_changes_nothing(client: Any, folder: Path) -> None:
    x, y = arrays()
    before = set(client.run(os.getpid).values())
    flags = [str(folder / "flag")] * 8
    found = ChunkedLoss(killed_once, x, y, flags, client=client).value_and_grad(PARAMS)
    assert os.path.exists(flags[0]) and same(found, ChunkedLoss(loss, x, y).value_and_grad(PARAMS))
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != before


def kernels_are_found_on_disk(client: Any, folder: Path) -> None:
    known = set(client.run(os.getpid))
    client.cluster.scale(3)
    client.wait_for_workers(3, timeout=60)
    (new,) = set(client.run(os.getpid)) - known
    found, compiler = client.run(first_call, workers=[new])[new]
    assert same(found, first_call()[0]) and not compiler


def a_fit_goes_on_from_its_checkpoint(client: Any, folder: Path) -> None:
    x, y = arrays()
    expected = fit(ChunkedLoss(loss, x, y), PARAMS, OPTIMIZER, 6)
    together = ChunkedLoss(loss, x, y, client=client)

    def lost(steps: int, value: Any, params: Any) -> None:
        if steps == 2:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        if steps == 4:
            raise KeyboardInterrupt

    path = folder / "fit.npz"
    try:
        fit(together, PARAMS, OPTIMIZER, 6, checkpoint=path, every=2, callback=lost)
    except KeyboardInterrupt:
        assert tracegrad.load(path)["steps"] == 4
    seen: list[int] = []
    found = fit(together, PARAMS, OPTIMIZER, 6, checkpoint=path, callback=lambda k, v, p: seen.append(k))
    assert seen == [5, 6] and same(found, expected)
    assert same(fit(together, PARAMS, OPTIMIZER, 6, checkpoint=path), expected)


def dataframes_and_delayed_batches(client: Any, folder: Path) -> None:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame({"x": X[:, 0], "y": Y})
    frames = dd.from_pandas(frame, npartitions=3)
    found = ChunkedLoss(of_columns, frames, client=client).value_and_grad(PARAMS | {"w": 0.0})
    assert same(found, ChunkedLoss(of_columns, frames).value_and_grad(PARAMS | {"w": 0.0}))
    whole = of_columns(PARAMS, {"x": X[:, 0], "y": Y})
    np.testing.assert_allclose(found[0], whole, rtol=1e-12)
    batches = [dask.delayed(lambda k: {"x": X[k::3, 0], "y": Y[k::3]})(k) for k in range(3)]
    np.testing.assert_allclose(ChunkedLoss(of_columns, batches, client=client)(PARAMS), whole, rtol=1e-12)
    series = ChunkedLoss(lambda p, x: np.sum(x * p), frames["x"])
    np.testing.assert_allclose(series.grad(2.0), X[:, 0].sum(), rtol=1e-12)


def errors_of_the_loss_arrive(client: Any, folder: Path) -> None:
    try:
        ChunkedLoss(failing, [1.0, 2.0], client=client)(1.0)
    except ZeroDivisionError as error:
        assert "of the user's" in str(error)
    else:
        raise AssertionError("no error")


CHECKS: list[Callable[[Any, Path], None]] = [
    two_workers_have_the_bits_of_one_process, a_worker_that_is_killed_changes_nothing, kernels_are_found_on_disk,
    a_fit_goes_on_from_its_checkpoint, dataframes_and_delayed_batches, errors_of_the_loss_arrive,
]  # fmt: skip


def main(folder: Path) -> None:
    from dask.distributed import Client, LocalCluster

    quiet = {"processes": True, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster, Client(cluster) as client:
        for check in CHECKS:
            try:
                check(client, folder)
                print(check.__name__, "right", flush=True)
            except Exception:
                print(check.__name__, "wrong", traceback.format_exc().replace("\n", "\\n"), flush=True)


if __name__ == "__main__":
    import dask_checks  # under this name the workers find it

    dask_checks.main(Path(sys.argv[1]))
