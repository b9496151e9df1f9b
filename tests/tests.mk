# SPDX-License-Identifier: MIT
# What `make check` runs. Unit tests are programs of their own; the other suites are run by scripts.
check_PROGRAMS =
TESTS =
