"""How property tests run: no deadline, since machines are busy at times; a failure prints how to repeat it."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("mpfedxgb", deadline=None, print_blob=True)
settings.load_profile("mpfedxgb")
