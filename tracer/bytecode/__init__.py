"""What CPython will do next, read from the user's bytecode.

Loops and live variables (``control_flow.py``), whether a turn of a loop is a function of its local variables
(``purity.py``), who asks for a plain value (``concretize.py``).
"""
