"""The source of a function is found and proven, or refused with a reason; the copy has the user's own functions."""

from __future__ import annotations

import gc
import linecache
import os
import pickle
import threading
import warnings
import weakref
from functools import wraps

import pytest
from converted import copied, outcome

from tracegrad.tracer.convert.copies import Copy, NotConverted, convert
from tracegrad.tracer.convert.transparent import Transparent


def of_text(text, name="f", file="<text>", **space):
    """A function of a text that Python knows the lines of."""
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, file, "exec", dont_inherit=True), space)
    return space[name]


def reason(f):
    found = convert(f.__code__)
    assert isinstance(found, NotConverted)
    return found.reason


def asserting(a, b=2):
    """pytest has rewritten the assertions of this file."""
    for k in range(b):
        assert a >= k, f"{a} and {k}"
    assert (a and [a] == [b]) or not b
    return a


@pytest.mark.parametrize("a", [5, 1, 0, -1])
def test_assertions_that_pytest_has_rewritten(a):
    assert outcome(copied(asserting), a) == outcome(asserting, a)


def test_assertions_in_functions_and_lambdas_of_functions():
    def outer(k):
        def inner(x):
            assert x > k
            return x

        return inner, lambda: k

    inner, other = copied(outer)(1)
    assert inner.__code__ is outer(1)[0].__code__ and other.__code__ is outer(1)[1].__code__
    assert outcome(copied(inner), 1) == outcome(inner, 1)


def test_a_function_is_the_users_own_in_the_copy():
    def outer(n):
        def inner():
            return n

        def twice():
            nonlocal n
            n *= 2

        return inner, twice, [lambda: (n, k) for k in range(2)]  # noqa: B023

    first, second = outer(3), copied(outer)(3)
    codes = [f.__code__ for f in (first[0], first[1], *first[2])]
    assert all(f.__code__ is code for f, code in zip((second[0], second[1], *second[2]), codes, strict=True))
    second[1]()
    assert second[0]() == 6 and second[0].__qualname__ == first[0].__qualname__
    assert second[2][0].__qualname__ == first[2][0].__qualname__


def test_the_copy_looks_like_the_function():
    @wraps(asserting)
    def f(a, /, b=1, *c, d=2, **e):
        return a

    copy = copied(f)
    for name in "__name__ __qualname__ __module__ __doc__ __defaults__ __kwdefaults__ __dict__".split():
        assert getattr(copy, name) == getattr(f, name)
    for name in "co_name co_qualname co_filename co_firstlineno co_flags co_argcount co_kwonlyargcount".split():
        assert getattr(copy.__code__, name) == getattr(f.__code__, name)
    assert copy.__code__.co_varnames[:5] == f.__code__.co_varnames[:5]


def test_several_lambdas_in_a_line():
    fs = [lambda x: x + 1, lambda x: x * 2, lambda x: [lambda: x][0]()]
    assert [copied(f)(5) for f in fs] == [6, 10, 5]
    gs = of_text("f = [lambda a: a + 1, lambda a: a + 2, lambda a: a + 1]\n")
    assert [copied(g)(1) for g in gs] == [2, 3, 2]


def test_a_decorated_function_begins_with_its_decorators():
    text = "def d(f): return f\n\n@d\n@d\ndef f(x):\n    return 1 / x\n"
    f = of_text(text, file="<decorated>")
    assert copied(f).__code__.co_firstlineno == f.__code__.co_firstlineno
    assert outcome(copied(f), 0) == outcome(f, 0)


def test_text_that_is_hard_to_cut_out():
    text = 'class A:\n    def f(self, a=(\n  1,\n), b="""\nx = 1\n"""):\n        x = """\ndedented\n"""\n'
    text += "        if a:\n            return (a,\nb,\n  x)\n# a comment\n        return self.__p\n    __p = 3\n"
    A = of_text(text, "A", "<hard>")
    assert copied(A.f)(A()) == A().f() and copied(A.f)(A(), 0) == 3


def test_imports_of_the_module_count():
    text = "from os import (path,\n    sep as s)\ntry:\n    import json as j\nexcept ImportError:\n    pass\n"
    text += "def f():\n    import re\n    def g(path): return path.x(), re.x()\n"
    text += "    return path.join(s, j.dumps([1])), g\n"
    f = of_text(text, file="<imports>")
    assert copied(f)()[0] == f()[0] and copied(f)()[1].__code__ is f()[1].__code__


def test_other_text_is_refused(tmp_path):
    file = tmp_path / "changed.py"
    file.write_text("def f(x):\n    return x + 1\n")
    space = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text("def f(x):\n    return x + 2\n")
    assert reason(space["f"]) == "the source gives other code"


def test_text_that_was_read_before_a_change_is_read_again(tmp_path):
    file = tmp_path / "changed.py"
    for k in (1, 22):
        file.write_text(f"def f(x):\n    return x + {k}\n")
        space = {}
        exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), space)
        assert copied(space["f"])(1) == 1 + k
        os.utime(file, (k, k))


REFUSED = {
    "class": ("def f():\n    class A: pass\n", "it has a class"),
    "coroutine": ("async def f(): pass\n", "it is a coroutine"),
    "eval": ("def f(): return eval('1')\n", "it calls eval without namespaces"),
    "handed on": ("def f(g): return g(locals)\n", "it hands on locals"),
    "ours": ("def f():\n    _tg_x = 1\n    return _tg_x\n", "it has a variable whose name begins with _tg_"),
    "caught": ("def f():\n    global e\n    try: 1 / 0\n    except Exception as e: pass\n", "it catches an exception"),
    "variables": ("def f(): return [locals() for _ in 'a']\n", "it asks for the variables of a comprehension"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_a_reason(name):
    text, expected = REFUSED[name]
    assert reason(of_text(text, file=f"<{name}>")).startswith(expected)


def test_code_without_source():
    space = {}
    exec("def f(): return 1", space)
    assert reason(space["f"]) == "there is no source"


def test_code_of_exec_is_not_looked_for_in_a_program_given_as_an_option(monkeypatch):
    lines = ["def f(): return 2\n", "def g(): return 3\n"]  # where Python 3.13 puts those of `python -c`
    monkeypatch.setitem(linecache.cache, "<string>", (len("".join(lines)), None, lines, "<string>"))
    space = {}
    exec("def f(): return 1", space)
    assert reason(space["f"]) == "there is no source"
    exec("".join(lines), space)
    assert copied(space["g"])() == 3


def test_no_warnings_are_shown_again():
    f = of_text("def f(x):\n    return x is 1, '\\d'\n", file="<warns>")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = [*warnings.filters]
        assert copied(f)(2) == (False, "\\d")
        assert warnings.filters == before


def test_one_copy_for_each_code_object():
    def make():
        return of_text("def f(x): return [lambda: x]\n", file="<twice>")

    f, g = make(), make()
    assert f.__code__ == g.__code__
    assert convert(f.__code__) is convert(f.__code__) is not convert(g.__code__)
    assert copied(g)(1)[0].__code__ is g(1)[0].__code__ is not f(1)[0].__code__
    found, code = [], make().__code__
    threads = [threading.Thread(target=lambda: found.append(convert(code))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(x is found[0] for x in found)


def test_copies_end_with_their_code():
    f = of_text("def f(x): return x\n", file="<ends>")
    gone = weakref.ref(convert(f.__code__).code)
    del f
    gc.collect()
    assert gone() is None


def test_pickled_functions_are_the_users():
    copied(asserting)
    assert pickle.loads(pickle.dumps(asserting)) is asserting


def test_frames_share_the_cells_of_the_function():
    total = 0

    def f(k):
        nonlocal total
        total += k
        return total

    copy = convert(f.__code__)
    assert isinstance(copy, Copy)
    assert copy.function_of(f, Transparent(f))(2) == f(0) == total == 2
    total = 5
    assert copy.function_of(f, Transparent(f))(1) == 6


def test_lines_of_a_function_that_are_blank_by_now():
    f = of_text("def f(x):\n    return x\n", file="<blank by now>")
    of_text("\n\n\ndef other(x):\n    return x\n", "other", "<blank by now>")
    assert reason(f)
