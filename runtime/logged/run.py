"""The object that converted code goes through (``tracer/convert``): it does what Python does, and logs what is read.

A ``LoggedRun`` belongs to one recorded run, a ``LoggedFrame`` to one function in it. Objects that the run has found
outside are known by identity (``ReadLog.node_of``); everything else it has made itself, and needs no entry. Whatever
is done that the log does not hold raises ``NotClosedError``. The parts stand in files of their own, each on the one
before: ``writing.py``, ``handing.py``, ``containers.py``, ``calls.py``; what a copy calls is ``frame.py``.
"""

from __future__ import annotations

from ...tracer.ir.site import FOR_THE_USER
from . import containers, handing
from .calls import Calls

FOR_THE_USER.update((containers.__file__, handing.__file__))


class LoggedRun(Calls):
    """One run of converted code."""
