"""Statements by the methods that they call, keywords of any name, notes of errors: runs stay closed, as with the usual
words."""

# ruff: noqa: E501, UP031  (a row of a table is a line)
from __future__ import annotations

import functools
import operator
import types

import numpy as np
import pytest
from closed_kinds import check

from tracegrad import compile_grad

NAMES = dict.fromkeys("self f run obj name args kwargs owner function template".split(), 2.0)
METHODS = {
    "items of a dict": (
        "table = {'a': 1.0, 'b': 2.0}", "table.__setitem__('a', s)\ntable.__delitem__('b')\ntable.__setitem__('b', 3.0)\n"
        "s = table.__getitem__('a') * len(table) + table.__contains__('c')", ["table['c'] = 1.0", "table = {'b': 5.0}"]),
    "items of a list": (
        "rows = [1.0, 2.0, 3.0]", "rows.__setitem__(0, s)\nrows.__delitem__(1)\nrows.append(0.5)\n"
        "s = s + rows.__getitem__(-1) * rows.__len__() + sum(rows.__iter__())", ["rows.append(2.0)", "rows = [4.0, 5.0]"]),
    "items by functions": (
        "import operator\ntable, rows = {'a': 1.0}, [1.0, 2.0]",
        "operator.setitem(table, 'a', s)\noperator.delitem(rows, 0)\noperator.setitem(rows, 0, 2 * s)\nrows.append(1.0)\n"
        "s = s + rows[0]", ["table = {}", "rows = [2.0, 3.0, 4.0]"]),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_statements_by_methods(name):
    check(*METHODS[name])


class Model:
    def __init__(self, scale, /, **settings):
        self.scale, self.settings = scale, settings

    def loss(self, x, /, **settings):
        return self.scale * np.sum(x) * len(settings) + sum(self.settings.values())

    __call__ = loss


MODEL = Model(2.0, **NAMES)


def keyed(x, /, **kwargs):
    return x * sum(kwargs.values())


KEYWORDS = {
    "a function": lambda x: np.sum(keyed(x, **NAMES)),
    "a method": lambda x: MODEL.loss(x, **NAMES),
    "an object": lambda x: MODEL(x, **NAMES),
    "a class": lambda x: Model(2.0, **NAMES).loss(x),
    "a partial": lambda x: np.sum(functools.partial(keyed, **NAMES)(x)),
    "a method caller": lambda x: operator.methodcaller("loss", x)(MODEL),
    "a dict": lambda x: np.sum(x) * len(dict(x.shape and [], **NAMES)),
    "an update": lambda x: (table := {}).update(**NAMES) or np.sum(x) * len(table),
    "a template": lambda x: np.sum(x) * len("{self}{f}{run}{obj}{name}{template}".format(**NAMES)),
    "a namespace": lambda x: np.sum(x) * types.SimpleNamespace(**NAMES).run,
}


def test_keywords_may_have_any_name():
    for name, plain in KEYWORDS.items():
        compiled = compile_grad(plain)
        for k in range(3):
            assert compiled(np.ones(3) + k) == plain(np.ones(3) + k), name
        assert (compiled.stats.traces, compiled.stats.live) == (1, ""), name


@pytest.mark.parametrize(
    "shown", [lambda x: "%(a)5.1f|%(b)i|%%" % {"a": x, "b": 7 * x}, lambda x: "%(a)s" % {"a": [x]}]
)
def test_texts_by_names(shown, capsys):
    texts = []

    def f(x):
        texts.append(shown(x))
        print(shown(x))
        return x * x

    compiled = compile_grad(f)
    for x in (1.5, 2.25, 1.5):
        compiled(x)
        assert texts.pop() + "\n" == capsys.readouterr().out == shown(x) + "\n"
    assert (compiled.stats.traces, compiled.stats.live) == (1, "")


def noted(x):
    error = ValueError("less")
    error.add_note(f"x = {x[0]}")
    error.where, error.at = x, len(error.__notes__)
    try:
        raise error
    except ValueError as found:
        return np.sum(found.where) * found.at


def is_numpy(x, xp=np):
    return xp.sum(x) * (xp == np and xp in (None, np))


@pytest.mark.parametrize("plain", [noted, is_numpy])
def test_errors_and_modules(plain):
    compiled = compile_grad(plain)
    for k in range(3):
        assert compiled(np.ones(3) + k) == plain(np.ones(3) + k)
    assert (compiled.stats.traces, compiled.stats.live) == (1, "")
