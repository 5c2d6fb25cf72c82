"""What can be computed on secrets, for any model: every function that talks takes the party first.

Everything that the rooms above use is here, and what a custom program may want besides.
"""

from mpfedxgb.protocols.argmax import Fractions, argmax, fractions, winning_tags
from mpfedxgb.protocols.bits import (
    Bit,
    BitField,
    BitProduct,
    bit_times,
    bits_into_ring,
    bits_to_ring,
    both,
    multiplying_by_bits,
    open_bit,
    opening_bit,
    select,
    share_bit,
    shares_of_bit_products,
    sums_of_bit_products,
)
from mpfedxgb.protocols.compare import comparing_with_zero, less_than, negative
from mpfedxgb.protocols.compare_bits import (
    BitSigns,
    Borrow,
    Comparing,
    Ending,
    Gated,
    Sign,
    bit_planes,
    bit_signs,
    compare_together,
    negative_by_bits,
)
from mpfedxgb.protocols.opening import (
    Opening,
    Pending,
    Product,
    SideBySide,
    Steps,
    finish,
    follow_openings,
    inner_product,
    masking,
    multiply,
    multiplying,
    open_groups,
    open_masked,
    open_pending,
    open_shares,
    sum_of_products,
    sums_of_products,
)
from mpfedxgb.protocols.plan import Layout, Plan, Stage, plan
from mpfedxgb.protocols.quotient import (
    ITERATIONS,
    LongDivision,
    cut,
    divide,
    lift,
    lift_opened,
    lift_secret,
    lifting,
    long_division,
    quotient,
    reciprocal,
    round_off,
    rounded_quotient,
    shift,
    truncate,
)
from mpfedxgb.protocols.reveal import NOBODY, Opened, Tags, make_tags, open_tags, reveal
from mpfedxgb.protocols.row_blocks import (
    Besides,
    BitMatrix,
    Matrix,
    RowBlocks,
    RowLayout,
    Tile,
    combined,
    expanded,
    share_key,
    tiles_times,
)
from mpfedxgb.protocols.rows import (
    RowVectors,
    Sides,
    look_up,
    looking_up,
    mask_rows,
    masked_by,
    masking_rows,
    rows_in_turns,
    split_rows,
    splitting_rows,
)
from mpfedxgb.protocols.secret import (
    Secret,
    Shares,
    add_public,
    concatenate,
    concatenate_shares,
    public_secret,
    public_shares,
    reduced,
    stack,
    to_shares,
)
from mpfedxgb.protocols.share import (
    KEPT_BYTES,
    PrivateMatrix,
    matrices_times,
    publish_matrices,
    publish_matrix,
    share,
    share_each,
    share_together,
)
from mpfedxgb.protocols.storage import LocalRows, Storage, is_in_memory, matrix_bytes

# fmt: off
__all__ = [
    "ITERATIONS", "KEPT_BYTES", "NOBODY", "Besides", "Bit", "BitField", "BitMatrix", "BitProduct", "BitSigns", "Borrow",
    "Comparing", "Ending", "Fractions", "Gated", "Layout", "LocalRows", "LongDivision", "Matrix", "Opened", "Opening",
    "Pending", "Plan", "PrivateMatrix", "Product", "RowBlocks", "RowLayout", "RowVectors", "Secret", "Shares",
    "SideBySide", "Sides", "Sign", "Stage", "Steps", "Storage", "Tags", "Tile", "add_public", "argmax", "bit_planes",
    "bit_signs", "bit_times", "bits_into_ring", "bits_to_ring", "both", "combined", "compare_together",
    "comparing_with_zero", "concatenate", "concatenate_shares", "cut", "divide", "expanded", "finish",
    "follow_openings", "fractions", "inner_product", "is_in_memory", "less_than", "lift", "lift_opened", "lift_secret",
    "lifting", "long_division", "look_up", "looking_up", "make_tags", "mask_rows", "masked_by", "masking",
    "masking_rows", "matrices_times", "matrix_bytes", "multiply", "multiplying", "multiplying_by_bits", "negative",
    "negative_by_bits", "open_bit", "open_groups", "open_masked", "open_pending", "open_shares", "open_tags",
    "opening_bit", "plan", "public_secret", "public_shares", "publish_matrices", "publish_matrix", "quotient",
    "reciprocal", "reduced", "reveal", "round_off", "rounded_quotient", "rows_in_turns", "select", "share", "share_bit",
    "share_each", "share_key", "share_together", "shares_of_bit_products", "shift", "split_rows", "splitting_rows",
    "stack", "sum_of_products", "sums_of_bit_products", "sums_of_products", "tiles_times", "to_shares", "truncate",
    "winning_tags",
]
# fmt: on
