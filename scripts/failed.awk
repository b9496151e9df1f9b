# SPDX-License-Identifier: MIT
# Names the tests of a suite that failed, one a line, from what tally.awk counts in: TAP, and what node's test runner
# has under «failing tests».
#
#   awk -v suite=NAME -v status=N -f failed.awk OUTPUT
#
# As whom a test was run is told by the last line «# … as USER». Where the suite ended badly, or has no result for tests that
# were planned, and no test failed, that is said.

function name(text, who) {
	printf "%s%s: %s\n", suite, who ? " as " who : "", text
	named++
}

function end_document() {
	if (planned > seen)
		name(planned - seen " tests that have no result", planned_as)
	planned = seen = 0
}

/^# ([a-z-]+ )*as [a-z_][a-z0-9_-]*$/ {
	user = $NF
	failing = 0
}
/^1\.\.[0-9]+/ {
	if (seen == 0 || planned > 0)
		end_document()
	planned = substr($1, 4) + 0
	planned_as = user
	if (seen > 0)
		end_document()
	next
}
/^ok [0-9]+/ {
	seen++
}
/^not ok [0-9]+/ {
	seen++
	if (tolower($0) !~ /# (todo|skip)/)
		name($0, user)
}
/^✖ failing tests:$/ {
	failing = 1
	next
}
/^(ℹ|#) (tests|suites) [0-9]+$/ || /^▶ / {
	failing = 0
}
failing && /^✖ / {
	name(substr($0, index($0, " ") + 1), user)
}

END {
	end_document()
	if (!named && status != 0 && status != 77)
		name("ended with status " status, "")
}
