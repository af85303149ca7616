"""The CPU: loop nests, library calls and loops over a body as LLVM IR, and machine code of that.

Start reading at ``assemble.py`` (a graph to a program), then ``loop_nest.py`` (where a kernel's loop is printed), then
``expressions.py`` (one element of a value) and ``scalar.py`` (one operation).
"""
