"""The standard library's functions run as copies, all that they call included, and answer as ever."""

from __future__ import annotations

import _pydecimal
import argparse
import ast
import calendar
import collections
import colorsys
import configparser
import copy
import csv
import dataclasses
import difflib
import email.parser
import fnmatch
import fractions
import graphlib
import heapq
import html.parser
import inspect
import io
import ipaddress
import json
import ntpath
import optparse
import pickle
import plistlib
import posixpath
import pprint
import random
import re
import shlex
import statistics
import string
import textwrap
import tokenize
import typing
import urllib.parse
import xml.etree.ElementTree as ET

import pytest
from converted import Deep, copied, deeply, outcome, rebound

SOURCE = inspect.getsource(textwrap)
DATA = {"a": [1, 2.5, None, True, {"b": 'ü"x'}], "c": {}}
MAIL = (
    "From: a@b\nSubject: =?utf-8?q?x=C3=BC?=\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n--x\n"
    "Content-Type: text/html\n\n<b>\n--x--\n"
)


def plain_json(text):
    """Decoded in Python."""
    decoder = json.JSONDecoder()
    decoder.parse_string = json.decoder.py_scanstring
    decoder.scan_once = json.scanner.py_make_scanner(decoder)
    return decoder.decode(text)


class Encoder(json.JSONEncoder):
    """Encodes in Python, since it is told an indentation."""

    def default(self, o):
        return sorted(o) if isinstance(o, set) else super().default(o)


def parsed_arguments():
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("a", nargs="+", type=int, help="the %(dest)s")
    parser.add_argument("--b", "-b", default=3, choices=[1, 2, 3], type=int)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--q", action="store_true")
    group.add_argument("--r", action="store_true")
    return parser.format_help(), parser.parse_args(["1", "2", "-b", "2", "--q"])


def configured():
    parser = configparser.ConfigParser()
    parser.read_string("[a]\nx=1\ny=%(x)s2\n[b]\nz:3")
    return {section: dict(parser[section]) for section in parser.sections()}


def counted():
    counts = collections.Counter("abracadabra")
    counts.update("xyz", a=3)
    chain = collections.ChainMap({"a": 1}, {"b": 2})
    point = collections.namedtuple("Point", "x y")(1, 2)
    return counts.most_common(3), counts - collections.Counter("aab"), dict(chain.new_child()), point._replace(x=5)


def made_dataclass():
    field = dataclasses.field(default_factory=list)
    made = dataclasses.make_dataclass("P", [("x", int), ("y", list, field)], frozen=True, order=True)
    return dataclasses.asdict(made(3)), dataclasses.replace(made(3), x=4).x, made(1) < made(2)


def drawn():
    r = random.Random(5)
    return (
        r.sample(range(100), 10),
        r.choices("abc", [1, 2, 3], k=8),
        r.gauss(0, 1),
        r.shuffle([1, 2]),
        r.betavariate(1, 2),
    )


def parsed_html():
    parser, found = html.parser.HTMLParser(), []
    parser.handle_starttag = lambda tag, attrs: found.append((tag, attrs))
    parser.feed("<a href=x>y&amp;<b/></a><!-- c -->")
    return found


CALLS = {
    "textwrap": lambda: (
        textwrap.wrap(SOURCE[:3000], 40),
        textwrap.dedent("  a\n   b\n"),
        textwrap.shorten("a b c", 4),
    ),
    "difflib": lambda: [
        *difflib.unified_diff(SOURCE.splitlines()[:60], SOURCE.replace("self", "me").splitlines()[:60])
    ],
    "difflib, close": lambda: difflib.get_close_matches("appel", ["ape", "apple", "peach"]),
    "difflib, lines": lambda: [*difflib.ndiff(["a\n", "bcd\n"], ["a\n", "bxd\n"])],
    "heapq": lambda: ([*heapq.merge([1, 4], [2, 3], key=lambda x: x)], heapq.nsmallest(3, [5, 2, 7], key=lambda x: -x)),
    "statistics": lambda: (statistics.stdev([1, 2, 3.5, 9]), statistics.quantiles(range(20)), statistics.mode("aab")),
    "statistics, normal": lambda: statistics.NormalDist(3, 2).overlap(statistics.NormalDist(1, 1)),
    "statistics, no data": lambda: statistics.mean([]),
    "fractions": lambda: str(fractions.Fraction("3/7") + fractions.Fraction(1, 3) ** 2),
    "fractions, no number": lambda: fractions.Fraction("x"),
    "json": lambda: (Encoder(indent=2, sort_keys=True).encode(DATA), Encoder(indent=1).encode({"s": {3, 1}})),
    "json, no text": lambda: Encoder(indent=2).encode([object]),
    "json, read": lambda: plain_json('{"a": [1, 2.5e3, "x\\u00fc", null, true], "b": {}}'),
    "json, wrong": lambda: plain_json('{"a": [1, "b]'),
    "ast": lambda: ast.unparse(ast.parse(SOURCE)),
    "ast, itself": lambda: ast.unparse(ast.parse(inspect.getsource(ast))),
    "ast, literal": lambda: (ast.literal_eval("[1, {2: (3,)}, -1j]"), ast.dump(ast.parse("a = b[1:2]"), indent=1)),
    "random": drawn,
    "random, too many": lambda: random.Random(2).sample([1], 2),
    "string": lambda: string.Formatter().format("{0!r:>10} {x.real} {1[0]}", "a", [1], x=3),
    "string, template": lambda: (string.Template("$a ${b} $$").substitute(a=1, b=2), string.capwords("a b")),
    "string, wrong": lambda: string.Template("$a $").substitute(a=1),
    "csv": lambda: [*csv.DictReader(io.StringIO("a,b\n1,2\n3,4\n"))],
    "pprint": lambda: pprint.pformat({i: [*range(30)] for i in range(5)}, width=40),
    "decimal": lambda: str(_pydecimal.Decimal("1.25").sqrt() * _pydecimal.Decimal(3) / 7),
    "decimal, no number": lambda: _pydecimal.Decimal("abc"),
    "tokenize": lambda: [*tokenize.generate_tokens(io.StringIO(SOURCE[:4000]).readline)],
    "shlex": lambda: shlex.split('a "b c" d\\ e'),
    "shlex, open": lambda: shlex.split('a "b'),
    "configparser": configured,
    "urllib": lambda: (
        urllib.parse.urlparse("http://u:p@h:80/p;x?q=1#f").port,
        urllib.parse.urlencode({"a": [1]}, True),
    ),
    "urllib, wrong": lambda: urllib.parse.urlparse("http://h:99999999").port,
    "calendar": lambda: (calendar.TextCalendar().formatyear(2024), calendar.HTMLCalendar().formatmonth(2024, 2)),
    "copy": lambda: copy.deepcopy(DATA),
    "re": lambda: re._compiler._code(re._parser.parse("a(b|c)*[^d-f]{2,3}?(?P<x>y)(?=z)"), 0),
    "re, wrong": lambda: re._parser.parse("(a"),
    "inspect": lambda: (str(inspect.signature(dataclasses.dataclass)), inspect.getdoc(textwrap.wrap)),
    "typing": lambda: typing.get_type_hints(dataclasses.Field),
    "argparse": parsed_arguments,
    "optparse": lambda: optparse.OptionParser(usage="x").format_help(),
    "collections": counted,
    "dataclasses": made_dataclass,
    "xml": lambda: ET.tostring(ET.fromstring('<a x="1"><b>t</b></a>')),
    "plistlib": lambda: plistlib.loads(plistlib.dumps({"a": [1, b"x", True, {"b": 2.5}]})),
    "graphlib": lambda: [*graphlib.TopologicalSorter({1: [2, 3], 2: [3]}).static_order()],
    "graphlib, cycle": lambda: [*graphlib.TopologicalSorter({1: [2], 2: [1]}).static_order()],
    "colorsys": lambda: colorsys.hls_to_rgb(*colorsys.rgb_to_hls(0.1, 0.2, 0.3)),
    "ipaddress": lambda: [str(x) for x in ipaddress.ip_network("10.0.0.0/30").hosts()],
    "ipaddress, wrong": lambda: ipaddress.ip_address("1.2.3"),
    "paths": lambda: (fnmatch.translate("a[!b]*?"), posixpath.relpath("/a/../b//c", "/b"), ntpath.splitext("c:\\x.y")),
    "pickle": lambda: (pickle._loads(pickle.dumps(DATA, 2)), pickle._dumps([1, "a", {"b": (2, 3.5)}], 4)),
    "email": lambda: email.parser.Parser().parsestr(MAIL).as_string(),
    "html": parsed_html,
}


@pytest.mark.parametrize("form", [copied, deeply, rebound])
@pytest.mark.parametrize("name", CALLS)
def test_library_answers_as_ever(name, form):
    f = CALLS[name]
    assert repr(outcome(form(f))) == repr(outcome(f))


@pytest.mark.slow
def test_the_library_is_really_converted():
    Deep.seen.clear()
    Deep.refused.clear()
    for f in CALLS.values():
        outcome(deeply(f))
    assert len(Deep.seen) > 500
    assert Deep.seen.total() > 20_000
    reasons = {reason.split(": ")[1] for reason in Deep.refused}
    assert reasons <= {"there is no source", "it has a class"}
