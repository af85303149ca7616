"""What will run: the adjoint of a graph, its canonical form, its schedule, and the code of both targets.

Rooms in the order of the data: ``derive`` (graph to graph), ``lower`` (graph to canonical program and signature),
``schedule`` (what is stored, which loops are shared), ``cpu`` and ``cuda`` (LLVM IR to machine code). ``evaluate`` runs
a graph node by node instead. Start reading at ``cpu/assemble.py``, the whole pipeline.
"""
