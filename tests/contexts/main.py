# SPDX-License-Identifier: MIT
"""Runs the tests of this folder: main.py [PATTERN]. Prints TAP."""

import importlib
import sys
from pathlib import Path

import harness

for file in sorted(Path(__file__).parent.glob("test_*.py")):
    importlib.import_module(file.stem)  # each registers its tests

sys.exit(harness.main(sys.argv[1] if len(sys.argv) > 1 else ""))
