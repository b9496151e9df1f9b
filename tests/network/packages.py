#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What the servers of these tests have, in the folder `files` of the given one: a repository of git, and a package each
for pip, npm, cargo and go as their indexes have it. And clients that have to be compiled, where their compilers are
there, in the folder `probes`.

    packages.py DIR
"""

import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import internet

GO = """package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Printf("%d %s", answer.StatusCode, body)
}
"""

JAVA = """import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.security.KeyStore;
import java.security.cert.*;
import javax.net.ssl.*;

public class Fetch {
	public static void main(String[] arguments) throws Exception {
		KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
		store.load(null, null);
		try (InputStream pem = new FileInputStream(System.getenv("SSL_CERT_FILE"))) {
			int number = 0;
			for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(pem))
				store.setCertificateEntry("ca" + number++, certificate);
		}
		TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		trust.init(store);
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(null, trust.getTrustManagers(), null);
		HttpClient client = HttpClient.newBuilder().sslContext(context).build();
		try {
			HttpResponse<String> answer = client.send(HttpRequest.newBuilder(URI.create(arguments[0])).build(),
				HttpResponse.BodyHandlers.ofString());
			System.out.print(answer.statusCode() + " " + answer.body());
		} catch (IOException error) {
			System.out.println("error: " + error);
			System.exit(1);
		}
	}
}
"""


def tar_of(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def zip_of(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def python_package(files):
    info = "nsbxprobe-1.0.0.dist-info"
    members = {
        "nsbxprobe.py": "print('installed by pip')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: nsbxprobe\nVersion: 1.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"])
    wheel = "nsbxprobe-1.0.0-py3-none-any.whl"
    write(files / "simple/nsbxprobe" / wheel, zip_of(members))
    write(
        files / "simple/nsbxprobe/index.html",
        f'<!DOCTYPE html><html><body><a href="{wheel}">{wheel}</a></body></html>\n',
    )


def node_package(files):
    package = {"name": "nsbxprobe", "version": "1.0.0", "main": "index.js"}
    archive = tar_of(
        {"package/package.json": json.dumps(package), "package/index.js": "console.log('installed by npm')\n"}
    )
    write(files / "npm/-/nsbxprobe-1.0.0.tgz", archive)
    package["dist"] = {"tarball": "@URL@/npm/-/nsbxprobe-1.0.0.tgz", "shasum": hashlib.sha1(archive).hexdigest()}
    write(
        files / "npm/nsbxprobe",
        json.dumps({"name": "nsbxprobe", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}}),
    )


def rust_package(files):
    manifest = '[package]\nname = "nsbxprobe"\nversion = "1.0.0"\nedition = "2021"\n'
    archive = tar_of({"nsbxprobe-1.0.0/Cargo.toml": manifest, "nsbxprobe-1.0.0/src/lib.rs": "pub fn probe() {}\n"})
    write(files / "crates/nsbxprobe/1.0.0/download", archive)
    write(files / "index/config.json", json.dumps({"dl": "@URL@/crates"}))
    write(
        files / "index/ns/bx/nsbxprobe",
        json.dumps(
            {
                "name": "nsbxprobe",
                "vers": "1.0.0",
                "deps": [],
                "features": {},
                "yanked": False,
                "cksum": hashlib.sha256(archive).hexdigest(),
            }
        )
        + "\n",
    )


def go_module(files):
    name, place = "example.org/nsbxprobe", files / "goproxy/example.org/nsbxprobe/@v"
    write(place / "list", "v1.0.0\n")
    write(place / "v1.0.0.info", json.dumps({"Version": "v1.0.0", "Time": "2024-01-01T00:00:00Z"}))
    write(place / "v1.0.0.mod", f"module {name}\n")
    write(
        place / "v1.0.0.zip",
        zip_of({f"{name}@v1.0.0/go.mod": f"module {name}\n", f"{name}@v1.0.0/probe.go": "package nsbxprobe\n"}),
    )


def git_repository(files):
    where, options = files / "repository.git", {
        "check": True,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "tests", f"GIT_{who}_EMAIL": "tests@example.org"}
    subprocess.run(["git", "init", "--bare", "-b", "main", where], env=environment, **options)
    tree = (
        subprocess.run(["git", "mktree"], cwd=where, env=environment, input=b"", capture_output=True, check=True)
        .stdout.decode()
        .strip()
    )
    commit = (
        subprocess.run(
            ["git", "commit-tree", tree, "-m", "cloned by git"],
            cwd=where,
            env=environment,
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    subprocess.run(["git", "update-ref", "refs/heads/main", commit], cwd=where, env=environment, **options)
    subprocess.run(["git", "update-server-info"], cwd=where, env=environment, **options)


def compile_clients(probes):
    """Those that cannot be compiled are skipped by their tests."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if shutil.which("go"):
        write(probes / "fetch.go", GO)
        subprocess.run(
            ["go", "build", "-o", probes / "fetch-go", probes / "fetch.go"],
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GO111MODULE": "off"},
            check=False,
            **quiet,
        )
    if shutil.which("javac"):
        write(probes / "Fetch.java", JAVA)
        subprocess.run(["javac", "-d", probes, probes / "Fetch.java"], check=False, **quiet)


def main():
    work = pathlib.Path(sys.argv[1])
    internet.certificates(work)
    shutil.copy(work / "ca.pem", work / "probes")
    for make in (python_package, node_package, rust_package, go_module):
        make(work / "files")
    if shutil.which("git"):
        git_repository(work / "files")
    compile_clients(work / "probes")


if __name__ == "__main__":
    main()
