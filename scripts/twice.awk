# SPDX-License-Identifier: MIT
# Of two lists that failed.awk made of one suite, prints what is in both (with both=1, as the second has it), or else what is
# in one only. Where a run was not whole, what failed in the second is in both.
#
#   awk [-v both=1] -f twice.awk FIRST SECOND
#
# A test is known by its name: its number and the time that it took differ.

function bare(line) {
	sub(/: not ok [0-9]+ (- )?/, ": ", line)
	sub(/: [0-9]+ tests that have no result$/, ": tests that have no result", line)
	sub(/( #)? in [0-9.]+ ?m?s(ec)?$/, "", line)
	sub(/ \([0-9.]+m?s\)$/, "", line)
	return line
}

function is_torn(name) {
	return name ~ /: (ended with status [0-9]+|tests that have no result)$/
}

FILENAME == ARGV[1] {
	name = bare($0)
	first[name] = $0
	torn = torn || is_torn(name)
	next
}
{
	name = bare($0)
	again[name]
	if (name in first || torn || is_torn(name) ? both : !both)
		print
}

END {
	if (!both)
		for (name in first)
			if (!(name in again))
				print first[name]
}
