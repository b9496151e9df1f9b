# SPDX-License-Identifier: MIT
"""Images of what sandboxes have written: nsbox-image commit, with layers that the kernel's overlayfs has made here."""

import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tarfile
import time
from pathlib import Path

import image
from harness import IS_ROOT, check, equal, free_port, run, start_server, test
from image import Entry

REF_NAME = "org.opencontainers.image.ref.name"
NAMESPACE = ["unshare", "-m"] if IS_ROOT else ["unshare", "-Urm"]
ROOTLESS = [] if IS_ROOT else ["--rootless"]

BASE = [
    [Entry("./", "dir"), Entry("etc", "dir"), Entry("etc/passwd", content="root:x:0:0:root:/root:/bin/sh\n"), Entry("tmp", "dir", mode=0o1777),
     Entry("etc/hosts", content="of the image"), Entry("dev", "dir"), Entry("proc", "dir", mode=0o555), Entry("bin", "dir"),
     Entry("gone", content="g"), Entry("gone-dir", "dir"), Entry("gone-dir/in", content="i"), Entry("dir", "dir", mtime=1500000000),
     Entry("dir/kept", content="k"), Entry("dir/gone", content="g"), Entry("dir/changed", content="before"), Entry("anew", "dir"),
     Entry("anew/old", content="o"), Entry("anew/sub", "dir"), Entry("anew/sub/old", content="o"), Entry("file-to-dir", content="f"),
     Entry("dir-to-file", "dir"), Entry("dir-to-file/in", content="i"), Entry("link-to-dir", "symlink", "dir"),
     Entry("mode", "dir"), Entry("mode/in", content="i"), Entry("seen", "dir"), Entry("seen/in", content="i"),
     Entry("shut", "dir", mode=0o0), Entry("shut/in", content="i", mode=0)],
    [Entry("upper", "dir"), Entry("upper/a", content="a"), Entry("dir/.wh.nothing"), Entry("back", "dir"), Entry("back/a", content="a")],
]

# Run with the root of an overlay as its working directory; what is below `if root` an ordinary user cannot do.
FIRST = r"""
import os, shutil, socket
root = os.environ["AS_ROOT"] == "1"
os.umask(0)
os.unlink("gone"); shutil.rmtree("gone-dir"); os.unlink("dir/gone")
open("dir/changed", "w").write("after")
shutil.rmtree("anew"); os.mkdir("anew", 0o700); open("anew/new", "w").write("n")
os.unlink("file-to-dir"); os.mkdir("file-to-dir"); open("file-to-dir/in", "w").write("i")
shutil.rmtree("dir-to-file"); open("dir-to-file", "w").write("f")
os.chmod("mode", 0o750)
os.unlink("link-to-dir"); os.mkdir("link-to-dir"); open("link-to-dir/in", "w").write("i")
open("seen/passing", "w").write("x"); os.unlink("seen/passing")
open("once", "w").write("1"); os.mkdir("later"); open("later/in", "w").write("i"); open("later/deep", "w").write("d")
os.mkdir("again"); open("again/old", "w").write("o")
open("upper/b", "w").write("b"); shutil.rmtree("back")
os.mkdir("kinds", 0o2775)
os.mkfifo("kinds/fifo"); os.chmod("kinds/fifo", 0o2750); os.symlink("/etc/shadow", "kinds/link"); os.symlink("t" * 300, "kinds/long-target")
s = socket.socket(socket.AF_UNIX); s.bind("kinds/socket")
open("kinds/suid", "w").write("s"); os.chmod("kinds/suid", 0o4755)
open("kinds/one", "w").write("linked"); os.link("kinds/one", "kinds/three"); os.link("kinds/one", "kinds/two")
os.setxattr("kinds/one", "user.note", b"a\0b\n=\xff" * 9); os.setxattr("kinds", "user.dir", b"d")
os.mkdir("names")
for name in (b"latin-\xe4", "uni-ä€😀".encode(), b"new\nline", b"back\\slash and space", b"n" * 255, b"-", b"x" * 100, b"y" * 101):
    open(b"names/" + name, "wb").write(name)
deep = "names"
for n in range(30):
    deep += "/" + "d" * 60
    os.mkdir(deep)
open(deep + "/end", "w").write("e")
with open("sparse", "wb") as f:
    f.seek(3 << 20); f.write(b"in"); f.seek(20 << 20); f.write(b"more" * 100000); f.truncate(60 << 20)
with open("hole", "wb") as f:
    f.truncate(5 << 20)
open("zeros", "wb").write(bytes(4 << 20)); open("large", "wb").write(os.urandom(3 << 20)); open("empty", "w")
os.mkdir("closed"); open("closed/in", "w").write("c"); os.chmod("closed/in", 0); os.mkdir("closed/dir"); os.chmod("closed/dir", 0)
if root:
    os.chown("kinds/one", 1234, 65535); os.chown("kinds/link", 5, 6, follow_symlinks=False); os.mkdir("theirs"); os.chown("theirs", 33, 50)
    os.setxattr("kinds/suid", "security.capability", b"\x01\0\0\x02\0\x20\0\0" + 12 * b"\0")
    os.chown("dir/kept", 7, 8)
for name, when in (("once", 1), ("dir/changed", 4102444800.5), ("kinds/fifo", 1600000000.25), ("empty", -2), ("large", 2 ** 33 + 5)):
    os.utime(name, ns=(0, int(when * 10 ** 9)))
os.utime("kinds/link", ns=(0, 12345 * 10 ** 9), follow_symlinks=False)
os.chmod("closed", 0)
"""

SECOND = r"""
import os, shutil
os.unlink("once"); os.unlink("later/in"); open("later/new", "w").write("n")
shutil.rmtree("again"); os.mkdir("again"); open("again/new", "w").write("n")
os.unlink("anew/new"); open("anew/old", "w").write("back again")
os.mkdir("gone"); open("gone/now", "w").write("a directory")
os.mkdir("back"); open("back/b", "w").write("b")
os.unlink("kinds/two"); open("kinds/suid", "a").write("2")
shutil.rmtree("upper")
"""


class Store:
    """Snapshots in the store of a place, as sessions leave them."""

    def __init__(self, place):
        self.place, self.folder = place, place.store / "snapshots"
        for name in ("records", "layers"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        place.store.chmod(0o700)

    def base(self, name="base", layers=None, config=None):
        layout = image.simple(self.place.folder / f"layout-{name}", [image.layer(each) for each in layers or BASE], config)
        self.place.nsbox("images", "import", layout.folder, f"{name}:1").ok()
        record = self.place.record(f"{name}:1")
        return {"root": "image", "root_path": record["reference"], "root_digest": record["manifest"],
                "root_layers": [f"{self.place.store}/layers/{layer['chain_id'][7:]}/fs" for layer in reversed(record["layers"])]}

    def lowers(self, spec):
        return [spec["root_path"]] if spec["root"] == "directory" else spec["root_layers"]

    def layer(self, spec, below, script):
        """A layer: what the script changes in a root of layers (the topmost first) over the one of the spec."""
        name = os.urandom(16).hex()
        tree, work, root = self.folder / "layers" / name / "fs", self.folder / f"work-{name}", self.folder / f"root-{name}"
        for folder in (tree, work, root):
            folder.mkdir(parents=True)
        tree.chmod(0o755)
        lowers = ":".join([str(self.folder / "layers" / each / "fs") for each in below] + self.lowers(spec))
        run(*NAMESPACE, "sh", "-c",
            'mount -t overlay -o "userxattr,lowerdir=$1,upperdir=$2,workdir=$3" overlay "$4" && cd "$4" && exec "$5" -c "$6"',
            "sh", lowers, tree, work, root, sys.executable, script, env=os.environ | {"AS_ROOT": str(int(IS_ROOT))})
        for folder in (work, root):
            run("chmod", "-R", "u+rwX", folder)
            shutil.rmtree(folder)
        return name

    def record(self, spec, layers, **more):
        name = os.urandom(16).hex()
        record = {"version": 1, "id": name, "name": None, "session": os.urandom(16).hex(), "parent": None, "created_s": 1,
                  "shared": False, "copied": False, "bytes": 0, "layers": layers, "packages": None, "spec": spec,
                  "options": {}} | more
        (self.folder / "records" / name).write_text(json.dumps(record))
        return name

    def snapshot(self, *scripts, spec=None):
        spec = spec or self.base()
        layers = []
        for script in scripts:
            layers.insert(0, self.layer(spec, layers, script))
        return self.record(spec, layers)


def commit(place, snapshot, name, *options, **more):
    return place.nsbox("session", "commit", "--quiet", *options, snapshot, name, **more)


def export(place, name, folder="export"):
    """A layout of the image; its manifest and configuration."""
    target = place.folder / folder
    place.nsbox("images", "export", name, target).ok()
    index = json.loads((target / "index.json").read_text())

    def blob(descriptor):
        data = (target / "blobs/sha256" / descriptor["digest"][7:]).read_bytes()
        equal((image.sha256(data), len(data)), (descriptor["digest"], descriptor["size"]), "a blob's digest and size")
        return data

    equal(len(index["manifests"]), 1, "manifests in the index")
    equal(index["manifests"][0]["annotations"][REF_NAME].split("/")[-1], name, "ref name")
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    archives = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    equal([image.sha256(archive) for archive in archives], config["rootfs"]["diff_ids"], "diff ids")
    equal(sum(not entry.get("empty_layer") for entry in config["history"]), len(archives), "entries of the history with a layer")
    return target, manifest, config, archives


def unpack(place, target, folder="tree"):
    """The tree that umoci makes of the layout's image."""
    name = json.loads((target / "index.json").read_text())["manifests"][0]["annotations"][REF_NAME]
    copy = place.folder / f"{folder}-layout"
    run("skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{target}:{name}", f"oci:{copy}:latest")
    run("umoci", "raw", "unpack", *ROOTLESS, "--image", f"{copy}:latest", place.folder / folder)
    return place.folder / folder


def names_in(archive):
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as tar:
        return [member.name for member in tar]


def compare(place, chain, tree, unnamed=()):
    """What layers of the store show when the kernel mounts them, with a tree."""
    command = [*NAMESPACE, sys.executable, Path(__file__).parent / "compare.py", place.store, ":".join(chain), tree,
               json.dumps({"owners": IS_ROOT, "unnamed": list(unnamed), "crossing": []})]
    found = json.loads(run(*command))
    # A socket is not in the image; a file without a name in it cannot be.
    differences = [line for line in found["differences"] if not re.match("kinds/socket: only in nsbox", line)]
    check(found["entries"] > 20 and not differences, "\n".join(differences[:20]) or "no entries")


@test("commit: what umoci unpacks, and nsbox, is what the kernel has shown of the layers", ("skopeo", "umoci"))
def _(place):
    store = Store(place)
    spec = store.base()
    layers = [store.layer(spec, [], FIRST)]
    layers.insert(0, store.layer(spec, layers, SECOND))
    snapshot = store.record(spec, layers)
    done = commit(place, snapshot, "made:1").ok()
    equal(done.output, "docker.io/library/made:1\n", "output")
    target, manifest, config, archives = export(place, "made:1")
    equal(len(archives), 3, "layers")
    tree = unpack(place, target)
    chain = [f"snapshots/layers/{name}" for name in layers] + [layer.replace(f"{place.store}/", "").removesuffix("/fs")
                                                               for layer in spec["root_layers"]]
    compare(place, chain, tree, ["seen"])
    place.same_tree("made:1", tree)
    # Holes are holes in the archive, and where it is unpacked.
    check(len(archives[2]) < 9 << 20, f"an archive of {len(archives[2])} bytes")
    sparse = place.store / "layers" / place.record("made:1")["layers"][2]["chain_id"][7:] / "fs/sparse"
    equal((sparse.stat().st_size, sparse.stat().st_blocks * 512 < 4 << 20), (60 << 20, True), "size, and whether it has holes")
    # The whole difference, and no more: nothing of what came and went, or was only looked at.
    names = names_in(archives[2])
    for name in (".wh.once", "seen", "gone-dir/.wh.in", "back/.wh.b", "later/.wh.in", "kinds/socket", "shut", "again/.wh..wh..opq", "bin"):
        check(name not in names, f"{name} is in the layer")
    for name in (".wh.gone-dir", "dir/.wh.gone", "anew/.wh..wh..opq", "back/.wh..wh..opq", ".wh.upper", "mode", "closed/dir", "gone/now"):
        check(name in names, f"{name} is not in the layer: {names}")
    equal(names, [name.rstrip("/") for name in names], "names")
    equal(names.count("kinds/three"), 1, "a name with a link")
    place.nsbox("images", "prune").ok()
    equal(place.listing("tmp"), set(), "store/tmp")


@test("commit: twice is one layer; of a commit, and again, each on top", ("skopeo", "umoci"))
def _(place):
    store = Store(place)
    snapshot = store.snapshot(FIRST)
    first = json.loads(commit(place, snapshot, "one:1", "--json").ok().output.splitlines()[-1])
    before = place.listing("layers")
    second = json.loads(commit(place, snapshot, "two:1", "--json", "--message", "other").ok().output.splitlines()[-1])
    check(first["layer"] == second["layer"] and first["layer_bytes"] > 3 << 20, f"layers: {first} {second}")
    equal(place.listing("layers"), before, "layers in the store")
    equal(place.record("two:1")["layers"], place.record("one:1")["layers"], "layers of the images")
    # A copy of the same tree elsewhere has the same bytes.
    record = place.record("one:1")
    spec = {"root": "image", "root_path": record["reference"], "root_digest": record["manifest"],
            "root_layers": [f"{place.store}/layers/{layer['chain_id'][7:]}/fs" for layer in reversed(record["layers"])]}
    layers = [store.layer(spec, [], SECOND)]
    commit(place, store.record(spec, layers), "three:1").ok()
    target, _, config, archives = export(place, "three:1")
    equal(len(archives), 4, "layers")
    equal([entry.get("created_by") for entry in config["history"]], [None, None, "nsbox session commit", "nsbox session commit"], "history")
    chain = [f"snapshots/layers/{layers[0]}"] + [layer.replace(f"{place.store}/", "").removesuffix("/fs") for layer in spec["root_layers"]]
    compare(place, chain, unpack(place, target))


@test("commit: nothing written is no layer; what nsbox itself puts there stays out")
def _(place):
    store = Store(place)
    own = """
import os
for name in ("dev", "etc", "proc", "tmp"):
    os.chmod(name, os.stat(name).st_mode & 0o7777)
os.makedirs("opt/nsbox/packages/x"); open("opt/nsbox/packages/x/y", "w").write("y")
for name in ("etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/nsbox-authorities.pem", "dev/shm", "proc/x"):
    open(name + ".new", "w").write("nsbox"); os.rename(name + ".new", name)
open("etc/apt/apt.conf.d/99nsbox-root-emulation", "w").write("x")
"""
    spec = store.base(layers=[BASE[0] + [Entry("opt", "dir"), Entry("etc/apt", "dir"), Entry("etc/apt/apt.conf.d", "dir")], BASE[1]])
    done = json.loads(commit(place, store.snapshot(own, spec=spec), "same:1", "--json", "--change", "CMD x").ok().output.splitlines()[-1])
    equal((done["layer"], done["layer_bytes"]), (None, 0), "layer")
    _, manifest, config, archives = export(place, "same:1")
    equal((len(archives), config["history"][-1]["empty_layer"]), (2, True), "layers, and whether the last step has none")
    equal(place.record("same:1")["layers"], place.record("base:1")["layers"], "layers")
    more = own + 'open("tmp/kept", "w").write("k"); os.mkdir("workspace"); open("workspace/kept", "w").write("k")'
    commit(place, store.snapshot(more, spec=spec), "more:1").ok()
    _, _, _, archives = export(place, "more:1", "export-more")
    equal(names_in(archives[2]), ["tmp", "tmp/kept", "workspace", "workspace/kept"], "names in the layer")


@test("commit: what was installed for the session by apt is in the layer, under what was written")
def _(place):
    store = Store(place)
    spec = store.base()
    key = "5" * 64
    (place.store / "packages" / key / "fs/usr").mkdir(parents=True)
    (place.store / "packages" / key / "about").write_text("{}")
    for name in ("usr/installed", "usr/changed", "usr/gone"):
        (place.store / "packages" / key / "fs" / name).write_text("apt's")
    spec["root_layers"].insert(0, f"{place.store}/packages/{key}/fs")
    commit(place, store.snapshot('import os\nopen("usr/changed", "w").write("mine"); os.unlink("usr/gone")', spec=spec), "apt:1").ok()
    _, _, _, archives = export(place, "apt:1")
    equal(names_in(archives[2]), ["usr", "usr/changed", "usr/installed"], "names in the layer")
    with tarfile.open(fileobj=io.BytesIO(archives[2])) as tar:
        equal(tar.extractfile("usr/changed").read(), b"mine", "the file that was changed")


@test("commit: packages for the session's code are not in the image, which is said where there are some")
def _(place):
    store = Store(place)
    spec = store.base() | {"package_places": ["python", "javascript", "javascript/node_modules:/node_modules"]}
    layers = [store.layer(spec, [], 'import os\nos.mkdir("node_modules"); open("new", "w")')]
    packages = store.folder / "layers" / ("7" * 32) / "fs"
    for name in ("python", "javascript/node_modules"):
        (packages / name).mkdir(parents=True)
    snapshot = store.record(spec, layers, packages="7" * 32)
    done = commit(place, snapshot, "none:1").ok()
    equal(done.errors, "", "what is said")
    equal(names_in(export(place, "none:1")[3][2]), ["new"], "names in the layer")
    (packages / "javascript/node_modules/x").mkdir()
    check("not in the image: the packages" in commit(place, snapshot, "some:1").ok().errors, "nothing is said")


@test("commit: names that a layer cannot have stay out, and are said; the others are there")
def _(place):
    store = Store(place)
    snapshot = store.snapshot("""
import os
open(".wh.etc", "w").write("x"); os.mkdir(".wh..wh..opq"); open(".wh..wh..opq/in", "w").write("x"); os.mkdir("d")
open("d/.wh..wh..opq", "w").write("x"); open("file", "w").write("f"); os.setxattr("file", "user.a=b", b"x"); os.setxattr("file", "user.c", b"c")
""")
    done = commit(place, snapshot, "odd:1").ok()
    for name in (".wh.etc", ".wh..wh..opq", "d/.wh..wh..opq", "file: an attribute"):
        check(f"not in the image: {name}" in done.errors, done.describe())
    _, _, _, archives = export(place, "odd:1")
    equal(names_in(archives[2]), ["d", "file"], "names in the layer")
    with tarfile.open(fileobj=io.BytesIO(archives[2])) as tar:
        equal(tar.getmember("file").pax_headers.get("SCHILY.xattr.user.c"), "c", "attribute")


@test("commit: trees that no layer can be are refused in one line; a file that is mostly a hole is a small layer")
def _(place):
    store = Store(place)
    spec = store.base()
    deep = store.layer(spec, [], "import os\nfor _ in range(300):\n    os.mkdir('d'); os.chdir('d')")
    long = store.layer(spec, [], "import os\nfor _ in range(20):\n    os.mkdir('d' * 250); os.chdir('d' * 250)")
    commit(place, store.record(spec, [deep]), "deep:1").refused("more than 256 directories")
    commit(place, store.record(spec, [long]), "long:1").refused("too long")
    hole = store.layer(spec, [], "import os\nwith open('hole', 'wb') as f:\n    f.seek(9 << 30); f.write(b'end'); f.truncate(10 << 30)")
    done = json.loads(commit(place, store.record(spec, [hole]), "hole:1", "--json").ok().output.splitlines()[-1])
    check(done["layer_bytes"] < 1000, f"{done['layer_bytes']} bytes")
    file = place.store / "layers" / place.record("hole:1")["layers"][2]["chain_id"][7:] / "fs/hole"
    with open(file, "rb") as opened:
        opened.seek(9 << 30)
        equal((opened.read(3), file.stat().st_size), (b"end", 10 << 30), "content and size")
    equal(place.listing("tmp"), set(), "store/tmp")


@test("commit: a directory as the root is the one layer, without what was mounted or left out", ("skopeo", "umoci"))
def _(place):
    store = Store(place)
    root = place.folder / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/hosts").write_text("of the directory")
    (root / "etc/gone").write_text("x")
    (root / "anew").mkdir()
    (root / "anew/old").write_text("x")
    (root / "closed").mkdir()
    (root / "closed/in").write_text("x")
    (root / "closed").chmod(0)
    os.mkfifo(root / "fifo")
    spec = {"root": "directory", "root_path": str(root), "uid": 0, "gid": 0}
    script = """
import os, shutil
shutil.rmtree("anew"); os.mkdir("anew"); open("anew/new", "w").write("n"); os.unlink("etc/gone"); open("new", "w").write("n")
"""
    snapshot = store.snapshot(script, spec=spec)
    commit(place, snapshot, "dir:1", "--change", "CMD /bin/true").ok()
    target, _, config, archives = export(place, "dir:1")
    equal(names_in(archives[0]), ["anew", "anew/new", "closed", "closed/in", "etc", "etc/hosts", "fifo", "new"], "names in the layer")
    equal((unpack(place, target) / "etc/hosts").read_text(), "of the directory", "a file of the directory's own")
    equal(config["config"]["Cmd"], ["/bin/sh", "-c", "/bin/true"], "command")
    if not IS_ROOT:
        with tarfile.open(fileobj=io.BytesIO(archives[0])) as tar:
            equal({(member.uid, member.gid) for member in tar}, {(0, 0)}, "owners")
    commit(place, store.record(spec | {"root_path": str(place.folder)}, []), "store:1").refused("has the store")
    commit(place, store.record(spec | {"root_path": "/"}, []), "store:1").refused("has the store")
    commit(place, store.record(spec | {"root_path": "/nowhere"}, []), "store:1").refused("/nowhere.*No such file")
    (root / "closed").chmod(0o700)


@test("commit: configuration, history, author, changes; what is wrong is refused and makes nothing")
def _(place):
    store = Store(place)
    spec = store.base(config={"Cmd": ["/bin/old"], "Env": ["PATH=/bin", "A=1"], "User": "root", "Labels": {"a": "1"}})
    snapshot = store.snapshot('open("new", "w").write("n")', spec=spec)
    changes = ['ENV A=2 "B=b c" C=\'$x\' D=a\\ b', "entrypoint [\"/bin/sh\", \"-c\"]", "LABEL a=2 b='c d'", "EXPOSE 80 53/udp", "USER 12:34",
               "WORKDIR '/a b'", 'VOLUME ["/data"]', "CMD echo $HOME"]
    options = [word for change in changes for word in ("--change", change)]
    commit(place, snapshot, "with:1", "--author", "Ä <a@b>", "-m", "why", *options).ok()
    _, _, config, _ = export(place, "with:1")
    equal(config["config"], {"Env": ["PATH=/bin", "A=2", "B=b c", "C=$x", "D=a b"], "Entrypoint": ["/bin/sh", "-c"], "Labels": {"a": "2", "b": "c d"},
                             "ExposedPorts": {"80/tcp": {}, "53/udp": {}}, "User": "12:34", "WorkingDir": "/a b", "Volumes": {"/data": {}},
                             "Cmd": ["/bin/sh", "-c", "echo $HOME"]}, "config")
    last = config["history"][-1]
    equal((config["author"], last["author"], last["comment"]), ("Ä <a@b>", "Ä <a@b>", "why"), "author and message")
    equal(last["created"], config["created"], "time")
    equal(place.record("with:1")["uid"], 12, "user in the record")
    before = place.listing()
    for change, pattern in {"RUN x": "begin with an instruction.*\n.*CMD, ENTRYPOINT", "CMD": "CMD: nothing follows", "CMD [x]": "not a JSON array",
                            "CMD [1]": "not a JSON array", "ENV A": "not NAME=VALUE", "ENV A=$B": "variables are not replaced", "ENV 'A=b": "not closed",
                            "EXPOSE 0": "port", "EXPOSE 80/x": "tcp, udp or sctp", "USER a b": "one USER", "WORKDIR a": "not an absolute path",
                            "LABEL =x": "not NAME=VALUE", "USER nobody-there": "nobody-there", "": "begin with an instruction"}.items():
        commit(place, snapshot, "bad:1", "--change", change).refused(f"(?s){pattern}")
    commit(place, snapshot, "Bad:1").refused("Bad")
    commit(place, snapshot, "bad:1", "--nothing").refused("nothing")
    commit(place, snapshot, f"bad@sha256:{'0' * 64}").refused("digest")
    commit(place, "0" * 32, "bad:1").refused("0000")
    commit(place, store.record({"root": "host"}, []), "bad:1").refused("host's own files.*\n.*--image")
    commit(place, store.record(spec | {"root_digest": f"sha256:{'0' * 64}"}, []), "bad:1").refused("not in the store any more")
    equal(place.nsbox("images", "ls", "--quiet").ok().output.count("\n"), 2, "images")
    place.nsbox("images", "prune").ok()
    equal(place.listing(), before, "the store afterwards")
    place.nsbox("images", "rm", "base:1").ok()
    commit(place, snapshot, "bad:1").refused("not in the store any more.*\n.*pull or import it again")


@test("commit: pushed to a registry by skopeo and pulled again it is the same", ("docker-registry", "skopeo"))
def _(place):
    store = Store(place)
    commit(place, store.snapshot(FIRST, SECOND), "made:1").ok()
    target, _, _, _ = export(place, "made:1")
    digest = place.record("made:1")["manifest"]
    port = free_port()
    config = place.folder / "registry.yml"
    config.write_text(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {place.folder}/registry}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n")
    start_server(["docker-registry", "serve", config], port)
    run("skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{target}", f"docker://127.0.0.1:{port}/made:1")
    layers = place.record("made:1")["layers"]
    for name in ("made:1", "base:1"):
        place.nsbox("images", "rm", name).ok()
    equal(place.listing("layers"), set(), "layers")
    place.pull(f"127.0.0.1:{port}/made:1").ok()
    equal((place.record("made:1")["manifest"], place.record("made:1")["layers"]), (digest, layers), "digest and layers")


@test("commit: killed at six moments, and two at once: an image or none, and nothing else")
def _(place):
    store = Store(place)
    snapshot = store.snapshot('import os\nfor n in range(40):\n    open(f"f{n}", "wb").write(os.urandom(200000))')
    before = place.listing()
    began = time.monotonic()
    commit(place, snapshot, "made:1").ok()
    takes, whole, layers = time.monotonic() - began, place.listing("blobs/sha256", "layers"), place.record("made:1")["layers"]
    dice = random.Random(8)
    for number in range(6):
        place.nsbox("images", "rm", "made:1")
        place.nsbox("images", "prune").ok()
        equal(place.listing(), before, "the store when pruned")
        process = place.start("session", "commit", snapshot, "made:1", start_new_session=True)
        time.sleep(dice.random() * takes)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if number % 3 == 0:
            commit(place, snapshot, "made:1").ok()
            equal(place.record("made:1")["layers"], layers, "layers")
            # Manifest and configuration have a time in them: each commit has its own.
            check(whole - place.listing("blobs/sha256", "layers") <= {name for name in whole if name.startswith("blobs")}, "layers are missing")
            equal(place.listing("tmp"), set(), "store/tmp")
    place.nsbox("images", "rm", "made:1")
    place.nsbox("images", "prune").ok()
    processes = [place.start("session", "commit", snapshot, f"made:{number % 2}") for number in range(3)]
    for process in processes:
        _, errors = process.communicate(timeout=90)
        equal(process.returncode, 0, f"status of one of several: {errors.decode()}")
    equal(place.record("made:0")["layers"], place.record("made:1")["layers"], "layers")
    equal((place.record("made:0")["layers"], place.listing("tmp")), (layers, set()), "layers, and store/tmp")


@test("commit: a full disk, a closed output: one line, and nothing half-made")
def _(place):
    store = Store(place)
    snapshot = store.snapshot('import os\nopen("large", "wb").write(os.urandom(6 << 20))')
    before = place.listing()
    with open("/dev/full", "w") as full:
        process = place.start("session", "commit", snapshot, "made:1", stdout=full)
        _, errors = process.communicate()
    check(process.returncode == 125 and b"standard output" in errors, f"status {process.returncode}: {errors.decode()}")
    place.nsbox("images", "rm", "made:1").ok()
    place.nsbox("images", "prune").ok()
    equal(place.listing(), before, "the store when pruned")
    if not IS_ROOT:
        return
    other = place.folder / "small"
    other.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=24m,mode=700", "none", other)
    try:
        run("cp", "-a", f"{place.store}/.", other)
        environment = {"NSBOX_STORE": str(other)}
        spec = json.loads((other / "snapshots/records" / snapshot).read_text())
        fill = 24 << 20
        for left in (0, 2, 7, 11):
            free = os.statvfs(other)
            fill = free.f_bavail * free.f_bsize - (left << 20)
            (other / "filler").write_bytes(bytes(max(fill, 0)))
            commit(place, snapshot, "made:1", env=environment).refused("No space left on device")
            (other / "filler").unlink()
            place.nsbox("images", "prune", env=environment).ok()
        equal(spec["id"], snapshot, "the record of the snapshot")
        commit(place, snapshot, "made:1", env=environment).ok()
    finally:
        run("umount", other)


# --- sessions ---

WRITE = r"""
set -e
umask 022
cd /workspace
busybox mkdir -m 2775 d && echo one >d/one && busybox ln d/one d/two && busybox ln -s /etc/shadow d/link && busybox mkfifo -m 600 d/fifo
echo run >d/program && busybox chmod 4711 d/program && busybox mkdir shut && echo in >shut/in && busybox chmod 0 shut
echo kept >/tmp/kept
"""
# What files are, but for directories' times and links, and without what is nsbox's own, or the runtime's.
DESCRIBE = r"""
cd / && busybox find . -xdev \( -path ./proc -o -path ./dev -o -path ./sys -o -path ./etc -o -path ./opt -o -path ./node_modules -o -path ./home -o -path ./root -o -path ./srv \) -prune \
  -o -type d -exec busybox stat -c '%n %F %a %u:%g' {} + -o -exec busybox stat -c '%n %F %a %u:%g %s %Y %h %N' {} + \
  2>&1 | busybox sort
busybox cat /workspace/d/two /tmp/kept
"""


class Sessions:
    def __init__(self, place):
        self.place = place
        runtime = place.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment = {"XDG_RUNTIME_DIR": str(runtime)}

    def __call__(self, *words, **more):
        return self.place.nsbox("session", *words, env=self.environment, **more)

    def new(self, *options):
        return self("new", *options).ok().output.strip()

    def sh(self, name, script):
        return self("exec", name, "/bin/sh", "-c", script).ok().output


def with_sessions(function):
    """A test of place and session: none is left, whatever becomes of it."""

    def test_and_stop(place):
        session = Sessions(place)
        try:
            function(place, session)
        finally:
            session("stop", "--all")

    return test_and_stop


def crun(bundle, state):
    """What crun runs of a bundle. A hybrid hierarchy of cgroups it does not take: it is shown the second version alone."""
    config = json.loads((bundle / "config.json").read_text())
    config["process"]["terminal"] = False
    config["linux"].pop("resources", None)
    hybrid = Path("/sys/fs/cgroup/unified").is_dir()
    if hybrid and not IS_ROOT:
        for mapping in config["linux"]["uidMappings"] + config["linux"]["gidMappings"]:
            mapping["hostID"] = 0  # as we are called in that namespace
    (bundle / "config.json").write_text(json.dumps(config))
    command = ["crun", "--root", str(state), "--cgroup-manager=disabled", "run", "--bundle", str(bundle), state.name]
    if hybrid:
        command = [*NAMESPACE, "sh", "-c", 'mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup && exec "$@"', "sh", *command]
    return run(*command, env=os.environ | {"XDG_RUNTIME_DIR": str(state.parent)})


def add_busybox(place, config=None, **more):
    from test_run import ACCOUNTS, busybox_layer

    applet = [Entry("gone", content="g"), Entry("dir", "dir"), Entry("dir/old", content="o"), Entry("tmp", "dir", mode=0o1777),
              Entry("workspace", "dir", mode=0o777)]
    layout = image.simple(place.folder / "layout-box", [busybox_layer(*ACCOUNTS, *applet)], {"Env": ["PATH=/bin"]} | (config or {}))
    place.nsbox("images", "import", layout.folder, "box:1").ok()


def layer_of(place, name, folder):
    _, _, config, archives = export(place, name, folder)
    with tarfile.open(fileobj=io.BytesIO(archives[-1])) as tar:
        return {member.name: member for member in tar}, config


@test("session: what was committed is the same in nsbox, and in crun by umoci; owners are those inside", ("busybox", "umoci", "crun"))
@with_sessions
def _(place, session):
    add_busybox(place)
    for user in ("0:0", "1234:1235"):
        made = f"made-{user[:1]}:1"
        name = session.new("--image", "box:1", "-u", user)
        session.sh(name, WRITE)
        before = session.sh(name, DESCRIBE)
        check(before.count("\n") > 20 and "./workspace/shut directory 0" in before, before)
        equal(session("commit", "--quiet", "-c", f"USER {user}", name, made).ok().output, f"docker.io/library/{made}\n", "output")
        equal(session.sh(name, DESCRIBE), before, "the session afterwards")
        after = place.nsbox("run", "--image", made, "--pull", "never", "/bin/sh", "-c", DESCRIBE).ok().output
        equal(after, before, "what was committed")
        members, _ = layer_of(place, made, f"export-{user[:1]}")
        equal({f"{members[each].uid}:{members[each].gid}" for each in members if each.startswith("workspace/")}, {user}, "owners")
        equal(members["workspace/d/program"].mode, 0o4711, "mode")
        session("stop", name).ok()
    session_name = session.new("--image", "made-0:1")
    session.sh(session_name, "rm /gone; rm -r /dir; mkdir /dir; echo new >/dir/new; echo said >/said")
    session("commit", "--quiet", "-c", 'CMD ["/bin/sh", "-c", "cat /said /tmp/kept; ls /dir; ls / ; id -u"]', session_name, "again:1").ok()
    session("stop", session_name).ok()
    tree = place.folder / "bundle"
    target, _, _, archives = export(place, "again:1")
    equal(len(archives), 3, "layers")
    index = json.loads((target / "index.json").read_text())
    index["manifests"][0]["annotations"][REF_NAME] = "latest"
    (target / "index.json").write_text(json.dumps(index))
    run("umoci", "unpack", *ROOTLESS, "--image", f"{target}:latest", tree)
    said = crun(tree, place.folder / "crun")
    ours = place.nsbox("run", "--image", "again:1", "--pull", "never").ok().output
    equal(said.splitlines()[:3], ["said", "kept", "new"], "what crun's says")
    equal(set(ours.splitlines()) - set(said.splitlines()), set(), "what nsbox's says besides")
    check("gone" not in said, said)


@test("session: committed while a command runs it goes on; again with nothing new is the same layer; a snapshot as it was", ("busybox",))
@with_sessions
def _(place, session):
    add_busybox(place)
    name = session.new("--image", "box:1")
    session.sh(name, "echo first >/workspace/said")
    snapshot = session("snapshot", name).ok().output.strip()
    process = session("exec", "-d", name, "/bin/sh", "-c", "echo running >/workspace/state; while ! busybox test -e /workspace/go; do busybox sleep 0.05; done; "
                      "echo ended >/workspace/state").ok().output.strip()
    session.sh(name, "while ! busybox test -s /workspace/state; do busybox sleep 0.05; done; echo second >/workspace/said")
    session("commit", "--quiet", name, "busy:1").ok()
    session.sh(name, "echo >/workspace/go")
    session("logs", "--follow", name, process).ok()
    equal(session.sh(name, "cat /workspace/state /workspace/said"), "ended\nsecond\n", "the session afterwards")
    one = json.loads(session("commit", "--json", name, "calm:1").ok().output.splitlines()[-1])
    two = json.loads(session("commit", "--json", name, "calm:2").ok().output.splitlines()[-1])
    equal(one["layer"], two["layer"], "the layer, when nothing is new")
    session("commit", "--quiet", snapshot, "early:1").ok()
    said = {}
    for image_name in ("busy:1", "calm:2", "early:1"):
        said[image_name] = place.nsbox("run", "--image", image_name, "--pull", "never", "/bin/sh", "-c",
                                       "cat /workspace/said; busybox cat /workspace/state 2>/dev/null; true").ok().output
    equal(said, {"busy:1": "second\nrunning\n", "calm:2": "second\nended\n", "early:1": "first\n"}, "what the images say")
    equal(session("snapshots", "--quiet").ok().output, f"{snapshot}\n", "snapshots")
    session("stop", name).ok()
    session("commit", "--quiet", name, "x:1").refused("no session and no snapshot")
    session("snapshots", "rm", snapshot).ok()
    equal(os.listdir(place.store / "snapshots/layers"), [], "layers of snapshots")


@test("session: with the host's root no image is made, of a directory one is; in memory it is refused", ("busybox",))
@with_sessions
def _(place, session):
    name = session.new()
    session("exec", name, "sh", "-c", "echo >/workspace/x").ok()
    session("commit", name, "x:1").refused("host's own files.*\n.*--image")
    equal(session("snapshots", "--quiet").ok().output, "", "snapshots")
    session("stop", name).ok()
    root = place.folder / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/sh")
    name = session.new("--rootfs", root)
    session.sh(name, "echo here >/said")
    session("commit", "--quiet", "-c", "CMD [\"/bin/sh\", \"-c\", \"read x </said; echo $x\"]", name, "dir:1").ok()
    session("stop", name).ok()
    equal(place.nsbox("run", "--image", "dir:1", "--pull", "never").ok().output, "here\n", "output")
    name = session.new("--rootfs", root, "--storage", "memory")
    session("commit", name, "x:1").refused("in memory")
    session("stop", name).ok()
