"""BLAKE2b: ``hashlib`` loads OpenSSL for it, which takes ten times as long as most that is digested here."""

from __future__ import annotations

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # pragma: no cover
    from hashlib import blake2b as blake2b
