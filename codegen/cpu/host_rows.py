"""Rows that NumPy does between kernels, as code of their own, for functions that have no NumPy beside them.

Kernels for Python leave them to NumPy, which is faster at them.  The results are the same: an order that ties leave as
it is, and NaN at its end; positions.  Start reading at :func:`without_numpy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import llvmlite.ir as ir

from ...tracer.ir.graph import Graph, Node
from ...tracer.ir.primitive import LOOP, Primitive
from ...tracer.ops.indexing import ARGSORT, NONZERO
from ..lower.canonical import CanonicalOp
from .scalar import I8, I64, PTR, cell, counting, declare

_HERE = {prim: replace(prim, name=f"{prim.name}_here") for prim in (ARGSORT, NONZERO)}
_DECLARED = re.compile(r'^declare void @"tg_argsort_(\w+)"\([^\n]*$', re.MULTILINE)
_TYPES = {
    "f4": "float",
    "f8": "double",
    **{f"{kind}{n}": f"i{8 * n}" for kind in "iu" for n in (1, 2, 4, 8)},
    "b1": "i8",
}


def without_numpy(graph: Graph) -> Graph:
    """*graph* with rows that have code here, where there is one; else as it is."""
    nodes = [_here(node) for node in graph.nodes]
    return graph if nodes == graph.nodes else replace(graph, nodes=nodes)


def _here(node: Node) -> Node:
    if node.prim.kind == LOOP:
        body = without_numpy(node.params["body"])
        return node if body is node.params["body"] else _changed(node, node.prim, {**node.params, "body": body})
    prim = _HERE.get(node.prim)
    if prim is None or node.inputs[0].aval.dtype.str[1:] not in _TYPES:
        return node
    return _changed(node, prim, node.params)


def _changed(node: Node, prim: Primitive, params: dict[str, Any]) -> Node:
    return Node(prim, node.inputs, params, node.outs, node.site)


def _argsort(calls: Any, op: CanonicalOp) -> None:
    b, (x,) = calls.b, op.ins
    name = f"tg_argsort_{x.dtype.str[1:]}"
    function = declare(b.module, name, ir.VoidType(), PTR, PTR, I64)
    length, rows = calls._count(op.out.dims[-1:]), calls._count(op.out.dims[:-1])
    keys, places = calls._buffer(x), calls.pointer(op.out)
    with counting(b, rows) as row:
        first = b.mul(row, length)
        key = b.gep(keys, [b.mul(first, I64(x.dtype.itemsize))], source_etype=I8)
        b.call(function, [key, b.gep(places, [first], source_etype=I64), length])


def _nonzero(calls: Any, op: CanonicalOp) -> None:
    """Positions of as many elements that hold as the result has places; a guard sees to it that it has as many."""
    b, (mask,), out = calls.b, op.ins, calls.pointer(op.out)
    size, room, source = calls._count(mask.dims), calls._count(op.out.dims), calls._buffer(mask)
    with counting(b, room) as i:
        b.store(I64(0), b.gep(out, [i], source_etype=I64))
    found = cell(calls.entry, b, I64(0))
    with counting(b, size) as i:
        held = b.icmp_unsigned("!=", b.load(b.gep(source, [i], source_etype=I8), typ=I8), I8(0))
        k = b.load(found, typ=I64)
        with b.if_then(b.and_(held, b.icmp_signed("<", k, room))):
            b.store(i, b.gep(out, [k], source_etype=I64))
            b.store(b.add(k, I64(1)), found)


EMITTED: dict[str, Callable[[Any, CanonicalOp], None]] = {
    _HERE[ARGSORT].name: _argsort,
    _HERE[NONZERO].name: _nonzero,
}


def complete(text: str) -> str:
    """*text*, a printed module, with the functions that it declares."""
    return _DECLARED.sub(lambda match: _argsort_text(match[1]), text)


def _argsort_text(code: str) -> str:
    """LLVM IR of ``void (keys, places, n)``: places of n keys in their order; those of equal keys, and of NaN, in
    theirs.  A heap, since no two elements are equal where places decide, and it needs no memory."""
    kind = _TYPES[code]
    if code[0] == "f":
        compared = """
  %less = fcmp olt {kind} %x, %y
  %more = fcmp olt {kind} %y, %x
  %x.nan = fcmp uno {kind} %x, %x
  %y.nan = fcmp uno {kind} %y, %y
  %only.y = icmp ult i1 %x.nan, %y.nan
  %only.x = icmp ult i1 %y.nan, %x.nan
  %before = or i1 %less, %only.y
  %after = or i1 %more, %only.x"""
    else:
        sign = "s" if code[0] == "i" else "u"
        compared = f"""
  %before = icmp {sign}lt {{kind}} %x, %y
  %after = icmp {sign}lt {{kind}} %y, %x"""
    return _ARGSORT.replace("{compared}", compared.strip("\n")).replace("{kind}", kind).replace("{name}", code)


_ARGSORT = """
define internal i1 @"tg_before_{name}"(ptr %keys, i64 %i, i64 %j) alwaysinline nounwind {
  %x.at = getelementptr {kind}, ptr %keys, i64 %i
  %y.at = getelementptr {kind}, ptr %keys, i64 %j
  %x = load {kind}, ptr %x.at
  %y = load {kind}, ptr %y.at
{compared}
  %first = icmp ult i64 %i, %j
  %tie = select i1 %after, i1 false, i1 %first
  %result = or i1 %before, %tie
  ret i1 %result
}
define internal void @"tg_sift_{name}"(ptr %keys, ptr %places, i64 %root, i64 %end) nounwind {
entry:
  %root.at = getelementptr i64, ptr %places, i64 %root
  %moved = load i64, ptr %root.at
  br label %down
down:
  %hole = phi i64 [ %root, %entry ], [ %chosen, %up ]
  %twice = shl i64 %hole, 1
  %left = add i64 %twice, 1
  %right = add i64 %twice, 2
  %has.left = icmp ult i64 %left, %end
  br i1 %has.left, label %children, label %done
children:
  %has.right = icmp ult i64 %right, %end
  %left.at = getelementptr i64, ptr %places, i64 %left
  %left.place = load i64, ptr %left.at
  br i1 %has.right, label %both, label %choose
both:
  %right.at = getelementptr i64, ptr %places, i64 %right
  %right.place = load i64, ptr %right.at
  %right.last = call i1 @"tg_before_{name}"(ptr %keys, i64 %left.place, i64 %right.place)
  %later = select i1 %right.last, i64 %right, i64 %left
  %later.place = select i1 %right.last, i64 %right.place, i64 %left.place
  br label %choose
choose:
  %chosen = phi i64 [ %left, %children ], [ %later, %both ]
  %chosen.place = phi i64 [ %left.place, %children ], [ %later.place, %both ]
  %below = call i1 @"tg_before_{name}"(ptr %keys, i64 %moved, i64 %chosen.place)
  br i1 %below, label %up, label %done
up:
  %hole.at = getelementptr i64, ptr %places, i64 %hole
  store i64 %chosen.place, ptr %hole.at
  br label %down
done:
  %last.at = getelementptr i64, ptr %places, i64 %hole
  store i64 %moved, ptr %last.at
  ret void
}
define internal void @"tg_argsort_{name}"(ptr %keys, ptr %places, i64 %n) nounwind {
entry:
  %some = icmp ugt i64 %n, 0
  br i1 %some, label %number, label %done
number:
  %i = phi i64 [ 0, %entry ], [ %i.next, %number ]
  %i.at = getelementptr i64, ptr %places, i64 %i
  store i64 %i, ptr %i.at
  %i.next = add i64 %i, 1
  %numbered = icmp eq i64 %i.next, %n
  br i1 %numbered, label %heap.begin, label %number
heap.begin:
  %half = lshr i64 %n, 1
  br label %heap
heap:
  %above = phi i64 [ %half, %heap.begin ], [ %at, %heap.next ]
  %rest = icmp eq i64 %above, 0
  br i1 %rest, label %order, label %heap.next
heap.next:
  %at = sub i64 %above, 1
  call void @"tg_sift_{name}"(ptr %keys, ptr %places, i64 %at, i64 %n)
  br label %heap
order:
  %end = phi i64 [ %n, %heap ], [ %end.next, %take ]
  %end.next = sub i64 %end, 1
  %ordered = icmp eq i64 %end.next, 0
  br i1 %ordered, label %done, label %take
take:
  %end.at = getelementptr i64, ptr %places, i64 %end.next
  %largest = load i64, ptr %places
  %other = load i64, ptr %end.at
  store i64 %largest, ptr %end.at
  store i64 %other, ptr %places
  call void @"tg_sift_{name}"(ptr %keys, ptr %places, i64 0, i64 %end.next)
  br label %order
done:
  ret void
}
"""
