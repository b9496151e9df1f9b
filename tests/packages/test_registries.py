# SPDX-License-Identifier: MIT
"""From the registries themselves: what is asked for is there, in the version that was asked for, and code has no network."""

import re
import subprocess

from harness import check, equal, test
from places import layers, need, no_slower, prepare, with_packages


def twice(place, language, packages, code, expected, **more):
    """The code's output, with packages that are installed and again when they are there: then nothing is installed."""
    prepare(place)
    done = with_packages(place, language, packages, code, **more).ok()
    equal(done.output, expected, done.describe())
    before = layers(place)
    check(len(before) == 1 and re.fullmatch("[0-9a-f]{64}", before[0]), f"the store has {before}")
    contents = place.store / "packages" / before[0]
    changed = (contents / "fs").stat().st_mtime_ns
    # In another order and twice it is the same set. A manager would say so, and without a network it would fail.
    done = with_packages(place, language, [*reversed(packages), packages[0]], code, **more).ok()
    equal(done.output, expected, done.describe())
    check("installing" not in done.errors, done.describe())
    equal((layers(place), (contents / "fs").stat().st_mtime_ns), (before, changed), "the layer")


@test("python: requests, numpy, pandas, matplotlib and flask, without a network")
def _(place):
    need("python3")
    twice(place, "python", ["requests==2.32.3", "numpy", "pandas", "matplotlib", "flask"], """
import socket, requests, numpy, pandas, matplotlib, flask
matplotlib.use("Agg")
import matplotlib.pyplot as plot
print(requests.__version__, numpy.arange(5).sum(), pandas.DataFrame({"a": [1, 2]})["a"].mean())
plot.plot([1, 2])
plot.savefig("plot.png")
print(open("plot.png", "rb").read(4))
app = flask.Flask("app")
app.route("/")(lambda: "hello")
print(app.test_client().get("/").text)
try:
    socket.create_connection(("pypi.org", 443), 5)
except OSError as error:
    print("no network")
try:
    open(requests.__file__, "w")
except OSError as error:
    print(error.strerror)
""", "2.32.3 10 1.5\nb'\\x89PNG'\nhello\nno network\nRead-only file system\n")


@test("python: a virtual environment has them, too, and programs of packages are in PATH")
def _(place):
    need("python3")
    prepare(place)
    done = subprocess.run(["python3", "-m", "venv", "--without-pip", place.folder / "venv"], capture_output=True, check=False)
    equal(done.returncode, 0, done.stderr)
    place.environment["PATH"] = f"{place.folder}/venv/bin:{place.environment['PATH']}"
    done = with_packages(place, "python", ["pygments==2.18.0"], """
import pygments, subprocess, sys
print(sys.prefix != sys.base_prefix, pygments.__version__, subprocess.check_output(["pygmentize", "-V"], text=True).split(",")[0])
""")
    if "has no pip" in done.errors:
        # Debian's Python can make an environment only with a package that brings pip to it.
        check(done.status == 125 and "apt-get install python3-pip" in done.errors, done.describe())
    else:
        equal(done.ok().output, "True 2.18.0 Pygments version 2.18.0\n", done.describe())


@test("javascript: lodash, express and typescript, by require and by import")
def _(place):
    need("node", "npm")
    twice(place, "javascript", ["lodash@4.17.20", "express", "typescript@5"], """
import express from 'express';
import { createRequire } from 'module';
import { execSync } from 'child_process';
const require = createRequire(import.meta.url);
console.log(require('lodash').VERSION, typeof express(), require('typescript').version.split('.')[0]);
console.log(execSync('tsc --version').toString().split('.')[0]);
fetch('https://registry.npmjs.org/').catch(() => console.log('no network'));
""", "4.17.20 function 5\nVersion 5\nno network\n")


@test("typescript: what is typed, and what is not")
def _(place):
    need("node", "npm")
    twice(place, "typescript", ["zod@3", "lodash@4"], """
import { z } from 'zod';
import _ from 'lodash';
const shape = z.object({ n: z.number() });
const value: z.infer<typeof shape> = shape.parse({ n: 3 });
console.log(_.chunk([1, 2, value.n], 2).length);
""", "2\n")


@test("go: two modules; a program that is a module finds them, too")
def _(place):
    need("go")
    packages = ["rsc.io/quote@v1.5.2", "github.com/pkg/errors"]
    program = """package main

import (
	"fmt"

	"github.com/pkg/errors"
	"rsc.io/quote"
)

func main() {
	fmt.Println(quote.Go(), errors.Wrap(errors.New("reason"), "context"))
}
"""
    expected = "Don't communicate by sharing memory, share memory by communicating. context: reason\n"
    twice(place, "go", packages, program, expected)
    module = place.folder / "module"
    module.mkdir()
    (module / "main.go").write_text(program)
    (module / "go.mod").write_text("module example.org/m\n\ngo 1.19\n\nrequire (\n\tgithub.com/pkg/errors v0.9.1\n\trsc.io/quote v1.5.2\n)\n")
    done = place.nsbox("run", "--no-config", "--image", "none", "--lang", "go", "--with", ",".join(packages), "--workspace", module,
                       module / "main.go", timeout=300).ok()
    equal(done.output, expected, done.describe())


@test("rust: crates, with a feature and its macro")
def _(place):
    need("cargo", "rustc")
    prepare(place)
    version = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    code = """
use serde::Serialize;
#[derive(Serialize)]
struct Point { x: i32 }
fn main() {
    let text = serde_json::to_string(&Point { x: 3 }).unwrap();
    println!("{} {}", text, std::net::TcpStream::connect("index.crates.io:443").is_err());
}
"""
    packages = ["serde@1.0.200/derive", "serde_json@1.0.116"]
    if tuple(map(int, version.split(".")[:2])) < (1, 70):
        done = with_packages(place, "rust", packages, code)
        check(done.status == 125 and "is too old: 1.70 or later" in done.errors, done.describe())
    else:
        twice(place, "rust", packages, code, '{"x":3} true\n')


@test("java: two artifacts and what they need; an annotation processor")
def _(place):
    need("javac", "java", "mvn")
    twice(place, "java", ["com.google.code.gson:gson:2.11.0", "org.projectlombok:lombok:1.18.34"], """
import com.google.gson.Gson;
import java.net.Socket;

@lombok.Data
class Point { int x; }

public class Main {
    public static void main(String[] arguments) throws Exception {
        Point point = new Point();
        point.setX(3);
        String network = "none";
        try (Socket socket = new Socket("repo.maven.apache.org", 443)) { network = "some"; } catch (java.io.IOException e) {}
        System.out.println(new Gson().toJson(point) + " " + network);
    }
}
""", '{"x":3} none\n')


@test("a second call costs no more than 1.2 times as much as one without packages")
def _(place):
    need("python3")
    prepare(place)
    with_packages(place, "python", ["six==1.17.0"], "pass").ok()

    no_slower(lambda: with_packages(place, "python", [], "pass"), lambda: with_packages(place, "python", ["six==1.17.0"], "pass"))
