"""Translation of llvmlite's LLVM IR to libNVVM's dialect.

For every architecture before Blackwell libNVVM is LLVM 7: pointers have element types, ``fneg`` is not an instruction
yet, ``llvm.maximum`` not yet an intrinsic, and kernels are named by metadata.  The translation is line by line, over
LLVM's own printed form: the text goes through LLVM's parser once, so that there is one spelling of everything, and
what is malformed is told by LLVM.

Every pointer becomes an ``i8*`` of its address space.  Where an instruction needs the element type (load, store,
getelementptr, atomics) a bitcast goes before it, and after it where it makes a pointer (getelementptr, alloca); a
global variable is used through a constant bitcast.  Such casts are no code.  Start reading at ``_Body.instruction``.

Address spaces are left as they are: libNVVM itself sees that the arguments of a kernel point to global memory.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence

import llvmlite.binding as llvm

from ...tracer.ir.errors import DeviceError

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
HEAD = f'target datalayout = "{DATA_LAYOUT}"\ntarget triple = "{TRIPLE}"\n'
_TARGET = re.compile(r"^target (?:datalayout|triple) = .*$", re.MULTILINE)
IR_VERSION = "!{i32 2, i32 0}"  # of NVVM IR

# LLVM 22 would replace NVVM's intrinsics by newer ones that LLVM 7 does not know: under another name it lets them be
_NVVM, _HIDDEN = "llvm.nvvm.", "tg.nvvm."

_QUOTED = r'"(?:[^"\\]|\\.)*"|[%@][\w.$-]+'  # strings and names, which stay as they are
_SPELLING = re.compile(rf"(?P<quoted>{_QUOTED})|\bptr\b(?: addrspace\((?P<space>\d+)\))?|\b(?P<poison>poison)\b")
_GLOBAL = re.compile(r'@(?:"[^"]*"|[\w.$-]+)')
_COMMENT = re.compile(r'^((?:[^";]|"[^"]*")*?)\s*;.*$')
_LABEL = re.compile(r'^(?:"[^"]*"|[\w.$-]+):')

_FUNCTION_ATTRIBUTES = {"alwaysinline", "noinline", "inlinehint", "nounwind", "convergent", "norecurse", "noreturn"}
_SINCE_RENAMED = {"memory(none)": "readnone", "memory(read)": "readonly", "captures(none)": "nocapture"}
_ARGUMENT_ATTRIBUTES = {"noalias", "nonnull", "signext", "zeroext", "nocapture", "readonly", "readnone"}


def to_nvvm(text: str, kernels: Sequence[str], max_threads: int | None = None) -> str:
    """The module *text* in the dialect of libNVVM, its functions *kernels* marked as kernels.

    *max_threads*: the most threads of a block with which they will be launched; the assembler then keeps to so many
    registers.  Raises DeviceError for text that LLVM does not parse, and where a kernel is missing.
    """
    try:
        module = llvm.parse_assembly(HEAD + _TARGET.sub("", text).replace(_NVVM, _HIDDEN))
    except RuntimeError as error:
        raise DeviceError(f"this is no LLVM IR: {error}") from None
    for name in kernels:
        try:
            module.get_function(name)
        except NameError:
            raise DeviceError(f"the module has no kernel {name!r}") from None
    return _Translation(str(module).replace(_HIDDEN, _NVVM), kernels, max_threads).text()


def _typed(text: str) -> str:
    """*text* with ``i8*`` for ``ptr``, and LLVM 7's name for a value that is not known."""

    def spelling(m: re.Match[str]) -> str:
        if m["quoted"]:
            return m[0]
        return "undef" if m["poison"] else f"i8 addrspace({m['space']})*" if m["space"] else "i8*"

    return _SPELLING.sub(spelling, text)


def _outermost(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """(position, character) of what is in no bracket and no string; a bracket that opens is not in itself."""
    depth, quoted = 0, False
    for position, c in enumerate(text[start:], start):
        if c == '"':
            quoted = not quoted
        elif not quoted:
            if depth == 0:
                yield position, c
            depth += (c in "[{(<") - (c in "]})>")


def _type_end(text: str, start: int = 0) -> int:
    """The end position of the type that begins at *start*."""
    ends = (k for k, c in _outermost(text, start) if c in " ,)" and not text.startswith((" addrspace", " x "), k))
    return next(ends, len(text))


def _split(text: str) -> list[str]:
    """*text* at the commas that are in no bracket and no string."""
    cuts = [-1, *[position for position, c in _outermost(text) if c == ","], len(text)]
    parts = [text[cut + 1 : following].strip() for cut, following in itertools.pairwise(cuts)]
    return parts if parts[-1] else parts[:-1]


def _pointer_to(kind: str, like: str) -> str:
    """The type of pointers to *kind* in the address space of the pointer type *like*."""
    return f"{kind}{like[2:]}"  # like is i8* or i8 addrspace(n)*


class _Translation:
    """The translation of one module."""

    def __init__(self, text: str, kernels: Sequence[str], max_threads: int | None):
        self.lines = [_COMMENT.sub(r"\1", line) for line in text.splitlines()]
        self.kernels = {f"@{name}" for name in kernels} | {f'@"{name}"' for name in kernels}
        self.max_threads = max_threads
        self.globals: dict[str, str] = {}  # variable -> the expression of an i8* to it
        self.attributes: dict[str, str] = {}  # group (#0) -> its attributes that LLVM 7 has
        self.annotations: list[str] = []
        self.declared: dict[str, str] = {}  # intrinsics that took the place of instructions
        self.casts = 0

    def text(self) -> str:
        for line in self.lines:
            if match := re.match(r"attributes (#\d+) = \{ (.*) \}", line):
                self.attributes[match[1]] = _function_attributes(match[2])
            elif match := re.match(r"(@\S+) = (.*?)\b(?:global|constant) (.*)", line):
                space = re.search(r"addrspace\(\d+\) ", match[2])
                pointer = f"i8 {space[0].strip()}*" if space else "i8*"
                kind = _typed(match[3][: _type_end(match[3])])
                self.globals[match[1]] = f"bitcast ({_pointer_to(kind, pointer)} {match[1]} to {pointer})"
        result = [HEAD]
        inside = False
        for line in self.lines:
            if line.startswith(("target ", "attributes ", "source_filename")):
                continue
            if line.startswith("define "):
                inside = True
                result.append(self._head(line[:-1].rstrip()) + " {")
            elif line.startswith("declare "):
                result.append(_DEFINITIONS.get(self._name(line)) or self._head(line))
            elif line.startswith("}"):
                inside = False
                result.append(line)
            elif inside:
                result += [line] if _LABEL.match(line) else _Instruction(self).instruction(line)
            else:
                result.append(_typed(line))
        return "\n".join([*result, *self.declared.values(), *self._metadata(), ""])

    @staticmethod
    def _name(line: str) -> str:
        match = _GLOBAL.search(line)
        assert match is not None, line
        return match[0]

    def _head(self, line: str) -> str:
        """The first line of a function, or its declaration."""
        name = self._name(line)
        before, _, after = line.partition(name)
        close = _closing(after)
        arguments = [_argument(a) for a in _split(_typed(after[1:close]))]
        rest = " ".join(self.attributes.get(word, _function_attributes(word)) for word in after[close + 1 :].split())
        words = _typed(before).split()
        if name in self.kernels:
            words = [w for w in words if w != "ptx_kernel"]
            rest = " ".join(w for w in rest.split() if w not in ("noinline", "alwaysinline"))  # no choice for a kernel
            function = f"void ({', '.join(a[: _type_end(a)] for a in arguments)})* {name}"
            self.annotations.append(f'!{{{function}, !"kernel", i32 1}}')
            if self.max_threads is not None:
                self.annotations.append(f'!{{{function}, !"maxntidx", i32 {self.max_threads}}}')
        words = [w for w in words if w not in ("dso_local", "noundef", "local_unnamed_addr")]
        return f"{' '.join(words)} {_since_named(name)}({', '.join(arguments)}) {rest}".rstrip()

    def _metadata(self) -> list[str]:
        taken = [int(m[1]) for line in self.lines if (m := re.match(r"!(\d+) = ", line))]
        free = max(taken, default=-1) + 1
        numbers = [f"!{free + k}" for k in range(len(self.annotations) + 1)]
        return [
            f"!nvvmir.version = !{{{numbers[0]}}}",
            f"!nvvm.annotations = !{{{', '.join(numbers[1:])}}}",
            *[f"{n} = {node}" for n, node in zip(numbers, [IR_VERSION, *self.annotations], strict=True)],
        ]


def _closing(text: str) -> int:
    """The position of the bracket that closes the one at the start of *text*."""
    depth = 0
    for position, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return position
    raise DeviceError(f"unbalanced brackets in {text!r}")


def _function_attributes(text: str) -> str:
    words = [_SINCE_RENAMED.get(word, word) for word in text.split()]
    return " ".join(w for w in words if w in _FUNCTION_ATTRIBUTES or w in ("readnone", "readonly"))


def _argument(text: str) -> str:
    """One formal argument: its type, the attributes that LLVM 7 has, its name."""
    end = _type_end(text)
    words = [_SINCE_RENAMED.get(word, word) for word in text[end:].split()]
    return " ".join([text[:end], *[w for w in words if w[0] == "%" or w in _ARGUMENT_ATTRIBUTES]])


def _since_named(name: str) -> str:
    """The name of an intrinsic as it was in LLVM 7: with element types of pointers, or one that is defined here."""
    if not name.startswith("@llvm."):
        return name
    if name in _DEFINITIONS:
        return "@tg." + name[len("@llvm.") :]
    return re.sub(r"\.p(\d+)(?=\.|$)", r".p\1i8", name)


class _Instruction:
    """The translation of one instruction, to one or more."""

    def __init__(self, module: _Translation):
        self.module = module
        self.before: list[str] = []

    def instruction(self, line: str) -> list[str]:
        if not line.strip():
            return []
        line = _typed(line.strip())
        line = _GLOBAL.sub(lambda m: self.module.globals.get(m[0]) or _since_named(m[0]), line)
        line = re.sub(r" #\d+(?=,|$)", "", line)
        for pattern, translate in _INSTRUCTIONS:
            if match := pattern.fullmatch(line):
                line = translate(self, match)
                break
        return [f"  {written}" for written in (*self.before, line)]

    def cast(self, pointer: str, place: str, kind: str) -> str:
        """*place* as an operand that points to *kind*."""
        if kind == "i8":
            return f"{pointer} {place}"
        wanted = _pointer_to(kind, pointer)
        name = self.fresh()
        self.before.append(f"{name} = bitcast {pointer} {place} to {wanted}")
        return f"{wanted} {name}"

    def fresh(self) -> str:
        self.module.casts += 1
        return f"%tg.{self.module.casts}"

    def load(self, m: re.Match[str]) -> str:
        kind, rest = m["rest"][: (end := _type_end(m["rest"]))], m["rest"][end + 2 :]
        pointer, place, more = _operand(rest)
        return f"{m['head']} {kind}, {self.cast(pointer, place, kind)}{more}"

    def store(self, m: re.Match[str]) -> str:
        value, *others = _split(m["rest"])
        pointer, place, more = _operand(", ".join(others))
        return f"{m['head']} {value}, {self.cast(pointer, place, value[: _type_end(value)])}{more}"

    def getelementptr(self, m: re.Match[str]) -> str:
        kind, where, *indices = _split(m["rest"])
        pointer, place, _ = _operand(where)
        element = kind
        for _ in indices[1:]:
            array = re.fullmatch(r"\[\d+ x (.*)\]", element)
            if array is None:
                raise DeviceError(f"only arrays can be indexed in a kernel, not {element}")
            element = array[1]
        head = " inbounds" if "inbounds" in m["flags"] else ""
        typed = f"getelementptr{head} {kind}, {self.cast(pointer, place, kind)}, {', '.join(indices)}"
        if element == "i8":
            return f"{m['name']} = {typed}"
        name = self.fresh()
        self.before.append(f"{name} = {typed}")
        return f"{m['name']} = bitcast {_pointer_to(element, pointer)} {name} to {pointer}"

    def alloca(self, m: re.Match[str]) -> str:
        kind = m["rest"][: _type_end(m["rest"])]
        if kind == "i8":
            return m[0]
        name = self.fresh()
        self.before.append(f"{name} = alloca {m['rest']}")
        return f"{m['name']} = bitcast {kind}* {name} to i8*"

    def atomicrmw(self, m: re.Match[str]) -> str:
        where, value, *_ = _split(m["rest"])  # LLVM 7 knows no alignment of an atomic
        pointer, place, _ = _operand(where)
        kind = value[: _type_end(value)]
        target = self.cast(pointer, place, kind)
        if m["operation"] == "fadd":  # an intrinsic of NVVM's before LLVM had it
            name = "llvm.nvvm.atomic.load.add.{0}.p{1}{0}".format(
                "f64" if kind == "double" else "f32", "".join(filter(str.isdigit, pointer[2:])) or 0
            )
            self.module.declared[name] = f"declare {kind} @{name}({target.rpartition(' ')[0]}, {kind})"
            return f"{m['name']} = call {kind} @{name}({target}, {value.rpartition(' ')[0]})"
        return f"{m['head']} {target}, {value}"

    def cmpxchg(self, m: re.Match[str]) -> str:
        where, expected, new, *_ = _split(m["rest"])
        pointer, place, _ = _operand(where)
        return f"{m['head']} {self.cast(pointer, place, expected[: _type_end(expected)])}, {expected}, {new}"

    def fneg(self, m: re.Match[str]) -> str:
        return f"{m['name']} = fsub {m['flags']}{m['kind']} -0.0, {m['value']}"


def _operand(text: str) -> tuple[str, str, str]:
    """(pointer type, place, rest of the text) of an operand that is a pointer."""
    first, *others = _split(text)
    end = _type_end(first)
    return first[:end], first[end + 1 :], "".join(f", {other}" for other in others)


_NAME = r'(?P<name>%(?:"[^"]*"|[\w.$-]+))'
_INSTRUCTIONS: list[tuple[re.Pattern[str], Callable[[_Instruction, re.Match[str]], str]]] = [
    (re.compile(rf"(?P<head>{_NAME} = load(?: volatile)?) (?P<rest>.*)"), _Instruction.load),
    (re.compile(r"(?P<head>store(?: volatile)?) (?P<rest>.*)"), _Instruction.store),
    (
        re.compile(rf"{_NAME} = getelementptr (?P<flags>(?:(?:inbounds|nuw|nusw) )*)(?P<rest>.*)"),
        _Instruction.getelementptr,
    ),
    (re.compile(rf"{_NAME} = alloca (?P<rest>.*)"), _Instruction.alloca),
    (
        re.compile(rf"(?P<head>{_NAME} = atomicrmw(?: volatile)? (?P<operation>\w+)) (?P<rest>.*)"),
        _Instruction.atomicrmw,
    ),
    (re.compile(rf"(?P<head>{_NAME} = cmpxchg(?: weak)?(?: volatile)?) (?P<rest>.*)"), _Instruction.cmpxchg),
    (re.compile(rf"{_NAME} = fneg (?P<flags>(?:\w+ )*)(?P<kind>half|float|double) (?P<value>\S+)"), _Instruction.fneg),
]


def _extremum(name: str, kind: str) -> str:
    """``llvm.maximum`` or ``llvm.minimum`` spelt out: NaN wins, and -0 is less than +0."""
    bits = "i64" if kind == "double" else "i32"
    beats, of_zeros = ("ogt", "and") if name == "maximum" else ("olt", "or")
    return f"""\
define internal {kind} @tg.{name}.f{bits[1:]}({kind} %a, {kind} %b) alwaysinline nounwind readnone {{
  %beats = fcmp {beats} {kind} %a, %b
  %winner = select i1 %beats, {kind} %a, {kind} %b
  %x = bitcast {kind} %a to {bits}
  %y = bitcast {kind} %b to {bits}
  %z = {of_zeros} {bits} %x, %y
  %same = bitcast {bits} %z to {kind}
  %equal = fcmp oeq {kind} %a, %b
  %number = select i1 %equal, {kind} %same, {kind} %winner
  %unordered = fcmp uno {kind} %a, %b
  %nan = fadd {kind} %a, %b
  %result = select i1 %unordered, {kind} %nan, {kind} %number
  ret {kind} %result
}}"""


# intrinsics that LLVM 7 does not have -> their definitions
_DEFINITIONS = {
    f"@llvm.{name}.{suffix}": _extremum(name, kind)
    for name in ("maximum", "minimum")
    for suffix, kind in (("f64", "double"), ("f32", "float"))
}
