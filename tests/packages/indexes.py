# SPDX-License-Identifier: MIT
"""Registries of the tests' own, on the loopback interface: what RubyGems, Packagist, CPAN, LuaRocks, CRAN, PyPI and npm look like."""

import base64
import gzip
import hashlib
import http.server
import io
import json
import subprocess
import tarfile
import threading
import zipfile
from pathlib import Path


def tar_gz(files, top=""):
    """An archive of {name: text}, the same whenever it is made."""
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(top + name)
            entry.size = len(text.encode())
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


def zip_of(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
    return data.getvalue()


class Index:
    """A server of a folder. In JSON and HTML, @HOST@ stands for what the client calls it. `requests`: the paths asked for."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.requests = []
        self.down = False
        index = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(index.folder))

            def do_GET(self):
                index.requests.append(self.path)
                if index.down:
                    self.close_connection = True
                    return
                path = Path(self.translate_path(self.path))
                if path.is_dir():
                    path /= "index.html"
                if path.suffix not in (".json", ".html") or not path.is_file():
                    super().do_GET()
                    return
                body = path.read_bytes().replace(b"@HOST@", self.headers["Host"].encode())
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if path.suffix == ".json" else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, path, content):
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)


# In each: acme-hello (or as it is spelt) 1.0 and 2.0, which needs acme-dep, and acme-broken, which cannot be built.


def rubygems(index):
    work = index.folder / "work"
    specs, info = [], {}

    def gem(name, version, files, dependencies=(), more=""):
        place = work / f"{name}-{version}"
        for path, text in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text)
        needs = "".join(f's.add_dependency "{each}", ">= 0"\n' for each in dependencies)
        (place / f"{name}.gemspec").write_text(
            f'Gem::Specification.new do |s|\ns.name = "{name}"\ns.version = "{version}"\ns.summary = "test"\n'
            f's.authors = ["test"]\ns.license = "MIT"\ns.homepage = "http://localhost/"\ns.files = {json.dumps(list(files))}\n'
            f"{more}\n{needs}end\n")
        subprocess.run(["gem", "build", "-q", f"{name}.gemspec"], cwd=place, check=True, capture_output=True)
        content = (place / f"{name}-{version}.gem").read_bytes()
        index.put(f"gems/{name}-{version}.gem", content)
        specs.append((name, version))
        info.setdefault(name, []).append(f"{version} {','.join(f'{each}:>= 0' for each in dependencies)}|checksum:"
                                         f"{hashlib.sha256(content).hexdigest()}")

    for version in "1.0", "2.0":
        gem("acme-hello", version, {"lib/acme/hello.rb": 'require "acme/dep"\nmodule Acme\n  def self.hello\n'
                                                         f'    "{version} " + Acme.dep\n  end\nend\n'}, ["acme-dep"])
    gem("acme-dep", "0.1", {"lib/acme/dep.rb": 'module Acme\n  def self.dep\n    "with a dependency"\n  end\nend\n'})
    gem("acme-broken", "1.0", {"ext/extconf.rb": 'abort "acme-broken needs a libacme that is nowhere"\n'},
        more='s.extensions = ["ext/extconf.rb"]')
    for name, lines in info.items():
        index.put(f"info/{name}", "---\n" + "\n".join(lines) + "\n")
    index.put("versions", "created_at: 2026-01-01T00:00:00Z\n---\n" + "".join(
        f"{name} {','.join(line.split()[0] for line in lines)} "
        f"{hashlib.md5(('---' + chr(10) + chr(10).join(lines) + chr(10)).encode()).hexdigest()}\n" for name, lines in info.items()))
    subprocess.run(["ruby", "-rrubygems/package", "-rzlib", "-e", """
        specs = Dir["gems/*.gem"].map { |file| Gem::Package.new(file).spec }
        Dir.mkdir "quick"
        Dir.mkdir "quick/Marshal.4.8"
        specs.each do |spec|
          File.binwrite "quick/Marshal.4.8/#{spec.full_name}.gemspec.rz", Zlib::Deflate.deflate(Marshal.dump(spec))
        end
        list = specs.map { |spec| [spec.name, spec.version, "ruby"] }
        {"specs" => list, "latest_specs" => list, "prerelease_specs" => []}.each do |name, each|
          File.binwrite "#{name}.4.8.gz", Zlib.gzip(Marshal.dump(each))
        end"""], cwd=index.folder, check=True, capture_output=True)


def packagist(index):
    packages = {}
    for name, version, text, needs, more in (
            ("acme/hello", "1.0.0", '"1.0 " . (new Dep)->text()', {"acme/dep": "*"}, {}),
            ("acme/hello", "2.0.0", '"2.0 " . (new Dep)->text()', {"acme/dep": "*"}, {}),
            ("acme/dep", "0.1.0", '"with a dependency"', {}, {}),
            ("acme/broken", "1.0.0", '""', {"ext-acmenowhere": "*"}, {})):
        short = name.split("/")[1].capitalize()
        about = {"name": name, "version": version, "require": needs, "autoload": {"psr-4": {"Acme\\": "src/"}}} | more
        content = zip_of({"p/composer.json": json.dumps(about), f"p/src/{short}.php":
                          f"<?php\nnamespace Acme;\nclass {short} {{ function text() {{ return {text}; }} }}\n"})
        file = f"dist/{short}-{version}.zip"
        index.put(file, content)
        packages.setdefault(name, {})[version] = about | {
            "dist": {"type": "zip", "url": f"http://@HOST@/{file}", "shasum": hashlib.sha1(content).hexdigest()}}
    index.put("packages.json", json.dumps({"packages": packages}))


def cpan(index):
    lines = []
    for name, version, text, needs, broken in (
            ("Acme::NsboxHello", "1.0", 'use Acme::NsboxDep; sub hello { "1.0 " . Acme::NsboxDep::text() }', ["Acme::NsboxDep"], ""),
            ("Acme::NsboxDep", "0.1", 'sub text { "with a dependency" }', [], ""),
            ("Acme::NsboxBroken", "1.0", "", [], 'die "Acme::NsboxBroken needs a libacme that is nowhere\\n";')):
        distribution = f"{name.replace('::', '-')}-{version}"
        path = f"lib/{name.replace('::', '/')}.pm"
        makefile = (f"use ExtUtils::MakeMaker; {broken} WriteMakefile(NAME => '{name}', VERSION_FROM => '{path}', PREREQ_PM => "
                    f"{{{', '.join(chr(39) + each + chr(39) + ' => 0' for each in needs)}}});\n")
        module = f"package {name};\nuse strict;\nour $VERSION = '{version}';\n{text}\n1;\n"
        index.put(f"authors/id/A/AC/ACME/{distribution}.tar.gz",
                  tar_gz({"Makefile.PL": makefile, path: module, "MANIFEST": f"Makefile.PL\nMANIFEST\n{path}\n"}, distribution + "/"))
        lines.append(f"{name} {version} A/AC/ACME/{distribution}.tar.gz\n")
    head = ("File: 02packages.details.txt\nDescription: test\nColumns: package name, version, path\nIntended-For: tests\n"
            f"Written-By: tests\nLine-Count: {len(lines)}\nLast-Updated: Thu, 01 Jan 2026 00:00:00 GMT\n\n")
    index.put("modules/02packages.details.txt.gz", gzip.compress((head + "".join(lines)).encode()))


def luarocks(index):
    rocks = {}
    for name, version, files, modules in (
            ("acmehello", "1.0", {"hello.lua": 'return "1.0 " .. require "acmedep"\n'}, '{acmehello = "hello.lua"}'),
            ("acmehello", "2.0", {"hello.lua": 'return "2.0 " .. require "acmedep"\n'}, '{acmehello = "hello.lua"}'),
            ("acmedep", "0.1", {"dep.lua": 'return "with a dependency"\n'}, '{acmedep = "dep.lua"}'),
            ("acmebroken", "1.0", {"x.c": '#error "acmebroken needs a libacme that is nowhere"\n'}, '{acmebroken = "x.c"}')):
        needs = ', "acmedep"' if name == "acmehello" else ""
        archive = f"{name}-{version}.tar.gz"
        spec = (f'rockspec_format = "1.0"\npackage = "{name}"\nversion = "{version}-1"\n'
                f'source = {{url = "{archive}", dir = "{name}-{version}"}}\n'
                f'dependencies = {{"lua >= 5.1"{needs}}}\nbuild = {{type = "builtin", modules = {modules}}}\n')
        index.put(f"{name}-{version}-1.src.rock", zip_of({f"{name}-{version}-1.rockspec": spec,
                                                          archive: tar_gz(files, f"{name}-{version}/")}))
        rocks.setdefault(name, []).append(f'["{version}-1"] = {{{{arch = "src"}}}}')
    manifest = "commands = {}\nmodules = {}\nrepository = {\n" + ",\n".join(
        f"{name} = {{{', '.join(versions)}}}" for name, versions in rocks.items()) + "\n}\n"
    for suffix in "", "-5.1", "-5.2", "-5.3", "-5.4":
        index.put("manifest" + suffix, manifest)


def cran(index):
    stanzas = []
    for name, version, files, needs in (
            ("acmehello", "2.0", {"R/a.R": 'hello <- function() paste("2.0", acmedep::text())\n'}, "acmedep"),
            ("acmehello", "1.0", {"R/a.R": 'hello <- function() paste("1.0", acmedep::text())\n'}, "acmedep"),
            ("acmedep", "0.1", {"R/a.R": 'text <- function() "with a dependency"\n'}, ""),
            ("acmebroken", "1.0", {"R/a.R": 'stop("acmebroken needs a libacme that is nowhere")\n'}, "")):
        short = {"Package": name, "Version": version} | ({"Imports": needs} if needs else {})
        stanza = "".join(f"{key}: {value}\n" for key, value in short.items())
        export = {"acmehello": "hello", "acmedep": "text", "acmebroken": ""}[name]
        full = stanza + ("Title: Test\nAuthor: Test\nMaintainer: Test <test@localhost>\nDescription: Test.\nLicense: MIT\n"
                         "Packaged: 2026-01-01 00:00:00 UTC; test\n")
        place = "Archive/acmehello/" if (name, version) == ("acmehello", "1.0") else ""
        index.put(f"src/contrib/{place}{name}_{version}.tar.gz",
                  tar_gz({"DESCRIPTION": full, "NAMESPACE": f"export({export})\n" if export else "", **files}, name + "/"))
        if not place:
            stanzas.append(stanza + "NeedsCompilation: no\n")
    index.put("src/contrib/PACKAGES", "\n".join(stanzas))


def pypi(index):
    """
    acme-broken, whose set-up fails, acme-big, which writes without end, acme-greedy and acme-slow; acme-fine, acme-more and
    acme-large, which has many files: simple API, PEP 503.
    """
    for name, setup in (
            ("acme-broken", 'raise SystemExit("acme-broken needs a libacme that is nowhere")'),
            ("acme-big", 'import itertools\nfor i in itertools.count():\n    open(f"big{i}", "wb").write(b"x" * (1 << 20))'),
            ("acme-greedy", 'memory = []\nwhile True:\n    memory.append(b"x" * (1 << 20))'),
            ("acme-slow", "import time\ntime.sleep(600)")):
        content = tar_gz({"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
                          "backend.py": f"def build_wheel(*_, **__):\n    {setup.replace(chr(10), chr(10) + '    ')}\n",
                          "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"}, f"{name}-1.0/")
        index.put(f"simple/{name}/{name}-1.0.tar.gz", content)
        index.put(f"simple/{name}/index.html", f'<a href="{name}-1.0.tar.gz">{name}-1.0.tar.gz</a>')
    for name, files in (("acme_fine", {"acme_fine.py": "value = 42\n"}),
                        ("acme_more", {"acme_more/__init__.py": "value = 43\n\n\ndef main():\n    print(value)\n", "acme_more/data": "x" * 70000,
                                       "acme_more-1.0.dist-info/entry_points.txt":
                                       "[console_scripts]\nacme-more = acme_more:main\n"}),
                        ("acme_large", {"acme_large.py": "value = 44\n"} |
                         {f"acme_large_data/{i % 50}/{i}.txt": str(i) * 100 for i in range(3000)})):
        wheel = files | {f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n",
                         f"{name}-1.0.dist-info/WHEEL":
                         "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
        record = "".join(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
                         f"{len(text)}\n" for path, text in wheel.items())
        wheel[f"{name}-1.0.dist-info/RECORD"] = record + f"{name}-1.0.dist-info/RECORD,,\n"
        folder, file = f"simple/{name.replace('_', '-')}", f"{name}-1.0-py3-none-any.whl"
        index.put(f"{folder}/{file}", zip_of(wheel))
        index.put(f"{folder}/index.html", f'<a href="{file}">{file}</a>')


def npm(index):
    """acme-script, whose install script says what it sees; acme-broken, whose fails."""
    for name, scripts in (
            ("acme-script", {"install": "id -u >seen; ls -A /workspace >>seen 2>&1; env >>seen"}),
            ("acme-broken", {"install": "echo acme-broken needs a libacme that is nowhere >&2; exit 3"})):
        about = {"name": name, "version": "1.0.0", "main": "main.js", "scripts": scripts}
        content = tar_gz({"package.json": json.dumps(about), "main.js": "module.exports = require('fs').readFileSync("
                          "__dirname + '/seen', 'utf8');\n"}, "package/")
        index.put(f"{name}-1.0.0.tgz", content)
        dist = {"tarball": f"http://@HOST@/{name}-1.0.0.tgz",
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()}
        index.put(f"{name}/index.html", json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"},
                                                    "versions": {"1.0.0": about | {"dist": dist}}}))
