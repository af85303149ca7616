"""Files of compiled functions: the same bits without the source, on this processor and on another; damage is found."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from ahead_programs import COMPILED, PROGRAMS
from test_lowered import Model, W, X, network, of_model, same
from with_source import code_of

import tracegrad
from tracegrad import DifferentiationError, UnsupportedError, compile_grad
from tracegrad.runtime.ahead import archive, graph_bytes


@pytest.fixture
def anywhere(monkeypatch):
    """A processor for which there is no kernel in a file."""

    def leave():
        monkeypatch.setattr(archive, "generation", lambda: b"another")

    return leave


@pytest.mark.parametrize("name", PROGRAMS)
def test_loaded_here_and_elsewhere(tmp_path, anywhere, name):
    f, args = COMPILED[name], PROGRAMS[name][1]
    f.export(tmp_path / "f.tgz", *args)
    for elsewhere in (False, True):
        if elsewhere:
            anywhere()
        loaded = tracegrad.load(tmp_path / "f.tgz")
        assert (loaded.call("value").kernel is None) == elsewhere
        assert same(loaded.value_and_grad(*args), f.value_and_grad(*args))
        assert same(loaded(*args), f(*args))


def test_trees_and_settings(tmp_path):
    f = compile_grad(network.__wrapped__, has_aux=True)
    f.export(tmp_path / "f.tgz", W, X, power=2)
    loaded = tracegrad.load(tmp_path / "f.tgz")
    assert same(loaded.grad(W, X, power=2), f.grad(W, X, power=2))
    with pytest.raises(TypeError, match="3 among the arguments"):
        loaded(W, X, power=3)


def test_methods_and_objects(tmp_path):
    model, x = Model([1.0, 2.0]), np.ones(2)
    model.loss.export(tmp_path / "loss.tgz", x)
    of_model.export(tmp_path / "of_model.tgz", x, model)
    assert tracegrad.load(tmp_path / "loss.tgz")(x) == 3.0
    assert tracegrad.load(tmp_path / "of_model.tgz")(x, None) == 3.0  # objects are fixed


def test_pickled(tmp_path):
    f, args = COMPILED["logistic"], PROGRAMS["logistic"][1]
    sent = pickle.loads(pickle.dumps(f.lower(*args).compile()))
    assert same(sent.value_and_grad(*args), f.value_and_grad(*args))


def test_special_functions_and_numpys_steps(tmp_path, anywhere):
    from scipy.special import gammaln

    f = compile_grad(lambda x: np.sum(gammaln(np.sort(x)[:2])))
    x = np.array([3.0, 1.0, 2.0])
    f.export(tmp_path / "f.tgz", x)
    anywhere()
    assert same(tracegrad.load(tmp_path / "f.tgz").value_and_grad(x), f.value_and_grad(x))


def test_without_a_gradient(tmp_path):
    compile_grad(lambda x: x * 2).export(tmp_path / "f.tgz", np.ones(3))
    loaded = tracegrad.load(tmp_path / "f.tgz")
    assert same(loaded(np.ones(3)), np.full(3, 2.0))
    with pytest.raises((DifferentiationError, UnsupportedError), match="scalar"):
        loaded.grad(np.ones(3))


def test_what_is_made_of_a_loaded_function(tmp_path):
    f, args = COMPILED["logistic"], PROGRAMS["logistic"][1]
    f.export(tmp_path / "f.tgz", *args)
    loaded = tracegrad.load(tmp_path / "f.tgz")
    assert loaded.as_native().declaration == f.as_native(*args).declaration
    loaded.export(tmp_path / "again.tgz")
    assert (tmp_path / "again.tgz").read_bytes() == (tmp_path / "f.tgz").read_bytes()


def test_a_branch_of_a_loaded_function(tmp_path):
    (x,) = PROGRAMS["branch"][1]
    COMPILED["branch"].export(tmp_path / "f.tgz", x)
    with pytest.raises(UnsupportedError, match="another way") as error:
        tracegrad.load(tmp_path / "f.tgz")(-x)
    assert "ahead_programs.py" in str(error.value)


SOURCE = """
import numpy as np
from tracegrad import compile_grad
@compile_grad
def gone(x, n):
    for _ in range(n): x = np.tanh(x * 1.5)
    return np.sum(x)
"""
READER = """
import sys, numpy as np, tracegrad
value, gradient = tracegrad.load("f.tgz").value_and_grad(np.arange(3.0), 40)
assert "tracegrad.runtime.inspection" not in sys.modules, "nothing is recorded"
assert "tracegrad.tensors" not in sys.modules, "nor are tensors there"
print(value.tobytes().hex(), gradient.tobytes().hex(), "llvmlite" in sys.modules)
"""


def test_another_process_without_the_source(tmp_path):
    space = {"__name__": "gone"}
    exec(code_of(SOURCE, "gone"), space)
    space["gone"].export(tmp_path / "f.tgz", np.arange(3.0), 40)
    value, gradient = space["gone"].value_and_grad(np.arange(3.0), 40)
    for _ in range(2):  # the first one may compile what launches kernels, which is kept; the other one nothing
        found = subprocess.run([sys.executable, "-c", READER], cwd=tmp_path, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        assert found.stdout.split()[:2] == [value.tobytes().hex(), gradient.tobytes().hex()]
    assert found.stdout.split()[2] == "False", "nothing is compiled"


def test_python_of_the_users_stays_here(tmp_path):
    f = compile_grad(lambda x: np.sum(tracegrad.pure_callback(np.cumsum, x, x)))
    with pytest.raises(UnsupportedError):
        f.export(tmp_path / "f.tgz", np.ones(3))
    assert list(tmp_path.iterdir()) == []


# ---- damage


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "f.tgz"
    COMPILED["number"].export(path, 0.3)
    return path.read_bytes()


def changed(content, change):
    """The file with other parts."""
    with tarfile.open(fileobj=io.BytesIO(content)) as file:
        parts = {entry.name: file.extractfile(entry).read() for entry in file}
    manifest = json.loads(parts.pop("manifest.json"))
    change(manifest, parts)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as file:
        for name, part in (("manifest.json", json.dumps(manifest).encode()), *parts.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(part)
            file.addfile(entry, io.BytesIO(part))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("format 2", lambda manifest, parts: manifest.update(format=2)),
        (r"by tracegrad 99", lambda manifest, parts: manifest.update(tracegrad="99")),
        ("a checksum is another", lambda manifest, parts: parts.update({"value/program": b"x"})),
        ("a checksum is another", lambda manifest, parts: parts.update(more=b"x")),
        ("a checksum is another", lambda manifest, parts: parts.pop("value/program")),
        ("damaged", lambda manifest, parts: manifest.pop("parts")),
    ],
)
def test_other_versions_and_parts(tmp_path, content, message, change):
    (tmp_path / "f.tgz").write_bytes(changed(content, change))
    with pytest.raises(ValueError, match=message):
        tracegrad.load(tmp_path / "f.tgz")


def test_damaged_files(tmp_path, content):
    path = tmp_path / "f.tgz"
    whole = gzip.decompress(content)
    damaged = [content[:k] for k in range(0, len(content), 97)] + [b"", b"no archive"]
    for k in range(0, len(whole), 211):
        one = bytearray(whole)
        one[k] ^= 4
        damaged.append(gzip.compress(bytes(one), 1))
    for part in damaged:
        path.write_bytes(part)
        try:
            assert tracegrad.load(path)(0.3) == COMPILED["number"](0.3)  # a bit of the archive's own
        except ValueError as error:
            assert "f.tgz" in str(error)


def test_programs_of_other_primitives_are_refused():
    parts = graph_bytes.graph_to_parts(COMPILED["number"].lower(0.3)._calls["value"].graph)
    graph_bytes.graph_of(parts)
    inputs, consts, (first, *nodes), *rest = parts
    for wrong in (("no_such", *first[1:]), ("reduce_sum", *first[1:])):
        with pytest.raises(graph_bytes.EncodingError):
            graph_bytes.graph_of((inputs, consts, (wrong, *nodes), *rest))


def test_a_folder_that_is_not_there(tmp_path):
    place = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match=r"export: .*os\.makedirs") as found:
        compile_grad(lambda x: np.sum(x)).export(place / "f.tgz", np.ones(3))
    assert found.value.filename == str(place) and not list(tmp_path.iterdir())
