"""The class of a class's entry says whether it is found before what an object has itself: changes of it are noticed."""

from __future__ import annotations

import operator
from functools import partial

import numpy as np
import pytest

from tracegrad import compile_grad

X = np.array([0.5, 1.0, 1.5])


def _classes():
    class Rate:
        value = 1.5

        def __get__(self, owner, kind):
            return self.value

    class Model:
        rate = Rate()

    return Rate, Model


def _forgotten(self, *_):
    """A method that does nothing."""


READS = {
    "attribute": lambda model: model.rate,
    "getattr": lambda model: getattr(model, "rate"),  # noqa: B009
    "attrgetter": operator.attrgetter("rate"),
}


@pytest.mark.parametrize("method", ["__set__", "__delete__"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("own", [True, False])
def test_entry_becomes_a_data_descriptor(read, method, own):
    rate, kind = _classes()
    model, of = kind(), READS[read]
    if own:
        model.rate = 2.5
    f = compile_grad(lambda x: np.sum(x) * of(model))
    for change in ([], [partial(model.__dict__.update, rate=3.5)], [partial(setattr, rate, method, _forgotten)], []):
        for act in change:
            act()
        assert f(X) == np.sum(X) * model.rate
    delattr(rate, method)
    assert model.rate == 3.5
    assert f(X) == np.sum(X) * 3.5


def test_entry_that_can_be_deleted_alone_goes_before_attributes():
    rate, kind = _classes()
    rate.__delete__ = _forgotten
    model = kind()
    model.__dict__["rate"] = 7.0
    f = compile_grad(lambda x: np.sum(x) * model.rate)
    assert f(X) == f(X) == np.sum(X) * 1.5
