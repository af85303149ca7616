"""What the functions of Python find in a dict or list outside that the run has changed."""

from __future__ import annotations

import pytest
from small_worlds import as_in_python

CHANGES = ("d.popitem()", "d['e'] = s", "d['a'] = d.pop('a') + s", "del d['b']", "d.update(f=1.0)", "d['b'] = s", "")
READS = (
    "next(reversed(d), 'z')", "list(reversed(d.items()))", "next(iter(d))", "sorted(d)", "max(d)", "list(d)[-1]",
    "[*d]", "dict(d)", "d | {'z': 1.0}", "{**d}", "len(d)", "'b' in d", "list(d.values())", "d.copy()",
    "sum(d.values())",
    "[key for key in d]", "tuple(d.items())", "dict.fromkeys(d, 1.0)", "list(map(str, d))", "list(zip(d, d.values()))",
    "min(d, key=d.get)", "set(d)", "d == {'a': 0.5}", "any(key == 'e' for key in d)", "list(enumerate(d))",
    "d.keys() & {'a', 'e'}", "d.keys() - {'a'}", "d.items() >= {'a': 0.5}.items()", "'-'.join(d)", "f'{len(d)}'",
)  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_dicts(read):
    for change in CHANGES:
        as_in_python(f"{change}\nn = {read}\nd.clear()\nd.update(a=0.5, b=1.0, c=2.0)", calls=2)


ONE_STORE = """
class Borg:
    common = {"v": 0.5}
    def __init__(self): self.__dict__ = self.common
one, two = Borg(), Borg()
"""


@pytest.mark.parametrize(
    "body", ["one.v += 1.0\ns = s + two.v", "one.v += s\ntwo.v += s\nh.append(one.v)", "one.v += s"]
)
def test_objects_with_one_dict_of_attributes(body):
    as_in_python(f"{body}\nlog.append(two.v)", ONE_STORE)
