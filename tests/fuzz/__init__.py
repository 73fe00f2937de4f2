"""A fuzzer: random and hostile input, each case made from a kind and a seed alone.

``python -m tests.fuzz --cases 200000 --jobs 2`` runs as many cases as one likes; see docs/sanitizers.md.
"""

import sys
from pathlib import Path

# The helpers of the other tests are modules by themselves, as pytest has it.
if str(Path(__file__).parents[1]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[1]))
