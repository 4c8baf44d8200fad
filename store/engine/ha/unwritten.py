"""Bytes of a copied log that a power cut left unwritten: zeros to the end of their sector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]
SECTOR = 512
"""What a device writes as a whole, or tears."""


def unwritten(held: ByteArray, position: int) -> BoolArray:
    """Tell of each byte whether zeros follow to its sector's end.

    position  the first byte's in its file
    """
    lead = position % SECTOR
    zeros = np.pad(held == 0, (lead, -(lead + len(held)) % SECTOR), constant_values=True).reshape(-1, SECTOR)
    rest: BoolArray = np.logical_and.accumulate(zeros[:, ::-1], axis=1)[:, ::-1]
    return rest.reshape(-1)[lead : lead + len(held)]
