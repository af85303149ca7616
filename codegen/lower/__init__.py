"""From a graph to a canonical program: small rewrites (``simplify.py``), half precision as float32, equal axes, and the
signature (``canonical.py``) by which kernels are found again."""
