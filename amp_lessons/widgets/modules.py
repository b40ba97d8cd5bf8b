"""The widgets' ES modules and style sheets, for a notebook: see `es_modules`."""

from __future__ import annotations

from amp_lessons.es_modules import STATIC, join_modules, read_static

__all__ = ["STATIC", "join_modules", "read_static"]
