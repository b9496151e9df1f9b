# SPDX-License-Identifier: MIT
"""What the tests of this folder have in common: stores, programs with packages, registries of their own."""

import json
import os
import shutil
import statistics
import time
import subprocess

import harness
import indexes
from harness import Failure, Skip, check, equal, shared

CI = bool(os.environ.get("CI"))


def need(*programs):
    """Skips the test, or with CI set fails it, where one of the programs is not there."""
    for program in programs:
        if not shutil.which(program):
            raise (Failure if CI else Skip)(f"{program} is not installed")


def prepare(place):
    """The place with the caller's own environment: its PATH, and its settings for package managers."""
    place.environment = dict(os.environ) | place.environment | {"PATH": os.environ["PATH"]}
    return place


def layers(place):
    """The layers of packages in the store; nothing else may be beside them."""
    folder = place.store / "packages"
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def nothing_left(place, before=()):
    equal(layers(place), sorted(before), "what is in the store")


def with_packages(place, language, packages, code, *options, timeout=600, **more):
    words = [word for package in packages for word in ("--with", package)]
    return place.nsbox("run", "--no-config", "--image", "none", "--timeout", "5m", "--lang", language, *words, *options, "-c", code,
                       timeout=timeout, **more)


def no_slower(without, having):
    """
    That the second of two runs takes at most 1.2 times as long as the first. They are measured in pairs, in which each is
    the first one every second time: what else the machine does makes either slower as often, so that the middle one of many
    ratios is about that of a machine that does nothing else.
    """
    pairs = []
    for attempt in range(6):
        time.sleep(attempt)
        for turn in (1, -1) * 6:
            pairs.append([seconds(run) for run in (without, having)[::turn]][::turn])
        ratio = statistics.median(second / first for first, second in pairs)
        least = [1000 * min(times) for times in zip(*pairs)]
        print(f"# {least[1]:.1f} ms with packages and {least[0]:.1f} ms without at least, {ratio:.2f} times as long as a rule")
        if ratio <= 1.2:
            return
    raise Failure(f"{ratio:.2f} times as long")


def seconds(run):
    began = time.perf_counter()
    run().ok()
    return time.perf_counter() - began


def not_installed(done, says, line):
    """The manager's own words, in which is `says`, then one line of ours with `line`, and perhaps a hint."""
    check(done.status == 125, f"expected status 125 of {done.describe()}")
    check(says in done.errors, f"expected «{says}» in {done.describe()}")
    ours = [each for each in done.errors.splitlines()[-2:] if each.startswith("nsbox: ")]
    check(ours and line in ours[0], f"expected «{line}» in the last lines of {done.describe()}")
    return done


def index(kind):
    """A function for `shared`: the registry of that kind."""

    def make(folder):
        made = indexes.Index(folder)
        getattr(indexes, kind)(made)
        return made

    make.__name__ = kind
    return make


PYPI, NPM = index("pypi"), index("npm")


def own_pypi(place):
    made = shared(PYPI)
    place.environment = {name: value for name, value in place.environment.items() if not name.startswith("PIP_")}
    place.environment |= {"PIP_INDEX_URL": made.url + "/simple", "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "1"}
    return made
