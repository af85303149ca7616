"""Heat in a rod by Crank and Nicolson's scheme: the diffusivity of its materials from the readings of a few sensors.

The readings are a table, as a logger writes it: a column of times, and one for each sensor.
"""

import io

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_banded

LOG = """time,s1,s2,s3
0.02,0.211,0.447,0.118
0.04,0.236,0.391,0.143
0.06,0.248,0.352,0.157
0.08,0.252,0.321,0.163
0.10,0.251,0.295,0.166
"""


def readings():
    """The log as a frame, one row for each time."""
    return pd.read_csv(io.StringIO(LOG)).set_index("time")


class Rod:
    """A rod of length 1, cold at its ends, of *cells* cells, with sensors at *places*."""

    def __init__(self, cells, places=(0.2, 0.5, 0.83)):
        self.dx = 1.0 / cells
        self.x = np.linspace(0.0, 1.0, cells + 1)
        self.places = np.asarray(places)

    def initial(self):
        return np.exp(-80.0 * (self.x - 0.42) ** 2)

    def diffusivity(self, log_k):
        """At the midpoints of the cells, from its logarithm at equally spaced knots."""
        knots = np.linspace(0.0, 1.0, len(log_k))
        return np.exp(CubicSpline(knots, log_k, bc_type="natural")(self.x[:-1] + self.dx / 2))

    def simulate(self, log_k, times, steps_per_reading=8):
        """Temperatures at the sensors, (times, sensors)."""
        k = self.diffusivity(log_k)
        u = self.initial()
        seen = np.empty((len(times), len(self.places)))
        before = 0.0
        for row, time in enumerate(times):
            dt = (time - before) / steps_per_reading
            r = 0.5 * dt / self.dx**2 * k
            bands = np.zeros((3, len(u) - 2))
            bands[0, 1:] = -r[1:-1]
            bands[1] = 1.0 + r[:-1] + r[1:]
            bands[2, :-1] = -r[1:-1]
            for _ in range(steps_per_reading):
                flux = r * np.diff(u)
                u[1:-1] = solve_banded((1, 1), bands, u[1:-1] + np.diff(flux))
            seen[row] = np.interp(self.places, self.x, u)
            before = time
        return seen


def misfit(log_k, rod, frame, smooth=1e-3):
    """The squared misfit of the sensors' readings, and a penalty on a rough diffusivity."""
    found = rod.simulate(log_k, frame.index.to_numpy())
    return np.sum((found - frame.to_numpy()) ** 2) + smooth * np.sum(np.diff(log_k, 2) ** 2)
