"""What a plan found out: a module of its own, as losses are counted where nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class PlanReport:
    """Findings of a plan; its fields have the names of its JSON document."""
