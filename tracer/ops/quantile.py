"""The normal quantile as a scalar expression, which the loops of a kernel can vectorise.

M. J. Wichura: Algorithm AS 241: The percentage points of the normal distribution, Applied Statistics 37 (1988), pages
477-484, PPND16: a ratio of two polynomials of degree 7 in a variable r, in three regions, with relative errors about
1e-16.  All regions share one evaluation: only the coefficients and r are chosen.
"""

from __future__ import annotations

import math
from typing import Any

# (numerator, denominator), lowest degree first
_CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


def lower_ndtri(s: Any, p: Any) -> Any:
    """The normal quantile of *p*: -inf at 0, inf at 1, NaN outside."""
    q = s.sub(p, s.const(0.5))
    central = s.cmp("<=", s.abs(q), s.const(0.425))
    nearer_end = s.select(s.cmp("<", q, s.const(0)), p, s.sub(s.const(1), p))
    depth = s.intrinsic("sqrt", s.neg(s.call("log", nearer_end)))
    far = s.cmp(">", depth, s.const(5))
    outside = s.sub(depth, s.select(far, s.const(5), s.const(1.6)))
    r = s.select(central, s.sub(s.const(0.180625), s.mul(q, q)), outside)

    powers = [r, s.mul(r, r)]
    powers.append(s.mul(powers[1], powers[1]))

    def polynomial(part: int) -> Any:
        terms = []
        for a, c, e in zip(_CENTRE[part], _TAIL[part], _FAR_TAIL[part], strict=True):
            one = a == c == e
            terms.append(s.const(a) if one else s.select(central, s.const(a), s.select(far, s.const(e), s.const(c))))
        for power in powers:  # Estrin's scheme: neighbours are joined, so that few operations wait for one another
            terms = [s.add(low, s.mul(high, power)) for low, high in zip(terms[::2], terms[1::2], strict=True)]
        return terms[0]

    ratio = s.div(polynomial(0), polynomial(1))
    ratio = s.select(s.cmp("==", depth, s.const(math.inf)), s.const(math.inf), ratio)
    return s.select(central, s.mul(q, ratio), s.intrinsic("copysign", ratio, q))
