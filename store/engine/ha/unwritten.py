"""Bytes of a copied log that a power cut left unwritten: zeros to the end of their sector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ByteArray = npt.NDArray[np.uint8]
BoolArray = npt.NDArray[np.bool_]
SECTOR = 512
"""The unit in which a device writes: a power cut leaves it written, unwritten or torn."""


def unwritten(held: ByteArray, position: int) -> BoolArray:
    """Mark the bytes that are zeros up to the end of their sector.

    position  of the first byte in its file
    """
    lead = position % SECTOR
    zeros = np.pad(held == 0, (lead, -(lead + len(held)) % SECTOR), constant_values=True).reshape(-1, SECTOR)
    rest: BoolArray = np.logical_and.accumulate(zeros[:, ::-1], axis=1)[:, ::-1]
    return rest.reshape(-1)[lead : lead + len(held)]
