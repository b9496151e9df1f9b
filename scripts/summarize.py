# SPDX-License-Identifier: MIT
"""Prints a result of `nsbox run --json` for a person: the output, then its end, times and limits. For quickstart."""

import json
import sys

MIB = 1 << 20


def used(value, unit=1):
    return "?" if value is None else "%.3g" % (value / unit)


def of_limit(result, name, value, unit=1, unit_name=""):
    limit = result["limits"][name]
    if limit["value"] is None:
        return "%s%s, no limit" % (used(value, unit), unit_name)
    return "%s of %g%s (%s)" % (used(value, unit), limit["value"] / unit, unit_name, limit["enforced_by"])


def print_error(error):
    print("  " + error["text"])
    if error["hint"]:
        print("  " + error["hint"])


def print_usage(result):
    usage = result["usage"]
    for phase in result["phases"][:-1]:
        print("  %s: %.0f ms" % (phase["phase"], phase["usage"]["wall_ms"]))
    print("  time: %s; the sandbox was made in %.1f ms"
          % (of_limit(result, "time", usage["wall_ms"], 1000, " s"), result["timing"]["setup_ms"]))
    print("  memory: %s; processes: %s; files: %s"
          % (of_limit(result, "memory", usage["memory_peak_bytes"], MIB, " MiB"),
             of_limit(result, "pids", usage["pids_peak"]),
             of_limit(result, "disk", usage["disk_used_bytes"], MIB, " MiB")))


def main():
    result = json.load(open(sys.argv[1], encoding="utf-8"))
    if result["error"]:
        print_error(result["error"])
        return
    print((result["stdout"] + result["stderr"]).rstrip("\n"))
    print("  %s, exit status %s%s" % (result["ended_by"], result["status"],
                                      ": " + result["message"] if result["message"] else ""))
    print_usage(result)


main()
