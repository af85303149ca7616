"""Explicit loops and branches: ``scan``, ``fori_loop``, ``map``, ``while_loop``, ``cond``, ``switch``."""
