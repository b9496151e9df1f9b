# SPDX-License-Identifier: MIT
"""Images of rootfs-scripts on their way through a registry: pushed by skopeo, pulled by nsbox, beside umoci's trees."""

import gzip
import json

import image
from harness import IS_ROOT, check, equal, run, shared, test
from registries import docker_registry, push
from scripts import built

NEEDS = ("docker-registry", "skopeo", "umoci")


def registry(folder):
    return docker_registry(folder)


class Trees:
    """What umoci makes of the images."""

    def __init__(self, folder):
        self.folder, self.trees = folder, {}

    def of(self, name):
        if name not in self.trees:
            self.trees[name] = self.folder / name
            run("umoci", "raw", "unpack", *([] if IS_ROOT else ["--rootless"]), "--image", f"{shared(built).layout(name)}:latest",
                self.trees[name], timeout=200)
        return self.trees[name]


def trees(folder):
    return Trees(folder)


def manifest_of(name):
    return run("skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}")


def pull_and_compare(place, name, tree):
    """By tag and, in another store, by digest."""
    digest = image.sha256(manifest_of(name).encode())
    place.pull(name, timeout=200).ok()
    place.same_tree(name.split("/", 1)[1], shared(trees).of(tree))
    done = place.pull(name.rsplit(":", 1)[0] + "@" + digest, "--quiet", timeout=200).ok()
    equal(done.output, digest + "\n", "digest")


def plain(folder, name):
    """The image with layers that are not compressed, which skopeo compresses as it is told."""
    source, layout = shared(built).layout(name), image.Layout(folder / "plain")

    def content(descriptor):
        return (source / "blobs/sha256" / descriptor["digest"][7:]).read_bytes()

    manifest = json.loads(content(json.loads((source / "index.json").read_text())["manifests"][0]))
    manifest["config"] = layout.put(content(manifest["config"]), manifest["config"]["mediaType"])
    manifest["layers"] = [layout.put(gzip.decompress(content(layer)), image.LAYER) for layer in manifest["layers"]]
    layout.tag(layout.put(manifest, manifest["mediaType"]))
    return layout.folder


def through(place, name, form, *options, source=None):
    target = f"{shared(registry)}/{name}/{form}:1"
    push(f"oci:{source or shared(built).layout(name)}:latest", target, *options)
    pull_and_compare(place, target, name)
    return json.loads(manifest_of(target))


@test("Debian's image through a registry, as an OCI image: the tree is umoci's", NEEDS)
def _(place):
    manifest = through(place, "debian", "oci")
    equal(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json", "media type")
    check(manifest["layers"][0]["mediaType"].endswith("+gzip"), json.dumps(manifest))


@test("Debian's image through a registry, as Docker schema 2: the tree is umoci's", NEEDS)
def _(place):
    manifest = through(place, "debian", "docker", "--format", "v2s2")
    equal(manifest["mediaType"], "application/vnd.docker.distribution.manifest.v2+json", "media type")


@test("a language's image of two layers, gzip and zstd: the tree is umoci's", NEEDS)
def _(place):
    manifest = through(place, "python", "gzip")
    equal(len(manifest["layers"]), 2, "layers")
    manifest = through(place, "python", "zstd", "--dest-compress-format", "zstd", source=plain(place.folder, "python"))
    check(all(layer["mediaType"].endswith("+zstd") for layer in manifest["layers"]), json.dumps(manifest))


@test("a language's image of three layers, as Docker schema 2: the tree is umoci's", NEEDS)
def _(place):
    manifest = through(place, "typescript", "docker", "--format", "v2s2")
    equal(len(manifest["layers"]), 3, "layers")


@test("an index, OCI and Docker's, of Debian's image and another platform's: this machine's is taken", NEEDS)
def _(place):
    source = shared(built).layout("debian")
    index = image.Layout(place.folder / "index")
    own = json.loads((source / "index.json").read_text())["manifests"][0]
    for blob in (source / "blobs/sha256").iterdir():
        (index.blobs / blob.name).symlink_to(blob)
    own = {"mediaType": own["mediaType"], "digest": own["digest"], "size": own["size"],
           "platform": {"os": "linux", "architecture": json.loads(index.blob(json.loads(index.blob(own["digest"]))["config"]["digest"]))
                        ["architecture"]}}
    other = index.manifest([image.layer([image.Entry("other", content="o")])], architecture="s390x")
    index.tag(index.index([other, own]))
    for form in ("oci", "v2s2"):
        target = f"{shared(registry)}/index/{form}:1"
        push(f"oci:{place.folder / 'index'}:latest", target, "--all", "--format", form)
        check(len(json.loads(manifest_of(target))["manifests"]) == 2, "it is no index")
        pull_and_compare(place, target, "debian")
