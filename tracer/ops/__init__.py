"""The primitive tables.  One row is one operation; ``../primitive.py`` says what a row holds."""

from . import custom, elementwise, indexing, product, reduce, shape, threefry

__all__ = ["custom", "elementwise", "indexing", "product", "reduce", "shape", "threefry"]
