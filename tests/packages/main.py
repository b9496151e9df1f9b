# SPDX-License-Identifier: MIT
"""Runs the tests of this folder: main.py NSBOX [PATTERN]. Prints TAP."""

import sys

import harness
import test_registries  # noqa: F401  each registers its tests
import test_indexes  # noqa: F401
import test_failures  # noqa: F401
import test_sessions  # noqa: F401
import test_apt  # noqa: F401

sys.exit(harness.main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
