"""What was run: avals, the IR, primitives with their derivative rules, recording, guards, the traced array.

Start reading at ``ir/graph.py`` (what a program is), then ``ir/primitive.py`` and ``ops/elementwise.py`` (what it is
made of), then ``record/array.py`` (how plain NumPy code becomes one), then ``reroll/roll.py`` (how loops are found).
"""
