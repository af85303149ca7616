"""Pages of the reference, made of the docstrings and signatures that Python has, for every name in
tests/project/public_names.txt.

They are read from the living objects, not from source text: operations of tensors are rows of tables, and names of
the package are imported when they are asked for, so a reader of source text would find neither.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]+)`")
_FIELD = re.compile(r"^:(param|returns?|raises?)\s*([\w, .*]*):\s*", re.MULTILINE)

ABOUT = {
    "tracegrad": "Compiled functions, loops and branches, rules of your own; then tensors and their operations.",
    "tracegrad.amp": "Training in half precision.",
    "tracegrad.array_api": "The Array API standard, over tensors.",
    "tracegrad.array_api.fft": "Its Fourier transforms.",
    "tracegrad.array_api.linalg": "Its linear algebra.",
    "tracegrad.autograd": "Derivatives: functions of functions, and of tensors.",
    "tracegrad.autograd.function": "Operations of tensors with a backward of their own.",
    "tracegrad.autograd.functional": "Jacobians and Hessians of functions of tensors.",
    "tracegrad.cuda": "Devices.",
    "tracegrad.fft": "Fourier transforms of tensors. (NumPy code uses `np.fft`.)",
    "tracegrad.linalg": "Linear algebra of tensors. (NumPy code uses `np.linalg`.)",
    "tracegrad.nn": "Modules.",
    "tracegrad.nn.functional": "Functions of neural networks.",
    "tracegrad.nn.init": "Starting values of parameters.",
    "tracegrad.nn.utils": "Gradients of all parameters.",
    "tracegrad.optim": "Optimizers.",
    "tracegrad.optim.lr_scheduler": "Learning rates that change.",
    "tracegrad.random": "Random numbers as part of a program.",
    "tracegrad.tree": "Trees of arrays.",
    "tracegrad.Tensor": "Arrays that remember how they were computed.",
    "tracegrad.CompiledFunction": "Made by `compile_grad`.",
    "tracegrad.CompiledStep": "Made by `compile`.",
}


def sections() -> dict[str, list[str]]:
    """The public names, by the module or class that has them."""
    text = (ROOT / "tests" / "project" / "public_names.txt").read_text().strip()
    found = {}
    for section in text.split("\n\n"):
        title, _, names = section.partition("\n")
        found[title.strip("[]")] = sorted(set(names.split()), key=lambda name: (name.lower(), name))
    return found


def page_of(path: str) -> str:
    """The file name of a section's page."""
    return f"reference/{path.lower()}.md"


def pages() -> dict[str, str]:
    """File names and texts of all pages."""
    found = {page_of(path): "\n".join(_page(path, names)) for path, names in sections().items()}
    rows = [f"| [`{path}`]({path.lower()}.md) | {len(names)} | {ABOUT.get(path, '')} |"
            for path, names in sections().items()]  # fmt: skip
    head = ["# Reference", "", "Every public name, by the module or class that has it.", ""]
    found["reference/index.md"] = "\n".join([*head, "| module or class | names | |", "|---|---|---|", *rows, ""])
    return found


def _page(path: str, names: list[str]) -> list[str]:
    parent, _, last = path.rpartition(".")
    owner = getattr(importlib.import_module(parent), last) if last[0].isupper() else importlib.import_module(path)
    things = {name: getattr(owner, name, None) for name in names}
    if inspect.isclass(owner):  # properties as they are, not their values
        things = {name: inspect.getattr_static(owner, name, None) for name in names}
    lines = [f"# `{path}`", "", ABOUT.get(path, ""), ""]
    parts = {"": names}
    if path == "tracegrad":
        tensors = [name for name in names if _of_tensors(things[name])]
        parts = {"NumPy code": [name for name in names if name not in tensors], "Tensors": tensors}
    for title, part in parts.items():
        lines += [f"## {title}", ""] if title else []
        for name in part:
            lines += [f"### `{name}` {{ #{path}.{name} }}", "", *_entry(name, things[name]), ""]
    return lines


def _of_tensors(thing: Any) -> bool:
    if type(thing).__module__ in ("ml_dtypes", "numpy") or isinstance(thing, np.dtype):
        return True
    module = thing.__name__ if inspect.ismodule(thing) else getattr(thing, "__module__", None) or type(thing).__module__
    return module.startswith(("tracegrad.tensors", "tracegrad.nn", "tracegrad.optim", "tracegrad.amp"))


def _entry(name: str, thing: Any) -> list[str]:
    """The signature and the docstring of *thing*."""
    if isinstance(thing, property):
        return [f"Property. {_markdown(thing.__doc__)}" if thing.__doc__ else "Property."]
    thing = getattr(thing, "__func__", thing)
    if inspect.ismodule(thing):
        sentence = re.match(r".*?[.:](?=\s|$)", inspect.cleandoc(thing.__doc__ or ""), re.DOTALL)
        return [f"Module. {sentence[0].rstrip(':') if sentence else ''}"]
    if not callable(thing):
        shown = repr(thing)
        return [
            f"`{shown}`" if len(shown) < 60 and " at 0x" not in shown else f"An object of `{type(thing).__name__}`."
        ]
    called = getattr(thing, "__name__", name)
    text = [f"The same as `{called}`.", ""] if called not in (name, "<lambda>") and called.isidentifier() else []
    return [*_signature(name, thing), *text, _markdown(inspect.getdoc(thing) or "")]


def _signature(name: str, thing: Any) -> list[str]:
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):  # exceptions have none
        return []
    plain = [p.replace(annotation=p.empty) for p in given.parameters.values() if p.name != "self"]
    parts = re.sub(r"<[^>]*\.(\w+)[^>]*>", r"\1", str(inspect.Signature(plain)))
    return ["```text", f"{'class ' if inspect.isclass(thing) else ''}{name}{parts}", "```", ""]


def _markdown(doc: str | None) -> str:
    """A docstring as Markdown: its fields are a list."""
    text = _ROLE.sub(r"`\1`", inspect.cleandoc(doc or ""))
    found = _FIELD.search(text)
    if found is None:
        return text
    body, fields = text[: found.start()].rstrip(), text[found.start() :]
    pieces = _FIELD.split(fields)[1:]
    lines = []
    for kind, about, said in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        label = {"param": f"`{about}`", "raises": f"raises `{about}`", "return": "returns"}.get(kind, "returns")
        said, _, rest = said.partition("\n\n")
        lines.append(f"- {label}: {' '.join(said.split())}")
        if rest:
            lines += ["", rest, ""]
    return "\n".join([body, "", *lines])
