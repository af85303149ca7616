"""What was run: avals, the IR, primitives with their derivative rules, recording, guards, the traced array.

Start reading at ``ir.py`` (what a program is), then ``primitive.py`` and ``ops/elementwise.py`` (what it is made
of), then ``array.py`` (how plain NumPy code becomes one).
"""
