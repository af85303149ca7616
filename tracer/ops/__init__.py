"""The primitive tables.  One row is one operation; ``../primitive.py`` says what a row holds."""

from . import elementwise, indexing, product, reduce, shape

__all__ = ["elementwise", "indexing", "product", "reduce", "shape"]
