import sys
from pathlib import Path

# `fakes` holds the test doubles that several files share.
sys.path.insert(0, str(Path(__file__).parent))
