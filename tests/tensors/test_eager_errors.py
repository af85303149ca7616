"""Errors and warnings of eager tensors, modules and optimizers stand at the user's line."""

from __future__ import annotations

import operator
import traceback
import warnings

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import nn, optim
from tracegrad.tracer.ir.site import OWN_FOLDER
from tracegrad.tracer.ir.tracebacks import VARIABLE

A, B = tg.tensor(np.ones((2, 3))), tg.tensor(np.ones((4, 5)))
LINEAR = nn.Linear(3, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)

    def forward(self, x):
        return nn.Sequential(self.first, self.first)(x)


CALLS = {
    "+": lambda: A + B,
    "+ of an array": lambda: np.ones(4) + A,
    "<": lambda: A < B,
    "**": lambda: A**B,
    "/": lambda: A / B,
    "/=": lambda: operator.itruediv(A, B),
    "&": lambda: A & B,
    "~": lambda: ~A,
    "-": lambda: -tg.tensor([True]),
    "bool": lambda: bool(A),
    "float": lambda: float(A),
    "len": lambda: len(tg.tensor(1.0)),
    "item": lambda: A.item(),
    "index": lambda: A[7],
    "an index of a wrong kind": lambda: A["a"],
    "assignment": lambda: operator.setitem(A, 0, B),
    "in place, of a leaf": lambda: operator.iadd(tg.ones(3).requires_grad_(), 1),
    "a function": lambda: tg.add(A, B),
    "a function of a string": lambda: tg.sin("a"),
    "view": lambda: A.view(4),
    "reshape": lambda: A.reshape(4),
    "einsum": lambda: tg.einsum("ij,jk->ik", A, B),
    "to": lambda: A.to("somewhere"),
    "tensor": lambda: tg.tensor([[1, 2], [3]]),
    "zeros": lambda: tg.zeros("a"),
    "a dtype": lambda: tg.zeros(3, dtype="foo"),
    "rand": lambda: tg.rand(-1),
    "an axis": lambda: tg.array_api.sum(A, axis=7),
    "a function of the namespace": lambda: tg.array_api.concat([A, B]),
    "a property": lambda: tg.ones(3).H,
    "backward": lambda: A.backward(),
    "a layer": lambda: LINEAR(B),
    "a layer's settings": lambda: nn.Linear(3, "a"),
    "layers": lambda: nn.Sequential(LINEAR, LINEAR)(A),
    "an embedding": lambda: nn.Embedding(3, 4)(tg.tensor([5])),
    "a loss": lambda: nn.functional.cross_entropy(A, B),
    "a loss's module": lambda: nn.CrossEntropyLoss()(A, B),
    "conv2d": lambda: nn.functional.conv2d(A, B),
    "a state dict": lambda: LINEAR.load_state_dict({"a": 1}),
    "a learning rate": lambda: optim.SGD([A], lr=-1),
    "no parameters": lambda: optim.SGD([], lr=0.1),
    "a closure": lambda: optim.SGD(LINEAR.parameters(), lr=0.1).step(closure=3),
    "a schedule": lambda: optim.lr_scheduler.StepLR(optim.SGD(LINEAR.parameters(), lr=0.1), "often").step(),
}


@pytest.fixture(autouse=True)
def as_users_have_it(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def own_frames(error):
    return [f.name for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(OWN_FOLDER)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_the_last_frame_is_the_users(name):
    with pytest.raises(Exception) as caught:
        CALLS[name]()
    assert own_frames(caught.value) == []


def test_frames_of_a_users_module_are_kept():
    with pytest.raises(RuntimeError) as caught:
        Net()(A)
    names = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_frames_of_a_users_module_are_kept", "forward"]


def test_all_frames_are_kept_on_request(monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    with pytest.raises(RuntimeError) as caught:
        LINEAR(B)
    assert own_frames(caught.value)[:2] == ["__call__", "forward"]


WARNINGS = {
    "a loss": lambda: nn.MSELoss()(tg.ones(2, 3), tg.ones(3)),
    "a loss's function": lambda: nn.functional.mse_loss(tg.ones(2, 3), tg.ones(3)),
    "softmax": lambda: nn.functional.softmax(tg.ones(3)),
    "one parameter twice": lambda: optim.SGD([LINEAR.weight, LINEAR.weight], lr=0.1),
    "a schedule's step": lambda: optim.lr_scheduler.StepLR(optim.SGD(LINEAR.parameters(), lr=0.1), 1).step(),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_stands_at_the_users_line(name):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        WARNINGS[name]()
    assert [w.filename for w in told] == [__file__]
