"""Whatever Python and its libraries may do with an int: an argument, one that the caller sets, a counter.  The results,
their types and exceptions are those of plain Python, whether the int is a number of the run or compared by value."""

from __future__ import annotations

import bisect
import decimal
import fractions
import functools
import itertools
import json
import linecache
import math
import operator
import pickle
import random
import re
import statistics
import struct
import types
from typing import Any

import numpy as np
import pytest
from int_programs import same
from selection import some

from tracegrad import compile_grad

pytestmark = [pytest.mark.usefixtures("fresh_kernels"), pytest.mark.filterwarnings("ignore")]
MODULES = (
    bisect,
    decimal,
    fractions,
    functools,
    itertools,
    json,
    math,
    operator,
    pickle,
    random,
    re,
    statistics,
    struct,
)
USES = """
sorted([K, 5, 2])[1]
sum([K, 1, 2])
max([K, 5]) + min(K, 3)
math.prod([K, 2])
np.sum(np.array([K, 1.0]))
np.asarray([K, 1])
np.linspace(0, 1, K)
x[:K]
x[K:]
np.sum(x ** K)
np.arange(K)
str(K).zfill(3)
[1, 2, 3, 4].index(K) if K < 5 else 0
(random.Random(K).random())
np.eye(K)
struct.pack('i', K)
int.__add__(K, 1)
operator.add(K, 2)
operator.index(K)
K.real + K.numerator
format(K, 'x')
np.int64(K)
np.uint8(K) + np.uint8(250)
complex(K)
fractions.Fraction(K, 3)
decimal.Decimal(K) / 3
round(K, -1)
'abcdefghijklmnopq'[K]
bytes([K])
chr(K + 65)
f'{K:05d}'
np.clip(x, 0, K)
np.full(3, K)
np.repeat(x, K)
np.roll(x, K)
{1: 'a', 2: 'b'}.get(K, 'c')
K in {1, 2, 3}
K in (1, 5)
K in [2, 7]
K in range(3)
[*range(K)]
math.sqrt(K) + math.log(K)
math.comb(10, K)
math.factorial(K)
math.gcd(K, 6)
'a' * K
[0] * K
x.reshape(1, -1)[0, K % 4]
(K is None, K == True, K != 1)
isinstance(K, bool), isinstance(K, int), isinstance(K, float)
type(K) is int, type(K) == int, type(K).__name__
K.__class__.__name__
'%d %s %5.1f' % (K, K, K)
'{} {:>4}'.format(K, K)
repr(K) + str([K]) + str((K, 1))
int(K) + int(str(K)) + int(K / 2)
float(K) / 3
bool(K - 1)
not K
K and 3
K or 3
K if K else 7
-K // 2, -K % 3, K // -2, K % -3
K ** 2, K ** 0, K ** -1, 2 ** K, (-2) ** K
K << 2, K >> 1, 1 << K, K & 3, K | 8, K ^ 5, ~K
divmod(-K, 3), divmod(K, -3), divmod(100, K)
K.bit_length()
K.to_bytes(2, 'big')
pow(K, 2, 5)
abs(-K), +K, -K
K * 1.5, K / 4, K * 'a'
K * (1, 2)
K * True, True + K, K - False
K < 3 < K + 5
K == 2.0, K < 2.5, K == 1j
np.float64(K) / 3, np.float32(K) / 3
np.sum(x) * K, np.sum(x > K), np.add(x, K), np.multiply(K, x), np.maximum(x, K)
np.array(K) + 1
np.array([[K, 2], [3, K]])
x.astype(np.float32) * K
np.arange(4) * K
np.arange(4, dtype=np.int8) + K
np.power(x, K), np.power(2.0, K)
np.where(x > 1, K, x)
np.isclose(K, 2), np.isfinite(K)
math.isclose(K, 2), math.isnan(K), math.floor(K), math.ceil(K), math.trunc(K)
statistics.mean([K, 2])
list(itertools.islice([1, 2, 3, 4], K % 4))
pickle.loads(pickle.dumps(K))
bisect.bisect([1, 3, 5], K)
re.sub('a', str(K), 'banana')
json.dumps({'k': K})
copy.deepcopy([K])
(lambda k=K: k + 1)()
[K + i for i in range(3)]
sum(K * v for v in x)
{K: 1}
{'a': K, **{'b': K + 1}}
{K, 2}
[*map(int, [K])], [*map(str, [K])], [*map(float, [K])]
(K, *[K])
getattr(K, 'real'), hasattr(K, 'shape')
np.ndim(K), np.shape(K), np.size(K), np.isscalar(K)
callable(K)
np.random.default_rng(K).normal()
int.bit_length(K)
K.__add__(1), K.__mul__(2)
K.conjugate(), K.is_integer() if hasattr(K, 'is_integer') else 0
sum(1 for _ in zip(range(K), x))
x.sum() if K > 3 else x.mean() * K
functools.reduce(lambda a, b: a * b, [K, 2, 3])
K.__index__() + K.__int__() + K.__hash__()
np.zeros(K), np.ones((K, 2)).shape
np.tile(x, K)[:3]
np.mod(K, 3), np.floor_divide(K, 2), np.sqrt(K), np.exp(K), np.abs(-K), np.sign(K)
np.minimum(K, 2), np.add(K, 1), np.multiply(K, 1.5), np.greater(K, 2)
round(K), round(K / 3), round(K / 3, 1)
""".strip().splitlines()
SOURCES = {
    "argument": ("x, n", "n", "return ({},)"),
    "set by the caller": ("x", "o.k", "return ({},)"),
    "counter": ("x", "o.k", "o.k += 1; return ({},)"),
    "stored": ("x", "o.k", "o.k += 1; o.last = ({},); return np.sum(x)"),
}


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (set, fractions.Fraction, decimal.Decimal, bytes, np.integer, np.bool_)):
        return type(a) is type(b) and a == b
    return same(a, b)


def answer(fn: Any, owner: Any, args: tuple[Any, ...]) -> Any:
    try:
        return fn(*args), owner.last
    except Exception as error:
        return str(type(error))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("use", some(USES, quick=12))
def test_uses_of_ints(use, source):
    parameters, name, body = SOURCES[source]
    text = f"def fn({parameters}):\n    {body.format(use.replace('K', name))}\n"
    file = f"<{source}: {use}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    made = []
    for _ in range(3):
        owner = types.SimpleNamespace(k=1, last=None)
        space = {"np": np, "o": owner} | {module.__name__: module for module in MODULES}
        exec(compile(text, file, "exec"), space)
        made.append((space["fn"], owner))
    (plain, theirs), (fn, mine), (anew, third) = made
    compiled = compile_grad(fn)
    for k in (1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 3, 2, 1, 9, 1):
        if source == "set by the caller" or k == 9:
            theirs.k = mine.k = k
        third.k, third.last = theirs.k, None
        args = (np.array([0.5, 1.5, 2.0, 3.0]), k)[: 2 if source == "argument" else 1]
        expected, found = answer(plain, theirs, args), answer(compiled, mine, args)
        if not equal(expected, found):  # what is refused as it stands is refused
            assert isinstance(found, str)
            assert answer(compile_grad(anew), third, args) == found
            return
