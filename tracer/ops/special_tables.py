"""All rows of functions of scipy.special, which this module imports: ``F`` and the registry have them afterwards."""

from . import (  # noqa: F401  (each fills the registry)
    special_bessel,
    special_distributions,
    special_elementary,
    special_elliptic,
    special_lowered,
    special_polynomials,
)
