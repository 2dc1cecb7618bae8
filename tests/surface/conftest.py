"""The whole HTTP surface in front of the real stages in this process, as a server on this machine."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "surface"), str(TESTS / "unit" / "ingress"), str(TESTS / "cache_backends")]
