"""What can be computed on secrets, for any model: every function that talks takes the party first."""

from mpfedxgb.protocols.argmax import Fractions, argmax, fractions
from mpfedxgb.protocols.bits import (
    Bit,
    BitProduct,
    bit_times,
    both,
    open_bit,
    select,
    share_bit,
    sums_of_bit_products,
)
from mpfedxgb.protocols.compare import less_than, negative
from mpfedxgb.protocols.divide import divide, reciprocal
from mpfedxgb.protocols.lift import lift, lift_secret
from mpfedxgb.protocols.multiply import Product, inner_product, multiply, sum_of_products, sums_of_products
from mpfedxgb.protocols.opening import open_masked, open_masked_batch
from mpfedxgb.protocols.private_matrix import BitMatrix, Matrix, PrivateMatrix, matrix_times, publish_matrix
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.secret import Secret, Shares, public_secret, public_shares, to_shares
from mpfedxgb.protocols.share import share
from mpfedxgb.protocols.tag import NOBODY, Opened, Tags, make_tags, open_tags
from mpfedxgb.protocols.truncate import truncate

__all__ = [
    "NOBODY",
    "Bit",
    "BitMatrix",
    "BitProduct",
    "Fractions",
    "Matrix",
    "Opened",
    "PrivateMatrix",
    "Product",
    "Secret",
    "Shares",
    "Tags",
    "argmax",
    "bit_times",
    "both",
    "divide",
    "fractions",
    "inner_product",
    "less_than",
    "lift",
    "lift_secret",
    "make_tags",
    "matrix_times",
    "multiply",
    "negative",
    "open_bit",
    "open_masked",
    "open_masked_batch",
    "open_tags",
    "public_secret",
    "public_shares",
    "publish_matrix",
    "reciprocal",
    "reveal",
    "select",
    "share",
    "share_bit",
    "sum_of_products",
    "sums_of_bit_products",
    "sums_of_products",
    "to_shares",
    "truncate",
]
