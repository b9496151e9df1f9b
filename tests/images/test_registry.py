# SPDX-License-Identifier: MIT
"""Pulls from docker-registry what skopeo has pushed: the same tree as umoci unpacks."""

import json

import image
from harness import IS_ROOT, check, equal, run, shared, test
from registries import Stub, docker_registry, push

NEEDS = ("docker-registry", "skopeo", "umoci")


def registry(folder):
    return docker_registry(folder)


class Samples:
    """The images, as layouts, and what umoci makes of them."""

    def __init__(self, folder):
        self.every = image.Layout(folder / "every")
        layers = image.every_kind()
        self.every.tag(self.every.manifest(layers, {"Env": ["A=b"], "Cmd": ["/bin/sh"]}))
        self.opaque = image.simple(folder / "opaque", image.opaque_root())
        self.plain = image.simple(folder / "plain", layers, gzipped=False)
        self.index = image.Layout(folder / "index")
        arm = [image.layer([image.Entry("arm", content=str(n)) for n in range(8)])]
        self.index.tag(self.index.index([self.index.manifest(arm, architecture="arm64"), self.index.manifest(layers[:3])]))
        self.trees = {}
        self.folder = folder

    def tree(self, name):
        """umoci's: of a layout's image, or of one of an index (for its own layout has to be made)."""
        if name not in self.trees:
            target = self.folder / f"tree-{name}"
            options = [] if IS_ROOT else ["--rootless"]
            run("umoci", "raw", "unpack", *options, "--image", f"{self.folder / name}:latest", target)
            self.trees[name] = target
        return self.trees[name]


def samples(folder):
    return Samples(folder)


def pull_and_compare(place, name, tree, unnamed=image.UNNAMED):
    done = place.pull(name).ok()
    check(name in done.output, done.describe())
    place.same_tree(name.split("/", 1)[1], shared(samples).tree(tree), unnamed, image.CROSSING)


def pushed(layout, name, *options):
    target = f"{shared(registry)}/{name}"
    push(f"oci:{shared(samples).folder / layout}:latest", target, *options)
    return target


@test("an OCI image, gzip, ten layers: the tree is umoci's", NEEDS)
def _(place):
    pull_and_compare(place, pushed("every", "every/oci:1"), "every")


@test("a Docker schema 2 image: the tree is umoci's", NEEDS)
def _(place):
    name = pushed("every", "every/docker:1", "--format", "v2s2")
    check("docker" in run("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}"), "it is no Docker manifest")
    pull_and_compare(place, name, "every")


@test("an OCI image, zstd: the tree is umoci's", NEEDS)
def _(place):
    name = pushed("plain", "every/zstd:1", "--dest-compress-format", "zstd")
    check("tar+zstd" in run("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}"), "it is not zstd")
    pull_and_compare(place, name, "every")


@test("an OCI image, uncompressed: the tree is umoci's", ("umoci",))
def _(place):
    with Stub(shared(samples).plain) as stub:
        pull_and_compare(place, f"{stub.name}/plain:latest", "every")


@test("a layer with an opaque root: nothing below shows through", NEEDS)
def _(place):
    pull_and_compare(place, pushed("opaque", "opaque:1"), "opaque")
    done = place.nsbox("run", "--pull", "never", "--image", shared(registry) + "/opaque:1", "/nothing")
    equal(done.status, 127, done.describe())


@test("by digest, and with a tag beside the digest", NEEDS)
def _(place):
    name = pushed("every", "every/oci:1")
    digest = image.sha256(run("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}").encode())
    for reference in (name[:-2] + "@" + digest, name + "@" + digest):
        done = place.pull(reference, "--quiet").ok()
        equal(done.output, digest + "\n", "output")
    equal(len(json.loads(place.nsbox("images", "ls", "--json").ok().output)), 1, "images")


@test("an index of two platforms: this machine's, and another by --platform", NEEDS)
def _(place):
    for form in ("oci", "v2s2"):
        name = pushed("index", f"index/{form}:1", "--all", "--format", form)
        place.pull(name, "--platform", "linux/amd64").ok()
        equal(place.inspect(name)["platform"], "linux/amd64", "platform")
        equal(len(place.inspect(name)["layers"]), 3, "layers")
        place.pull(name, "--platform", "linux/arm64").ok()
        equal(place.inspect(name)["platform"], "linux/arm64", "platform")
        place.pull(name, "--platform", "linux/s390x").refused("has no image for linux/s390x.*\n.*it has: .*amd64")


@test("what is there already is not fetched again", ("umoci",))
def _(place):
    with Stub(shared(samples).every) as stub:
        place.pull(f"{stub.name}/a:latest").ok()
        count = len(stub.requests("/blobs/"))
        equal(count, 11, "requests for blobs")
        place.pull(f"{stub.name}/b:latest").ok()
        check(len(stub.requests("/blobs/")) <= count + 1, "layers were fetched again")


@test("names that registries do not have: one line", NEEDS)
def _(place):
    place.pull(shared(registry) + "/nothing:1").refused("nothing:1.*does not have it")
    place.pull(pushed("every", "every/oci:1")[:-2] + ":2").refused("does not have it")
    for wrong in ("UPPER/case", "a b", "x@sha256:12", "x:" + "t" * 129, "-x", "a//b", ""):
        place.nsbox("pull", "--", wrong).refused("image reference")


@test("localhost without a port is no registry: nothing is asked, a port makes it one")
def _(place):
    layout = image.simple(place.folder / "layout", [image.layer([image.Entry("f", content="x")])])
    for words in (("pull", "localhost/nsbox/python"), ("pull", "--insecure", "localhost/nsbox/python:3"),
                  ("run", "--image", "localhost/nsbox/python", "true"),
                  ("run", "--image", "localhost/nsbox/python", "--pull", "always", "true")):
        place.nsbox(*words).refused("no registry has\n.*rootfs-scripts/python")
    place.pull("localhost/mine").refused("no registry has\n.*localhost:5000/mine")
    with Stub(layout) as stub:
        place.pull(f"localhost:{stub.port}/nsbox/python").ok()
    equal(place.nsbox("images", "import", layout.folder, "localhost/nsbox/python", "--quiet").ok().output,
          "localhost/nsbox/python:latest\n", "what it is called")
    done = place.nsbox("run", "--image", "localhost/nsbox/python", "/f")
    check(done.status == 126, done.describe())
