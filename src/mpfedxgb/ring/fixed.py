"""Fixed point: the single rounding from real numbers to integers, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError

_LARGEST = 1 << 62
_INT64 = (1 << 63) - 1


def encode_fixed(values: npt.ArrayLike, fraction_bits: int, limit: int | None = None) -> npt.NDArray[np.int64]:
    """Return rint(values * 2^fraction_bits) as integers.

    Parameters
    ----------
    values : array of float
    fraction_bits : int
        May be negative for values beyond 2^62.
    limit : int or None
        Largest magnitude allowed for a result; 2^62 if None.

    Raises
    ------
    DoesNotFitError
        If a value is not finite, or its integer is larger than the limit.
    """
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise DoesNotFitError("a value is not a finite number, so it has no fixed-point form")
    with np.errstate(over="ignore"):  # infinity is refused below
        scaled = np.rint(np.ldexp(array, fraction_bits))
    bound = _LARGEST if limit is None else min(limit, _INT64)
    if scaled.size and float(np.abs(scaled).max()) > bound:
        raise DoesNotFitError(
            f"with {fraction_bits} fraction bits a value needs more than the {bound.bit_length()} bits there are; "
            "use fewer fraction bits or scale the values down"
        )
    return scaled.astype(np.int64)


def decode_fixed(values: npt.NDArray[np.signedinteger], fraction_bits: int) -> npt.NDArray[np.float64]:
    """Return integers / 2^fraction_bits as floats."""
    return np.ldexp(np.asarray(values, np.float64), -fraction_bits)
