"""The CPU target: a schedule to LLVM IR to machine code. ``assemble.py`` is the first file to read: a graph to a
program, and the kernel's entry, which calls the steps in order and checks guards between them. Then ``loop_nest.py``
(where a kernel's loop is printed), ``expressions.py`` (one element of a value), ``scalar.py`` (one operation),
``loop_node.py`` (a loop over a body), ``library_calls.py`` (BLAS, indexed writes), ``jit.py`` (IR to machine code).
"""
