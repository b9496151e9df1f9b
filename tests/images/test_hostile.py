# SPDX-License-Identifier: MIT
"""Images that mean harm: refused in one clear line, or harmless; nothing outside the store touched, nothing half-made."""

import gzip
import json
import os
import random
import tarfile

import image
from harness import check, equal, test
from image import Entry, layer
from registries import Stub

HARMLESS = None
OUTSIDE = "@outside@"  # in names and links: the folder that nothing may happen to


def import_evil(place, pattern, layout, layers=1):
    """Imports an image; what was there before and the folder outside have to stay as they are."""
    outside = place.folder / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "canary").write_text("safe")
    before = outside.stat().st_mtime_ns
    done = place.nsbox("images", "import", layout.folder, "evil")
    check_outside(place, before)
    after_evil(place, done, pattern, layers)
    return done


def check_outside(place, before):
    outside = place.folder / "outside"
    equal(os.listdir(outside), ["canary"], "what is outside")
    equal((outside / "canary").read_text(), "safe", "the file outside")
    equal(outside.stat().st_mtime_ns, before, "the time of what is outside")
    equal(os.listxattr(outside), [], "attributes of what is outside")


def after_evil(place, done, pattern, layers):
    if pattern is HARMLESS:
        done.ok()
        equal(place.listing("tmp"), set(), "store/tmp")
        place.nsbox("images", "rm", "evil").ok()
    else:
        done.refused(pattern)
        equal(place.listing("tmp"), set(), "store/tmp")
        check(len(place.listing("layers")) < layers, f"a layer that was refused is there: {place.listing('layers')}")
        equal(place.nsbox("images", "ls", "--quiet").ok().output, "", "images")
        place.nsbox("images", "prune").ok()
    equal(place.listing(), set(), "the store afterwards")


def at(entry, outside):
    """The entry with the folder's name put in."""
    for key in ("name", "linkname"):
        setattr(entry, key, getattr(entry, key).replace(OUTSIDE, outside))
    return entry


def evil_layers(description, pattern, *layers):
    """A test of layers, each a function that makes its entries."""

    def function(place):
        outside = str(place.folder / "outside")
        archives = [layer([at(entry, outside) if isinstance(entry, Entry) else entry for entry in make()]) for make in layers]
        import_evil(place, pattern, image.simple(place.folder / "layout", archives), len(archives))

    test(f"hostile: {description}")(function)


def sized(name, size):
    """A file whose header says a size; nothing follows."""
    entry = Entry(name)
    entry.size = size
    return entry


def typed(name, letter):
    entry = Entry(name)
    entry.type = letter
    return entry


UP = "../" * 12

evil_layers("a name that climbs out", r'\.\.', lambda: [Entry("../outside/new", content="x")])
evil_layers("a name that climbs out of a directory", r'\.\.', lambda: [Entry("a/b/../../../../new", content="x")])
evil_layers("a name that is just «..»", r'\.\.', lambda: [Entry("..", "dir")])
evil_layers("an absolute name", HARMLESS, lambda: [Entry(f"{OUTSIDE}/new", content="x"), Entry("//etc//passwd", content="x")])
evil_layers("written through an absolute link", HARMLESS,
            lambda: [Entry("l", "symlink", OUTSIDE), Entry("l/new", content="x"), Entry("l/canary", content="x")])
evil_layers("written through a link that climbs", HARMLESS,
            lambda: [Entry("l", "symlink", UP + OUTSIDE), Entry("l/new", content="x"), Entry("l/canary", content="x")])
evil_layers("written through a chain of links", HARMLESS,
            lambda: [Entry("a", "symlink", "b/c"), Entry("b", "symlink", "d"), Entry("d", "dir"), Entry("d/c", "symlink", OUTSIDE),
                     Entry("a/new", content="x"), Entry("a/canary", content="x")])
evil_layers("written through a link of the layer below", HARMLESS,
            lambda: [Entry("l", "symlink", OUTSIDE), Entry("m", "symlink", UP + "tmp")],
            lambda: [Entry("l/new", content="x"), Entry("l/canary", content="x"), Entry("m/new", content="x")])
evil_layers("written over a link to a file", HARMLESS,
            lambda: [Entry("l", "symlink", f"{OUTSIDE}/canary"), Entry("l", content="x", mode=0o777)])
evil_layers("a directory where there is a link out", HARMLESS,
            lambda: [Entry("l", "symlink", OUTSIDE), Entry("l", "dir", mode=0), Entry("l/new", content="x")])
evil_layers("links in a circle", r"symbolic links|links", lambda: [Entry("a", "symlink", "b"), Entry("b", "symlink", "a"), Entry("a/x", content="x")])
evil_layers("links in a circle in the layer below", HARMLESS,
            lambda: [Entry("a", "symlink", "b"), Entry("b", "symlink", "a")], lambda: [Entry("a/x", content="x")])
evil_layers("a hard link that climbs out", r'\.\.', lambda: [Entry("h", "link", "../outside/canary"), Entry("h", content="x")])
evil_layers("a hard link to an absolute name", "neither this layer nor those below",
            lambda: [Entry("h", "link", f"{OUTSIDE}/canary"), Entry("g", content="x")])
evil_layers("a hard link to a link, then written", HARMLESS,
            lambda: [Entry("s", "symlink", f"{OUTSIDE}/canary"), Entry("h", "link", "s"), Entry("h", content="x", mode=0o777)])
evil_layers("a hard link through a link", "neither this layer nor those below",
            lambda: [Entry("d", "symlink", OUTSIDE), Entry("h", "link", "d/canary")])
evil_layers("a hard link through a link of the layer below", "neither this layer nor those below",
            lambda: [Entry("d", "symlink", OUTSIDE)], lambda: [Entry("h", "link", "d/canary")])
evil_layers("a hard link to a directory", "is to the directory", lambda: [Entry("d", "dir"), Entry("h", "link", "d")])
evil_layers("a hard link to the root", "the root", lambda: [Entry("h", "link", "./")])
evil_layers("hard links in a circle", "neither this layer nor those below", lambda: [Entry("a", "link", "b"), Entry("b", "link", "a")])
evil_layers("a hard link to itself", "neither this layer nor those below", lambda: [Entry("a", "link", "a")])
evil_layers("a whiteout of no name", "whiteout of no name", lambda: [Entry(".wh.")])
evil_layers("a whiteout of the directory itself", "whiteout of no name", lambda: [Entry("a/.wh..")])
evil_layers("a whiteout of the directory above", "whiteout of no name", lambda: [Entry("a/.wh...")])
evil_layers("something in a whiteout", "something in a whiteout", lambda: [Entry(".wh.x/y", content="x")])
evil_layers("a whiteout through a link", HARMLESS,
            lambda: [Entry("l", "symlink", OUTSIDE), Entry("l/.wh.canary"), Entry("l/.wh..wh..opq")])
evil_layers("a whiteout through a link of the layer below", HARMLESS,
            lambda: [Entry("l", "symlink", OUTSIDE)], lambda: [Entry("l/.wh.canary"), Entry("l/.wh..wh..opq")])
evil_layers("devices", HARMLESS, lambda: [Entry("sda", "block", mode=0o666), Entry("kmem", "char", mode=0o666)])
evil_layers("a NUL in a name", HARMLESS, lambda: [Entry("x", content="x", pax={"path": "a\0/../../outside/new"})])
evil_layers("a newline and an escape in a bad name", r'\.\.', lambda: [Entry("../a\nnsbox: all is well\x1b[31m", content="x")])
evil_layers("newlines in names", HARMLESS, lambda: [Entry("a\nb/c\nd", content="x"), Entry("e\n", "link", "a\nb/c\nd")])
evil_layers("a name of 5000 bytes", "more than 4095 bytes|5[0-9]+ bytes|too long",
            lambda: [Entry("/".join(["n" * 200] * 25), content="x")])
evil_layers("a part of a name of 300 bytes", "too long|300 bytes", lambda: [Entry("d/" + "n" * 300, content="x")])
evil_layers("directories 300 deep", "deeper than", lambda: [Entry("d/" * 300 + "x", content="x")])
evil_layers("duplicates of every type", HARMLESS,
            lambda: [Entry("a", content="1"), Entry("a", "dir"), Entry("a/b", "dir"), Entry("a/b/c", content="x"),
                     Entry("a", "symlink", "b"), Entry("a", "fifo"), Entry("a", "char"), Entry("a", "dir"), Entry("a", content="2"),
                     Entry(".wh.a"), Entry("a", content="3")])
evil_layers("a file that claims 1 TiB", "larger than", lambda: [sized("big", 1 << 40)])
evil_layers("files that claim 300 GiB altogether", "larger than|cut short|[Tt]runcated", lambda: [sized("a", 300 << 30)])
evil_layers("a size below zero", r".", lambda: [sized("a", -4096)])
evil_layers("a file without its content", r"[Tt]runcated|cut short", lambda: [sized("a", 1 << 20)])
evil_layers("an extended header that claims 4 GiB", r".", lambda: [
    typed_header("PaxHeader", b"x", 4 << 30)])
evil_layers("a root that is a link", "root", lambda: [Entry("./", "symlink", OUTSIDE), Entry("new", content="x")])
evil_layers("a root that is a file", "root", lambda: [Entry(".", content="x")])
evil_layers("overlayfs' own attributes", HARMLESS, lambda: [
    Entry("d", "dir", pax={"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.trusted.overlay.opaque": "y",
                           "SCHILY.xattr.user.overlay.redirect": "/etc", "SCHILY.xattr.security.selinux": "x"}),
    Entry("f", content="x", pax={"SCHILY.xattr.user.overlay.metacopy": "", "SCHILY.xattr.system.posix_acl_access": "x"})])
evil_layers("an attribute without a name", HARMLESS, lambda: [Entry("f", pax={"SCHILY.xattr.": "x"})])
evil_layers("noise in place of an archive", r".", lambda: [image.noise(4096)])


def typed_header(name, letter, size):
    entry = sized(name, size)
    entry.type = letter
    return entry


def evil(description, pattern):
    """A test of a layout that the function makes in a folder."""

    def register(make):
        test(f"hostile: {description}")(
            lambda place: import_evil(place, pattern, make(image.Layout(place.folder / "layout"))))

    return register


FILE = [Entry("f", content="x" * 3000), Entry("g", content=image.noise(100000))]


def with_blob(layout, archive, blob, suffix="+gzip", **more):
    """An image whose layer is stored as `blob`, with the right digest."""
    layout.tag(layout.manifest([archive], blobs=[layout.put(blob, image.LAYER + suffix)], **more))
    return layout


@evil("a gzip bomb", "more than 100|times|larger")
def _(layout):
    zeros = gzip.compress(bytes(16 << 20), mtime=0)
    return with_blob(layout, b"", gzip.compress(sized("z", 800 << 20).tobuf(tarfile.GNU_FORMAT)) + zeros * 50)


@evil("a million and more entries", "more than 1000000 entries")
def _(layout):
    dice = random.Random(1)
    names = ["%016x" % dice.getrandbits(64) for _ in range(1024)]
    some = b"".join(Entry(f".wh..wh.{name}").tobuf(tarfile.USTAR_FORMAT) for name in names)
    return with_blob(layout, b"", gzip.compress(some, 6, mtime=0) * 1000)


@evil("a gzip stream that is cut short", "cut short")
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE))[:-50000])


@evil("a gzip stream without its check sum", "cut short")
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE))[:-8])


@evil("a damaged gzip stream", "damaged")
def _(layout):
    blob = bytearray(image.compressed(layer(FILE)))
    for place in range(50000, 50064):
        blob[place] ^= 0xff
    return with_blob(layout, layer(FILE), bytes(blob))


@evil("a gzip stream with a wrong check sum", "damaged")
def _(layout):
    blob = image.compressed(layer(FILE))
    return with_blob(layout, layer(FILE), blob[:-8] + b"\0\1\2\3" + blob[-4:])


@evil("noise after the gzip stream", HARMLESS)
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE)) + image.noise(1000))


@evil("no gzip where the manifest says gzip", "damaged")
def _(layout):
    return with_blob(layout, layer(FILE), layer(FILE))


@evil("no zstd where the manifest says zstd", "damaged")
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE)), "+zstd")


@evil("an archive that is cut short", "cut short|[Tt]runcated")
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE)[:50000]))


@evil("a layer with another content than its digest says", "digest")
def _(layout):
    blob = layout.put(image.compressed(layer(FILE)), image.LAYER + "+gzip")
    path = layout.blobs / blob["digest"][7:]
    path.write_bytes(image.compressed(layer([Entry("f", content="y" * 3000), FILE[1]])).ljust(blob["size"], b"\0")[:blob["size"]])
    layout.tag(layout.manifest([layer(FILE)], blobs=[blob]))
    return layout


@evil("a wrong diff id", "configuration says")
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE)), diff_ids=["sha256:" + "1" * 64])


@evil("more diff ids than layers", "1 layers and the configuration 2")
def _(layout):
    return with_blob(layout, layer(FILE), image.compressed(layer(FILE)), diff_ids=[image.sha256(layer(FILE))] * 2)


def with_size(layout, change):
    blob = layout.put(image.compressed(layer(FILE)), image.LAYER + "+gzip")
    blob["size"] += change
    layout.tag(layout.manifest([layer(FILE)], blobs=[blob]))
    return layout


evil("a layer that is larger than its manifest says", "larger than")(lambda layout: with_size(layout, -1))
evil("a layer that is smaller than its manifest says", "its manifest says")(lambda layout: with_size(layout, 1))


@evil("a size of more than 64 bits", ".")
def _(layout):
    return with_size(layout, 1 << 70)


@evil("a digest that is a path", "digest")
def _(layout):
    blob = layout.put(image.compressed(layer(FILE)), image.LAYER + "+gzip")
    layout.tag(layout.manifest([layer(FILE)], blobs=[blob | {"digest": "sha256:../../../outside/canary"}]))
    return layout


@evil("indexes in indexes", "index")
def _(layout):
    descriptor = layout.manifest([layer(FILE)])
    for _ in range(12):
        descriptor = layout.index([descriptor])
    layout.tag(descriptor)
    return layout


@evil("a manifest of 5 MB", "takes at most|too large")
def _(layout):
    manifest = json.loads(layout.blob(layout.manifest([layer(FILE)])["digest"]))
    layout.tag(layout.put(manifest | {"annotations": {"x": "y" * 5000000}}, image.OCI + "manifest.v1+json"))
    return layout


@evil("a manifest that is an index too", "both an index and a manifest")
def _(layout):
    manifest = json.loads(layout.blob(layout.manifest([layer(FILE)])["digest"]))
    layout.tag(layout.put(manifest | {"manifests": []}, image.OCI + "manifest.v1+json"))
    return layout


@evil("a thousand layers", "takes at most")
def _(layout):
    archive = layer([Entry("f")])
    blob = layout.put(image.compressed(archive), image.LAYER + "+gzip")
    layout.tag(layout.manifest([archive] * 1000, blobs=[blob] * 1000))
    return layout


@evil("JSON a hundred thousand deep", "not JSON")
def _(layout):
    layout.tag(layout.put(b'{"schemaVersion":2,"x":' + b"[" * 100000 + b"]" * 100000 + b"}", image.OCI + "manifest.v1+json"))
    return layout


@evil("a configuration of another kind", "no image that can be run")
def _(layout):
    manifest = json.loads(layout.blob(layout.manifest([layer(FILE)])["digest"]))
    manifest["config"]["mediaType"] = "application/vnd.cncf.helm.config.v1+json"
    layout.tag(layout.put(manifest, image.OCI + "manifest.v1+json"))
    return layout


@evil("an environment that is no list", "Env")
def _(layout):
    layout.tag(layout.manifest([layer(FILE)], {"Env": {"A": "b"}}))
    return layout


@test("hostile: blobs of a layout that are links to outside")
def _(place):
    layout = image.Layout(place.folder / "layout")
    secret = place.folder / "secret"
    secret.write_bytes(image.compressed(layer(FILE)))
    blob = {"mediaType": image.LAYER + "+gzip", "digest": image.sha256(secret.read_bytes()), "size": secret.stat().st_size}
    (layout.blobs / blob["digest"][7:]).symlink_to(secret)
    layout.tag(layout.manifest([layer(FILE)], blobs=[blob]))
    import_evil(place, ".", layout)


@test("hostile: /etc/passwd that leads out, or is a FIFO: nobody waits for it, nothing is read")
def _(place):
    (place.folder / "passwd").write_text("evil:x:4242:4242::/evil:/bin/sh\n")
    for number, entry in enumerate((Entry("etc/passwd", "symlink", str(place.folder / "passwd")), Entry("etc/passwd", "fifo"),
                                    Entry("etc/passwd", "dir"), Entry("etc", "symlink", str(place.folder)))):
        layout = image.simple(place.folder / f"layout-{number}", [layer([entry])], {"User": "evil"})
        place.nsbox("images", "import", layout.folder, "evil").refused("evil.* is not in its")


@test("hostile: a sparse file of 10 GB takes no room")
def _(place):
    size = 10 << 30
    sparse = Entry("big", content=b"1\n%d\n1\n" % (size - 1) + bytes(512 - len(b"1\n%d\n1\n" % (size - 1))) + b"x",
                   pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "big",
                        "GNU.sparse.realsize": str(size)})
    layout = image.simple(place.folder / "layout", [layer([sparse])])
    place.nsbox("images", "import", layout.folder, "evil").ok()
    found = list((place.store / "layers").glob("*/fs/big"))
    equal(len(found), 1, "files")
    equal(found[0].stat().st_size, size, "size")
    check(found[0].stat().st_blocks < 1000, "the file takes room")


@test("hostile: attributes that overlayfs acts on are not set")
def _(place):
    names = {"user.overlay.opaque": "y", "trusted.overlay.opaque": "y", "user.kept": "v"}
    layout = image.simple(place.folder / "layout", [
        layer([Entry("d", "dir"), Entry("d/below", content="x")]),
        layer([Entry("d", "dir", pax={f"SCHILY.xattr.{name}": value for name, value in names.items()})])])
    place.nsbox("images", "import", layout.folder, "evil").ok()
    folders = list((place.store / "layers").glob("*/fs/d"))
    equal(sorted(sum((os.listxattr(each) for each in folders), [])), ["user.kept"], "attributes")


@test("hostile: manifests in schema 1, and of a type that nobody knows")
def _(place):
    layout = image.Layout(place.folder / "layout")
    layout.tag(layout.put({"schemaVersion": 1, "name": "x", "tag": "1", "fsLayers": []},
                          "application/vnd.docker.distribution.manifest.v1+json"), "one")
    layout.tag(layout.put({"schemaVersion": 2, "mediaType": "application/x-else"}, "application/x-else"), "else")
    layout.tag(layout.put(b"<html>not JSON", "text/html"), "html")
    layout.tag(layout.put({"schemaVersion": 2, "mediaType": image.OCI + "manifest.v1+json"}, image.OCI + "index.v1+json"), "type")
    with Stub(layout) as stub:
        place.pull(f"{stub.name}/x:one").refused("old format .schema 1.*\n.*skopeo")
        place.pull(f"{stub.name}/x:else").refused("application/x-else, which is neither")
        place.pull(f"{stub.name}/x:html").refused("not JSON")
        place.pull(f"{stub.name}/x:type").refused("was sent as")
    equal(place.listing(), set(), "the store")
