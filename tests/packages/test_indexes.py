# SPDX-License-Identifier: MIT
"""Ruby, PHP, Perl, Lua and R, from registries of the tests' own, which the host's settings for their managers name."""

import json
import shutil

from harness import check, equal, shared, test
from places import index, layers, need, not_installed, nothing_left, prepare, with_packages

BROKEN = "needs a libacme that is nowhere"


def ruby(place, url):
    (place.home / ".gemrc").write_text(f"---\n:sources:\n- {url}/\n")


def php(place, url):
    (place.home / ".config/composer").mkdir(parents=True)
    (place.home / ".config/composer/config.json").write_text(json.dumps({
        "config": {"secure-http": False},
        "repositories": [{"packagist.org": False}, {"type": "composer", "url": url}]}))


def perl(place, url):
    place.environment["PERL_CPANM_OPT"] = f"--mirror {url}/ --mirror-only"


def lua(place, url):
    (place.home / ".luarocks").mkdir()
    for version in "5.1", "5.2", "5.3", "5.4":
        (place.home / f".luarocks/config-{version}.lua").write_text(f'rocks_servers = {{ "{url}" }}\n')


def r(place, url):
    (place.home / ".Rprofile").write_text(f'options(repos = c(CRAN = "{url}"))\n')


# Language, registry, programs, settings, a package, its pinned form, code that prints what it is, one that is broken
CASES = [
    ("ruby", "rubygems", ["ruby", "gem"], ruby, "acme-hello", "acme-hello:1.0",
     'require "acme/hello"; puts Acme.hello', "acme-broken", "acme-hello:7.0", "acme-nowhere"),
    ("php", "packagist", ["php", "composer", "unzip"], php, "acme/hello", "acme/hello:^1.0",
     'echo (new Acme\\Hello)->text(), "\\n";', "acme/broken", "acme/hello:^7.0", "acme/nowhere"),
    ("perl", "cpan", ["perl", "cpanm", "make"], perl, "Acme::NsboxHello", "Acme::NsboxHello@1.0",
     'use Acme::NsboxHello; print Acme::NsboxHello::hello(), "\\n";', "Acme::NsboxBroken", "Acme::NsboxHello@7.0",
     "Acme::NsboxNowhere"),
    ("lua", "luarocks", ["luarocks", "unzip"], lua, "acmehello", "acmehello==1.0", 'print((require "acmehello"))', "acmebroken",
     "acmehello==7.0", "acmenowhere"),
    ("r", "cran", ["Rscript"], r, "acmehello", "acmehello@1.0", 'cat(acmehello::hello(), "\\n", sep = "")', "acmebroken",
     "acmehello@7.0", "acmenowhere"),
]


index_of = {}  # kinds of registries


def register(language, kind, programs, settings, name, pinned, code, broken, wrong, nowhere):
    registry = index_of[kind] = index(kind)

    def ready(place):
        need(*programs)
        prepare(place)
        made = shared(registry)
        settings(place, made.url)
        return made

    @test(f"{language}: a version that is asked for, with what it needs; a second time nothing is asked of the registry")
    def _(place):
        made = ready(place)
        equal(with_packages(place, language, [pinned], code).ok().output, "1.0 with a dependency\n", "output")
        before, asked = layers(place), len(made.requests)
        check(asked > 0 and len(before) == 1, f"{asked} requests, {before}")
        equal(with_packages(place, language, [pinned], code).ok().output, "1.0 with a dependency\n", "the second output")
        equal((layers(place), len(made.requests)), (before, asked), "layers and requests")
        # CPAN's index has one version of each module.
        latest = "1.0" if language == "perl" else "2.0"
        equal(with_packages(place, language, [name], code).ok().output, f"{latest} with a dependency\n", "without a version")

    @test(f"{language}: one that cannot be built, a version and a name that are not there")
    def _(place):
        ready(place)
        says = "ext-acmenowhere" if language == "php" else BROKEN
        for package, words in (broken, says), (wrong, wrong.split(":")[0].split("@")[0].split("==")[0]), (nowhere, nowhere):
            not_installed(with_packages(place, language, [package], code), words, f"could not install {package}: ")
            nothing_left(place)
        equal(with_packages(place, language, [pinned], code).ok().output, "1.0 with a dependency\n", "the right one after them")


for case in CASES:
    register(*case)


@test("a session: languages one after the other, and what fails changes nothing of what is there")
def _(place):
    prepare(place)
    place.environment["XDG_RUNTIME_DIR"] = str(place.folder)
    session = place.nsbox("session", "new", "--no-config", "--image", "none").ok().output.strip()
    try:
        for language, kind, programs, settings, name, pinned, code, broken, _, _ in CASES:
            if not all(map(shutil.which, programs)):
                continue
            settings(place, shared(index_of[kind]).url)

            def install(package):
                return place.nsbox("session", "install", "--lang", language, session, package, timeout=300)

            def run_code():
                return place.nsbox("session", "exec", "--lang", language, session, "-", input=(
                    ("<?php " if language == "php" else "") + code).encode(), timeout=120)

            check(run_code().status != 0, f"{language} has {name} before it is installed")
            install(pinned).ok()
            check(install(broken).status != 0, f"{broken} is installed")
            equal(run_code().ok().output, "1.0 with a dependency\n", f"what {language} prints")
    finally:
        place.nsbox("session", "stop", session).ok()
