# SPDX-License-Identifier: MIT
# What `make check` runs. Unit tests are programs of their own, and are named in `unit_tests`; the other
# suites are run by scripts.
check_PROGRAMS = $(unit_tests)
TESTS = $(unit_tests)
unit_tests =
AM_CPPFLAGS += $(CMOCKA_CFLAGS)
unit_ldadd = libnsbox.a $(SECCOMP_LIBS) $(CAP_LIBS) $(JANSSON_LIBS) $(CMOCKA_LIBS)

if HAVE_CMOCKA
unit_tests += tests/unit/test_profile tests/unit/test_filter tests/unit/test_builtin_filters
endif

# tests/unit/bpf.c: an interpreter of classic BPF.
tests_unit_test_profile_SOURCES = tests/unit/test_profile.c tests/unit/bpf.c tests/unit/bpf.h
tests_unit_test_profile_LDADD = $(unit_ldadd)
tests_unit_test_filter_SOURCES = tests/unit/test_filter.c tests/unit/bpf.c tests/unit/bpf.h \
	tests/unit/expected_calls.h tests/unit/expected_x86_64.c tests/unit/expected_aarch64.c
tests_unit_test_filter_LDADD = $(unit_ldadd)
tests_unit_test_builtin_filters_SOURCES = tests/unit/test_builtin_filters.c tests/unit/bpf.c tests/unit/bpf.h \
	tests/unit/expected_calls.h tests/unit/expected_x86_64.c tests/unit/expected_aarch64.c
tests_unit_test_builtin_filters_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_features
endif
tests_unit_test_features_SOURCES = tests/unit/test_features.c
tests_unit_test_features_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_parse tests/unit/test_utf8 tests/unit/test_report tests/unit/test_run_options
endif
tests_unit_test_parse_SOURCES = tests/unit/test_parse.c
tests_unit_test_parse_LDADD = $(unit_ldadd)
tests_unit_test_utf8_SOURCES = tests/unit/test_utf8.c
tests_unit_test_utf8_LDADD = $(unit_ldadd)
tests_unit_test_report_SOURCES = tests/unit/test_report.c
tests_unit_test_report_LDADD = $(unit_ldadd)
tests_unit_test_run_options_SOURCES = tests/unit/test_run_options.c
tests_unit_test_run_options_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_language tests/unit/test_jsonrpc tests/unit/test_reader
endif
tests_unit_test_language_SOURCES = tests/unit/test_language.c
tests_unit_test_language_LDADD = $(unit_ldadd)
if HAVE_CMOCKA
unit_tests += tests/unit/test_toolchain tests/unit/test_packages
endif
tests_unit_test_packages_SOURCES = tests/unit/test_packages.c
tests_unit_test_packages_LDADD = $(unit_ldadd)
tests_unit_test_toolchain_SOURCES = tests/unit/test_toolchain.c
tests_unit_test_toolchain_LDADD = $(unit_ldadd)
tests_unit_test_jsonrpc_SOURCES = tests/unit/test_jsonrpc.c
tests_unit_test_jsonrpc_LDADD = $(unit_ldadd)
tests_unit_test_reader_SOURCES = tests/unit/test_reader.c
tests_unit_test_reader_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_capture tests/unit/test_watcher tests/unit/test_cgroup
endif
tests_unit_test_capture_SOURCES = tests/unit/test_capture.c
tests_unit_test_capture_LDADD = $(unit_ldadd)
tests_unit_test_watcher_SOURCES = tests/unit/test_watcher.c
tests_unit_test_watcher_LDADD = $(unit_ldadd) -lpthread
tests_unit_test_cgroup_SOURCES = tests/unit/test_cgroup.c
tests_unit_test_cgroup_LDADD = $(unit_ldadd)

# Reads the manual page: make check has the source's folder in $srcdir.
if HAVE_CMOCKA
unit_tests += tests/unit/test_config
endif
tests_unit_test_config_SOURCES = tests/unit/test_config.c
tests_unit_test_config_LDADD = $(unit_ldadd)

# For the suites of tests/run-suite: programs that go into a sandbox are static, so that they run in an empty
# root, and have no sanitizers, which a static program cannot have.
check_PROGRAMS += tests/escape/probe tests/cli/load tests/cli/pty
tool_link = $(CCLD) $(CFLAGS) -fno-sanitize=all -o $@
tests_escape_probe_SOURCES = tests/escape/probes/probe.h tests/escape/probes/main.c \
	tests/escape/probes/namespaces.c tests/escape/probes/mounts.c tests/escape/probes/processes.c \
	tests/escape/probes/syscalls.c tests/escape/probes/sockets.c tests/escape/probes/files.c \
	tests/escape/probes/terminal.c tests/escape/probes/shared.c
tests_escape_probe_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_escape_probe_LINK = $(tool_link) -static
tests_cli_load_SOURCES = tests/cli/load.c
tests_cli_load_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_cli_load_LINK = $(tool_link) -static
tests_cli_pty_SOURCES = tests/cli/pty.c
tests_cli_pty_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_cli_pty_LINK = $(tool_link)

if HAVE_CMOCKA
unit_tests += tests/unit/test_revision tests/unit/test_outputs tests/unit/test_tasks
endif
tests_unit_test_revision_SOURCES = tests/unit/test_revision.c
tests_unit_test_revision_LDADD = $(unit_ldadd)
tests_unit_test_outputs_SOURCES = tests/unit/test_outputs.c
tests_unit_test_outputs_LDADD = $(unit_ldadd)
tests_unit_test_tasks_SOURCES = tests/unit/test_tasks.c
tests_unit_test_tasks_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_supervisor tests/unit/test_wire
endif
tests_unit_test_supervisor_SOURCES = tests/unit/test_supervisor.c
tests_unit_test_supervisor_LDADD = $(unit_ldadd)
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c
tests_unit_test_wire_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_landlock
endif
tests_unit_test_landlock_SOURCES = tests/unit/test_landlock.c
tests_unit_test_landlock_LDADD = $(unit_ldadd)

# Fuzzers, where clang is there, each for so long.
FUZZ_SECONDS = 60
.PHONY: fuzz
fuzz: config.h src/seccomp/builtin-filters.h
	FUZZ_SECONDS=$(FUZZ_SECONDS) $(srcdir)/tests/fuzz/run --build .
clean-local:
	rm -rf fuzz

# tests/faults: system calls and allocations that fail. The program fingerprint goes into sandboxes.
check_PROGRAMS += tests/faults/sweep tests/faults/fingerprint tests/faults/nsbox tests/faults/fault tests/faults/files
tests_faults_sweep_SOURCES = tests/faults/sweep.c tests/faults/rules.c tests/faults/rules.h tests/faults/trace.c tests/faults/trace.h \
	tests/faults/alloc.h
tests_faults_sweep_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_faults_sweep_LINK = $(tool_link)
# One call of a session's that fails; the program files goes into sandboxes.
tests_faults_fault_SOURCES = tests/faults/fault.c tests/faults/rules.c tests/faults/rules.h tests/faults/trace.c tests/faults/trace.h \
	tests/faults/alloc.h
tests_faults_fault_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_faults_fault_LINK = $(tool_link)
tests_faults_files_SOURCES = tests/faults/files.c
tests_faults_files_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_faults_files_LINK = $(tool_link) -static
tests_faults_fingerprint_SOURCES = tests/faults/fingerprint.c
tests_faults_fingerprint_CFLAGS = $(NSBOX_CFLAGS) -fno-sanitize=all
tests_faults_fingerprint_LINK = $(tool_link) -static
tests_faults_nsbox_SOURCES = src/nsbox.c tests/faults/alloc.c tests/faults/alloc.h
tests_faults_nsbox_LDADD = $(nsbox_LDADD)
tests_faults_nsbox_LDFLAGS = $(LAUNCHER_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup

if HAVE_CMOCKA
unit_tests += tests/unit/test_image
endif
tests_unit_test_image_SOURCES = tests/unit/test_image.c src/image/manifest.c src/image/user.c src/image/auth.c src/image/start.c
tests_unit_test_image_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
if WITH_IMAGES
unit_tests += tests/unit/test_squeeze
endif
endif
tests_unit_test_squeeze_SOURCES = tests/unit/test_squeeze.c src/image/squeeze.c src/image/blob.c
tests_unit_test_squeeze_CPPFLAGS = $(AM_CPPFLAGS) $(CRYPTO_CFLAGS) $(DEFLATE_CFLAGS)
tests_unit_test_squeeze_LDADD = $(unit_ldadd) $(CRYPTO_LIBS) $(DEFLATE_LIBS)

if HAVE_CMOCKA
unit_tests += tests/unit/test_diskuse tests/unit/test_upper tests/unit/test_sources tests/unit/test_snapshots tests/unit/test_flatten
endif
tests_unit_test_snapshots_SOURCES = tests/unit/test_snapshots.c
tests_unit_test_snapshots_LDADD = $(unit_ldadd)
tests_unit_test_diskuse_SOURCES = tests/unit/test_diskuse.c
tests_unit_test_diskuse_LDADD = $(unit_ldadd)
tests_unit_test_flatten_SOURCES = tests/unit/test_flatten.c
tests_unit_test_flatten_LDADD = $(unit_ldadd)
tests_unit_test_upper_SOURCES = tests/unit/test_upper.c
tests_unit_test_upper_LDADD = $(unit_ldadd)
tests_unit_test_sources_SOURCES = tests/unit/test_sources.c
tests_unit_test_sources_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_starter
endif
tests_unit_test_starter_SOURCES = tests/unit/test_starter.c src/image/start.c src/image/wall.c
tests_unit_test_starter_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_keepers
endif
tests_unit_test_keepers_SOURCES = tests/unit/test_keepers.c
tests_unit_test_keepers_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_session_agent
endif
tests_unit_test_session_agent_SOURCES = tests/unit/test_session_agent.c
tests_unit_test_session_agent_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_gate
endif
tests_unit_test_gate_SOURCES = tests/unit/test_gate.c
tests_unit_test_gate_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_gate_tables
endif
tests_unit_test_gate_tables_SOURCES = tests/unit/test_gate_tables.c
tests_unit_test_gate_tables_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_flow
endif
tests_unit_test_flow_SOURCES = tests/unit/test_flow.c
tests_unit_test_flow_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_pasta
endif
tests_unit_test_pasta_SOURCES = tests/unit/test_pasta.c
tests_unit_test_pasta_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_publish
endif
tests_unit_test_publish_SOURCES = tests/unit/test_publish.c
tests_unit_test_publish_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_backlog
endif
tests_unit_test_backlog_SOURCES = tests/unit/test_backlog.c
tests_unit_test_backlog_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_fileops
endif
tests_unit_test_fileops_SOURCES = tests/unit/test_fileops.c
tests_unit_test_fileops_LDADD = $(unit_ldadd)

if HAVE_CMOCKA
unit_tests += tests/unit/test_listing tests/unit/test_replies
endif
tests_unit_test_replies_SOURCES = tests/unit/test_replies.c
tests_unit_test_replies_LDADD = $(unit_ldadd)
tests_unit_test_listing_SOURCES = tests/unit/test_listing.c
tests_unit_test_listing_LDADD = $(unit_ldadd)
