# SPDX-License-Identifier: MIT
# Of two lists that failed.awk made of one suite, prints what is in both (with both=1, as the second has it), or else what is
# in one only. Where a run was not whole, what failed in the second is in both.
#
#   awk [-v both=1] -f twice.awk FIRST SECOND
#   awk -v pattern=1 -f twice.awk FIRST
#   awk -v absent=1 -f twice.awk FIRST OUTPUT
#
# With pattern=1, prints an extended regular expression without blanks for the names in the first; nothing where the run was
# not whole. With absent=1, those of the first that are not named in the output of a run.
#
# A test is known by its name: its number and the time that it took differ.

function bare(line) {
	sub(/: not ok [0-9]+ (- )?/, ": ", line)
	sub(/: [0-9]+ tests that have no result$/, ": tests that have no result", line)
	sub(/( #)? in [0-9.]+ ?m?s(ec)?$/, "", line)
	sub(/ \([0-9.]+m?s\)$/, "", line)
	return line
}

function title(name) {
	sub(/^[^:]*: /, "", name)
	return name
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
absent {
	for (name in first)
		if (index($0, title(name)))
			delete first[name]
	next
}
{
	name = bare($0)
	again[name]
	if (name in first || torn || is_torn(name) ? both : !both)
		print
}

END {
	if (pattern && !torn) {
		for (name in first) {
			name = title(name)
			gsub(/[^A-Za-z0-9]+/, ".*", name)
			expression = expression (expression ? "|" : "") name
		}
		print expression
	} else if (!both && !pattern)
		for (name in first)
			if (!(name in again))
				print first[name]
}
