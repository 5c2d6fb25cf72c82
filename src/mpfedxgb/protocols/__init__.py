"""What can be computed on secrets, for any model: every function that talks takes the party first.

Everything that the rooms above use is here, and what a program of one's own may want besides.
"""

from mpfedxgb.protocols.argmax import Fractions, argmax, fractions, winning_tags
from mpfedxgb.protocols.bits import (
    Bit,
    BitProduct,
    bit_times,
    both,
    multiplying_by_bits,
    open_bit,
    opening_bit,
    select,
    share_bit,
    shares_of_bit_products,
    sums_of_bit_products,
)
from mpfedxgb.protocols.bits_to_ring import BitField, bits_into_ring, bits_to_ring
from mpfedxgb.protocols.compare import comparing_with_zero, less_than, negative
from mpfedxgb.protocols.compare_bits import (
    BitSigns,
    Borrow,
    Ending,
    Sign,
    bit_signs,
    compare_together,
    negative_by_bits,
)
from mpfedxgb.protocols.divide import ITERATIONS, divide, reciprocal
from mpfedxgb.protocols.lift import lift, lift_opened, lift_secret, lifting
from mpfedxgb.protocols.local_rows import LocalRows
from mpfedxgb.protocols.look_up import look_up, looking_up
from mpfedxgb.protocols.multiply import Product, inner_product, multiply, multiplying, sum_of_products, sums_of_products
from mpfedxgb.protocols.opening import (
    Opening,
    Pending,
    Steps,
    follow_openings,
    masking,
    open_groups,
    open_masked,
    open_pending,
    open_shares,
)
from mpfedxgb.protocols.plan import Plan, plan
from mpfedxgb.protocols.private_matrix import KEPT_BYTES, PrivateMatrix, matrices_times, publish_matrix
from mpfedxgb.protocols.quotient import LongDivision, long_division, quotient, rounded_quotient
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.row_blocks import BitMatrix, Matrix, RowBlocks, RowLayout, Tile, combined, expanded, tiles_times
from mpfedxgb.protocols.rows import RowVectors, Sides, mask_rows, masked_by, masking_rows, split_rows, splitting_rows
from mpfedxgb.protocols.secret import (
    Secret,
    Shares,
    concatenate,
    concatenate_shares,
    public_secret,
    public_shares,
    reduced,
    stack,
    to_shares,
)
from mpfedxgb.protocols.share import share, share_each, share_together
from mpfedxgb.protocols.stages import Layout, Stage
from mpfedxgb.protocols.storage import Storage, is_in_memory, matrix_bytes
from mpfedxgb.protocols.tag import NOBODY, OWN_SPLIT, Opened, Tags, make_tags, open_tags
from mpfedxgb.protocols.truncate import cut, round_off, shift, truncate

__all__ = [
    "ITERATIONS",
    "KEPT_BYTES",
    "NOBODY",
    "OWN_SPLIT",
    "Bit",
    "BitField",
    "BitMatrix",
    "BitProduct",
    "BitSigns",
    "Borrow",
    "Ending",
    "Fractions",
    "Layout",
    "LocalRows",
    "LongDivision",
    "Matrix",
    "Opened",
    "Opening",
    "Pending",
    "Plan",
    "PrivateMatrix",
    "Product",
    "RowBlocks",
    "RowLayout",
    "RowVectors",
    "Secret",
    "Shares",
    "Sides",
    "Sign",
    "Stage",
    "Steps",
    "Storage",
    "Tags",
    "Tile",
    "argmax",
    "bit_signs",
    "bit_times",
    "bits_into_ring",
    "bits_to_ring",
    "both",
    "combined",
    "compare_together",
    "comparing_with_zero",
    "concatenate",
    "concatenate_shares",
    "cut",
    "divide",
    "expanded",
    "follow_openings",
    "fractions",
    "inner_product",
    "is_in_memory",
    "less_than",
    "lift",
    "lift_opened",
    "lift_secret",
    "lifting",
    "long_division",
    "look_up",
    "looking_up",
    "make_tags",
    "mask_rows",
    "masked_by",
    "masking",
    "masking_rows",
    "matrices_times",
    "matrix_bytes",
    "multiply",
    "multiplying",
    "multiplying_by_bits",
    "negative",
    "negative_by_bits",
    "open_bit",
    "open_groups",
    "open_masked",
    "open_pending",
    "open_shares",
    "open_tags",
    "opening_bit",
    "plan",
    "public_secret",
    "public_shares",
    "publish_matrix",
    "quotient",
    "reciprocal",
    "reduced",
    "reveal",
    "round_off",
    "rounded_quotient",
    "select",
    "share",
    "share_bit",
    "share_each",
    "share_together",
    "shares_of_bit_products",
    "shift",
    "split_rows",
    "splitting_rows",
    "stack",
    "sum_of_products",
    "sums_of_bit_products",
    "sums_of_products",
    "tiles_times",
    "to_shares",
    "truncate",
    "winning_tags",
]
