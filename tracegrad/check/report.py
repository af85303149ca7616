"""The report on one example call: whether it records, what is rolled, what makes it live, and whether it is right."""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from ..runtime.report.look import Looked
from ..runtime.report.sections import describe_guards, describe_state
from ..tracer.ir.errors import TracegradError
from ..tracer.ir.site import is_internal
from .comparison import Comparison, same
from .example import Example

_SHOWN = 8  # lines of one kind
_LINE = re.compile(r'\n? *File "(.+)", line (\d+), in (.+)')


def check(example: Example, explain: bool = False) -> tuple[str, int]:
    """Run the call by NumPy, record it, compare the two, and time them.

    :param explain: with the recorded program, its loops and memory.
    :returns: (the report, a status): 0, it records and is right; 1, it does not, or is not; 2, NumPy raises.
    """
    call = Comparison(example)
    lines = [f"{example.name} ({_place_of(call.fn)}), called as in {example.origin}"]
    with _silence() as warned:
        try:
            expected, again = call.plain(), call.plain()
        except Exception as error:
            return ("\n".join([*lines, "NumPy itself raises", *_refusal(error)]), 2)
        del warned[:]
        try:
            call.prepare(expected)
            found, gradients, first = call.run()
            seen = call.look()
        except Exception as error:
            lines += ["does not record", *_refusal(error)]
            if not isinstance(error, TracegradError):
                lines.append("  plain Python does not raise that here: it is a defect of tracegrad, please report it")
            return ("\n".join(lines), 1)
        told = [str(w.message) for w in warned if issubclass(w.category, UserWarning)]
        if same(expected, again):
            right = same(expected, found)
            given = "the value is NumPy's" if right else f"WRONG VALUE: {_short(found)}, not {_short(expected)}"
            verdicts = [(given, right), *call.slopes(gradients)]
        else:
            verdicts = [("nothing: plain Python gives another value in each call", True)]
        times = call.times()
    right = all(good for _, good in verdicts)
    lines.append("records" if right else "records, and is wrong")
    lines += _described(seen, call.compiled.stats.live)
    lines += _titled("warnings", _few(told))
    lines += _titled("compared", [text for text, _ in verdicts])
    numpy, *ours = [f"{name} {_time(seconds)}" for name, seconds in times.items()]
    later = "later" if call.compiled.stats.live else "cached"
    lines += _titled("times", [f"{numpy}, first call {_time(first)}, {later} {', '.join(ours)}"])
    if explain:
        explanation: Any = call.compiled.explain(*call.args, **call.kwargs)
        lines += ["", explanation.at("all").rstrip()]
    return ("\n".join(lines), 0 if right else 1)


def _described(seen: Looked, live: str) -> Iterator[str]:
    """Loops, branches and outside state of a recording."""
    notes = [str(note) for note in seen.recording.notes]
    yield from _titled("loops", _few(n for n in notes if n.startswith(("rolled", "not-rolled"))) or ["none is rolled"])
    yield from _titled("branches", _few(describe_guards(seen.recording).splitlines()))
    yield from _titled("outside", describe_state(seen.snapshot, seen.reasons).splitlines())
    yield from _titled("live", [live] if live and not seen.reasons else [])


def _titled(title: str, texts: Iterable[str]) -> list[str]:
    return [f"  {'' if k else title:<10}{text}" for k, text in enumerate(texts)]


def _refusal(error: Exception) -> list[str]:
    """The user's lines on the way to an error, and its text."""
    text = str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_internal(f.filename)]
    places = [(f.filename, f.lineno or 0, f.name) for f in frames]
    named = _LINE.search(text)
    if named is not None:
        text = text[: named.start()] + text[named.end() :]
        last = named[1], int(named[2]), named[3]
        places = [*[place for place in places if place != last], last]
    lines = []
    for file, line, function in places[-_SHOWN:]:
        lines += [f"  {file}:{line} in {function}", f"      {linecache.getline(file, line).strip()}"]
    kind = "" if isinstance(error, TracegradError) else f"{type(error).__name__}: "
    return [*lines, *[f"  {line}" for line in f"{kind}{text}".strip().splitlines()]]


def _place_of(fn: Any) -> str:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}" if code else type(fn).__name__


def _few(lines: Iterable[str]) -> list[str]:
    """Each line once, and of many the first ones."""
    counts = Counter(lines)
    texts = [text if count == 1 else f"{text}  ({count} times)" for text, count in counts.items()]
    return texts if len(texts) <= _SHOWN else [*texts[:_SHOWN], f"and {len(texts) - _SHOWN} more"]


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _time(seconds: float) -> str:
    unit, size = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3)) if seconds >= s), ("µs", 1e-6))
    return f"{seconds / size:.3g} {unit}"


@contextlib.contextmanager
def _silence() -> Iterator[list[warnings.WarningMessage]]:
    """Nothing that the function prints is shown, and warnings are collected."""
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        yield warned
