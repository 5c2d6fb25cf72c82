"""Write pins.json, which test_pins.py holds the code to.

    PYTHONPATH=tests:benchmarks python tests/lossless/write_pins.py

Look at the difference before it is committed: what changed has to be what was meant to.
"""

from __future__ import annotations

import json
from pathlib import Path

from support.pins import all_pins

if __name__ == "__main__":
    path = Path(__file__).with_name("pins.json")
    path.write_text(json.dumps(all_pins(), indent=1) + "\n", encoding="utf-8")
