# SPDX-License-Identifier: MIT
# Counts the tests in a suite's output: prints «PASSED FAILED SKIPPED». Reads TAP (bats, cmocka, the escape suite), any
# number of documents one after the other, and the summaries of node's test runner.
#
#   awk -v status=N -f tally.awk OUTPUT
#
# `status` is the suite's exit status. A test that was planned and has no result counts as failed; so does
# a suite that ended badly without a failed test. Status 77 without any test is a suite that was skipped.

function end_document() {
	if (planned > seen)
		failed += planned - seen
	planned = seen = 0
}

/^1\.\.[0-9]+/ {
	if (seen == 0) {
		end_document() # one whose tests never came
		planned = substr($1, 4) + 0
	} else if (planned == 0) { # a plan at the end
		planned = substr($1, 4) + 0
		end_document()
	} else {
		end_document()
		planned = substr($1, 4) + 0
	}
	next
}
/^ok [0-9]+/ {
	seen++
	if (tolower($0) ~ /# skip/)
		skipped++
	else
		passed++
	next
}
/^not ok [0-9]+/ {
	seen++
	if (tolower($0) ~ /# (todo|skip)/) # cmocka writes «not ok N # SKIP»
		skipped++
	else
		failed++
	next
}
/^(ℹ|#) (pass|fail|cancelled|skipped|todo) [0-9]+$/ {
	node = 1
	count[$2] += $3
}

END {
	end_document()
	if (node) {
		passed += count["pass"]
		failed += count["fail"] + count["cancelled"]
		skipped += count["skipped"] + count["todo"]
	}
	if (status == 77 && passed + failed == 0)
		skipped = 1
	else if (status != 0 && failed == 0)
		failed = 1
	else if (status == 0 && passed + failed + skipped == 0)
		passed = 1
	printf "%d %d %d\n", passed, failed, skipped
}
