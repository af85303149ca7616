"""``save`` and ``load``: what goes in comes out, in both formats, and nothing in a file is run."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracegrad
from tracegrad import nn, optim

SUFFIXES = [".npz", ".safetensors"]
TREE = {
    "w": np.arange(6.0).reshape(2, 3).T,
    "file": np.array(3, ">i8"),
    "b": tracegrad.tensor([1.0, 2.0]),
    "rest": [(1, 0.1, None, "text", True, float("inf")), {0: np.float32(2), 1: []}, np.zeros((0, 2))],
    "a.b": np.ones(1),
    "a": {"b": np.zeros(1)},
}


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == ".safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"state{request.param}"


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tracegrad.Tensor):
        return type(b) is type(a) and same(a.numpy(), b.numpy())
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.shape == b.shape and a.dtype == b.dtype and bool(np.all(a == b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def test_a_tree_comes_back(path: Path) -> None:
    tracegrad.save(TREE, path)
    found = tracegrad.load(path)
    assert same({**TREE, "file": np.array(3)}, found)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("value", [np.ones(3), tracegrad.tensor(1.5), 2, [], {"x": np.ones(2, np.float16)}])
def test_any_part_alone(path: Path, value: Any) -> None:
    tracegrad.save(value, path)
    assert same(value, tracegrad.load(path))


def test_training_goes_on_with_the_same_bits(path: Path) -> None:
    x, y = tracegrad.ones(4, 3), tracegrad.zeros(4, 2)

    def made() -> tuple[nn.Module, optim.Optimizer]:
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
        return net, optim.Adam(net.parameters(), lr=0.01)

    def steps(net: nn.Module, optimizer: optim.Optimizer) -> None:
        for _ in range(3):
            optimizer.zero_grad()
            ((net(x) - y) ** 2).sum().backward()
            optimizer.step()

    net, optimizer = made()
    steps(net, optimizer)
    tracegrad.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)
    other, its_optimizer = made()
    saved = tracegrad.load(path)
    other.load_state_dict(saved["net"])
    its_optimizer.load_state_dict(saved["optimizer"])
    steps(net, optimizer)
    steps(other, its_optimizer)
    assert same(dict(net.state_dict()), dict(other.state_dict()))


def test_state_dicts_of_numpy_arrays() -> None:
    net = nn.Linear(2, 1)
    arrays = {"weight": np.array([[1.0, 2.0]]), "bias": np.array([3.0])}
    assert str(net.load_state_dict(arrays)) == "<All keys matched successfully>"
    assert net.weight.tolist() == [[1.0, 2.0]]
    net.load_state_dict(arrays, assign=True)
    assert isinstance(net.weight, nn.Parameter) and net.weight.requires_grad
    arrays["weight"][...] = 0.0  # a copy was taken
    assert net.weight.tolist() == [[1.0, 2.0]]
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        net.load_state_dict({**arrays, "bias": np.ones(2)})
    optimizer = optim.SGD(net.parameters(), momentum=0.9)
    state = optimizer.state_dict() | {"state": {0: {"momentum_buffer": np.ones((1, 2))}}}
    optimizer.load_state_dict(state)
    assert isinstance(optimizer.state[net.weight]["momentum_buffer"], tracegrad.Tensor)


def test_flat_dicts_are_files_of_any_library(path: Path) -> None:
    arrays = {"w": np.ones((2, 2)), "b": np.zeros(2)}
    tracegrad.save(arrays, path)
    if path.suffix == ".npz":
        assert same(arrays, dict(np.load(path)))
        np.savez(path, **arrays)
    else:
        numpy = pytest.importorskip("safetensors.numpy")
        found = numpy.load_file(path)
        assert same(arrays, {name: found[name] for name in arrays})
        numpy.save_file(arrays, path)
    found = tracegrad.load(path)
    assert same(arrays, {name: found[name] for name in arrays})


def test_bfloat16(path: Path) -> None:
    state = {"h": np.ones(2, ml_dtypes.bfloat16)}
    if path.suffix == ".npz":
        with pytest.raises(TypeError, match=r"save to \.safetensors"):
            tracegrad.save(state, path)
    else:
        tracegrad.save(state, path)
        assert same(state, tracegrad.load(path))


def test_what_is_refused(path: Path) -> None:
    tracegrad.save(np.ones(1), path)
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"state\['net.f'\] is of class function"):
        tracegrad.save({"net": {"f": same}}, path)
    with pytest.raises(TypeError, match="dtype object"):
        tracegrad.save([np.array([same])], path)
    with pytest.raises(TypeError, match="key None"):
        tracegrad.save({None: 1}, path)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    with pytest.raises(ValueError, match=r"does not end in .safetensors, .npz \(states\) or .tgz"):
        tracegrad.load("state.pt")


class _Runs:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("code from a file ran",))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"save: .*os\.makedirs") as found:
        tracegrad.save({"a": np.ones(3)}, tmp_path / "missing" / "state.npz")
    assert found.value.filename == str(tmp_path / "missing") and not list(tmp_path.iterdir())


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    part = io.BytesIO()
    np.lib.format.write_array_header_1_0(part, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    with zipfile.ZipFile(bad, "w") as file:
        file.writestr("x.npy", part.getvalue() + pickle.dumps([_Runs()]))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        tracegrad.load(bad)
    bad.write_bytes(pickle.dumps(_Runs()))
    with pytest.raises(ValueError, match="pickled"):
        tracegrad.load(bad)
