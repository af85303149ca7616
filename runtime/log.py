"""The log: recordings with their reasons, kernels that are compiled, and what was not fused.

Loggers ``tracegrad.recompiles`` (INFO), ``tracegrad.compiles`` (INFO) and ``tracegrad.fusion`` (DEBUG) of the standard
library have it; ``config.log`` (``TRACEGRAD_LOG=recompiles,fusion``) prints topics on standard error, without any
set-up.  Whatever a call does that was recorded before is never told.
"""

from __future__ import annotations

import sys
from typing import Any

from ..tracer.ir.site import user_site
from .config import config
from .stats import NOTED

_INFO, _DEBUG = 20, 10  # of ``logging``, which is not imported here: who has not done so wants no records
_LEVELS = {"recompiles": _INFO, "compiles": _INFO, "fusion": _DEBUG}


_loggers: dict[str, Any] = {}


def _logger(topic: str) -> Any:
    """The logger of a topic, if anybody has imported ``logging``.  It is asked for once: a thread that is interrupted
    while it asks leaves the lock of ``logging`` taken."""
    if topic not in _loggers and hasattr(logging := sys.modules.get("logging"), "getLogger"):
        _loggers[topic] = logging.getLogger(f"tracegrad.{topic}")  # type: ignore[union-attr]
    return _loggers.get(topic)


def wanted(topic: str) -> bool:
    """Whether anybody is to be told."""
    logger = _logger(topic)
    return _printed(topic) or (logger is not None and logger.isEnabledFor(_LEVELS[topic]))


def _printed(topic: str) -> bool:
    return bool(config.log) and not {topic, "all"}.isdisjoint(config.log.split(","))


def tell(topic: str, text: str) -> None:
    """One line for a topic."""
    logger = _logger(topic)
    if logger is not None:
        logger.log(_LEVELS[topic], "%s", text)
    if _printed(topic) and sys.stderr is not None:
        print(f"tracegrad {topic}: {text}", file=sys.stderr)


def _noted(name: str, reason: str) -> None:
    if wanted("recompiles"):
        site = user_site()
        tell("recompiles", f"{name} is recorded{f' for the call at {site}' if site else ''}: {reason}")


NOTED.append(_noted)


def compiled(name: str, recording: Any, program: Any, known: bool) -> None:
    """The kernel of a recording was made or read, unless it was *known*."""
    if not known and wanted("compiles"):
        took = ", ".join(f"{phase} {1e3 * seconds:.1f} ms" for phase, seconds in program.seconds.items())
        tell("compiles", f"{name}: {len(recording.graph.nodes)} operations, {took or 'read from disk'}")
    if wanted("fusion"):
        for note in dict.fromkeys([*recording.notes, *program.schedule.notes]):
            tell("fusion", f"{name}: {note}")
