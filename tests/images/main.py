# SPDX-License-Identifier: MIT
"""Runs the tests of this folder: main.py NSBOX [PATTERN]. Prints TAP."""

import sys

import harness
import test_registry  # noqa: F401  each registers its tests
import test_access  # noqa: F401
import test_hostile  # noqa: F401
import test_server  # noqa: F401
import test_mirrors  # noqa: F401
import test_places  # noqa: F401
import test_store  # noqa: F401
import test_commit  # noqa: F401
import test_run  # noqa: F401
import test_language  # noqa: F401

sys.exit(harness.main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""))
