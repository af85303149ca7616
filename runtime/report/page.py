"""Reports as one page of HTML."""

from __future__ import annotations

import html
from typing import Any


def page_of(report: Any) -> str:
    """The page of a report."""
    return f"<pre>{html.escape(report.at('all'))}</pre>"


def framed(page: str) -> str:
    """*page* for a notebook's cell, which its styles don't leave."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:480px;border:0"></iframe>'
