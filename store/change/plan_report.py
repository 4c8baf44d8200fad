"""The report of a plan, without the change: losses are counted where nothing is changed too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PlanReport:
    """Findings of a plan; its fields have the names of its JSON document."""
