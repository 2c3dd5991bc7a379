"""The reference is what the docstrings say."""
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "python-reference.py"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signatures are written in another way")
def test_the_reference_is_fresh():
    made = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
