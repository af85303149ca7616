"""Compilation of recorded graphs: adjoint, canonical form, schedule, and code for the CPU and CUDA.

Rooms in the order of the data: ``derive`` (graph to graph), ``lower`` (graph to canonical program and signature),
``schedule`` (what is stored, which loops are shared), ``cpu`` and ``cuda`` (LLVM IR to machine code). ``evaluate`` runs
a graph node by node instead. Start reading at ``cpu/assemble.py``, the whole pipeline.
"""
