"""Recovery: the log's valid end, the cut after it, and queues and index to match.

As plans.
"""

from __future__ import annotations

from store.public_names import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __spec__)
