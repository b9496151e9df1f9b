# SPDX-License-Identifier: MIT
"""The store: after kills, with several at once, on a full disk; images brought in and out without a registry."""

import gzip
import json
import lzma
import random
import subprocess
import threading
import time
from pathlib import Path

import image
from harness import IS_ROOT, Skip, check, equal, run, shared, test
from registries import Stub

LAYERS = 4


def layout(folder):
    """Of several layers, each with files and a whiteout for the one below."""
    layers = []
    for number in range(LAYERS):
        entries = [image.Entry(f"layer-{number}", "dir")]
        entries += [image.Entry(f"layer-{number}/{n}", content=image.noise(40000, f"{number} {n}")) for n in range(20)]
        entries += [image.Entry(f"layer-{number - 1}/.wh.0")] if number else []
        layers.append(image.layer(entries))
    return image.simple(folder / "layout", layers, {"Cmd": ["/bin/true"]})


def files_of(place):
    return sorted(f"{path.parent.name}/{path.name}" for path in (place.store / "layers").glob("*/fs/*/*") if path.is_file())


def whole(place):
    """The image is there, as it should be, and nothing else."""
    equal(files_of(place), sorted(f"layer-{number}/{n}" for number in range(LAYERS) for n in range(20)), "files")
    for path in (place.store / "layers").glob("*/fs/*/*"):
        if path.is_file():
            content = image.noise(40000, f"{path.parent.name[6:]} {path.name}")
            check(path.read_bytes() == content, f"{path} has another content")
    equal(place.listing("tmp"), set(), "store/tmp")
    equal(len(place.listing("layers")), LAYERS, "layers")


@test("killed at fifty moments of a pull, then pulled again: the image, and nothing else")
def _(place):
    def slowly(request, kind, name):
        if kind == "blobs":
            time.sleep(0.01)
        return False

    dice = random.Random(4)
    with Stub(shared(layout), slowly) as stub:
        began = time.monotonic()
        place.pull(f"{stub.name}/x:latest").ok()
        takes = time.monotonic() - began
        for _ in range(50):
            place.nsbox("images", "prune", "--all").ok()
            equal(place.listing(), set(), "the store when pruned")
            process = place.start("pull", f"{stub.name}/x:latest")
            time.sleep(dice.random() * takes)
            process.kill()
            process.communicate()
            place.pull(f"{stub.name}/x:latest").ok()
            whole(place)
        wait_for_no_unpacker(place)


def wait_for_no_unpacker(place):
    """Unpackers end with who started them."""
    for _ in range(300):
        left = [path.parent.name for path in Path("/proc").glob("[0-9]*/cwd") if names_store(path.parent, place)]
        if not left:
            return
        time.sleep(0.1)
    check(False, f"processes that are left: {left}")


def names_store(process, place):
    try:
        return any(str(place.store) in str(link.readlink()) for link in (process / "fd").iterdir())
    except OSError:
        return False


@test("eight pulls of one image at once: one download")
def _(place):
    def slowly(request, kind, name):
        if kind == "blobs":
            time.sleep(0.3)
        return False

    with Stub(shared(layout), slowly) as stub:
        processes = [place.start("pull", "--quiet", f"{stub.name}/x:latest") for _ in range(8)]
        results = [(process.communicate(timeout=60), process.returncode) for process in processes]
        for (output, errors), status in results:
            check(status == 0 and output.startswith(b"sha256:"), f"status {status}: {errors.decode()}")
        for entry in json.loads(stub.layout.blob(stub.layout.manifests[0]["digest"]))["layers"]:
            equal(len(stub.requests(entry["digest"])), 1, "requests for a layer")
    whole(place)


@test("prune and rm during a run: it goes on, and its layers go with the next prune", ("busybox",))
def _(place):
    from test_run import busybox_layer

    layers = [busybox_layer(), image.layer([image.Entry("late", content="late")])]
    place.nsbox("images", "import", image.simple(place.folder / "layout", layers).folder, "here").ok()
    process = place.start("run", "--image", "here", "--pull", "never", "/bin/sh", "-c", "echo ready; read line; cat /late",
                          stdin=subprocess.PIPE)
    equal(process.stdout.readline(), b"ready\n", "first line")
    place.nsbox("images", "rm", "here").ok()
    place.nsbox("images", "prune", "--all").ok()
    equal(len(place.listing("layers")), 2, "layers during the run")
    output, errors = process.communicate(b"\n", timeout=30)
    equal((process.returncode, output), (0, b"late"), f"the run: {errors}")
    place.nsbox("images", "prune").ok()
    equal(place.listing(), set(), "the store afterwards")


@test("a full disk: one line, and nothing half-made")
def _(place):
    if not IS_ROOT:
        raise Skip("root is needed for a small tmpfs")
    place.store.mkdir(mode=0o700)
    for size in (200, 1000, 2500, 4500):
        run("mount", "-t", "tmpfs", "-o", f"size={size}k,mode=700", "none", place.store)
        try:
            with Stub(shared(layout)) as stub:
                place.pull(f"{stub.name}/x:latest").refused("No space left on device")
                equal(place.nsbox("images", "ls", "--quiet").ok().output, "", "images")
                check(not [name for name in place.listing("tmp") if "layer-" in name], "half of a layer is there")
                place.nsbox("images", "prune").ok()
                equal(place.listing(), set(), "the store when pruned")
                run("mount", "-o", "remount,size=64m", place.store)
                place.pull(f"{stub.name}/x:latest").ok()
                whole(place)
        finally:
            run("umount", place.store)


@test("import of what skopeo writes: docker save's and OCI archives, a directory; the same layers", ("skopeo",))
def _(place):
    source = f"oci:{shared(layout).folder}:latest"
    for form in ("docker-archive", "oci-archive", "oci"):
        target = place.folder / form
        run("skopeo", "--insecure-policy", "copy", "--quiet", source, f"{form}:{target}:name/of:it")
        done = place.nsbox("images", "import", "--quiet", target, f"{form}:1").ok()
        equal(done.output, f"docker.io/library/{form}:1\n", "output")
        if form != "oci":
            with open(target, "rb") as file:
                place.nsbox("images", "import", "-", "stdin:1", input=file.read()).ok()
    whole(place)
    done = place.nsbox("images", "import", place.folder / "docker-archive", "--quiet").ok()
    equal(done.output, "docker.io/name/of:it\n", "the archive's own name")


def root_archive():
    return image.layer([image.Entry("./", "dir"), image.Entry("./file", content="x"), image.Entry("./etc", "dir")])


@test("import of a root from standard input: plain, gzip; xz: refused with what to do")
def _(place):
    archive = root_archive()
    place.nsbox("images", "import", "-", "plain", input=archive).ok()
    place.nsbox("images", "import", "-", "gzip", input=gzip.compress(archive)).ok()
    equal([path.read_text() for path in (place.store / "layers").glob("*/fs/file")], ["x"], "files")
    before = place.listing()
    place.nsbox("images", "import", "-", "xz", input=lzma.compress(archive)).refused("not a tar archive.*\n.*xz -d")
    place.nsbox("images", "import", "-", input=archive).refused("name")
    place.nsbox("images", "import", place.folder / "nothing", "x").refused("No such file")
    place.nsbox("images", "import", "-", "x", input=b"").refused(".")
    place.nsbox("images", "import", "-", "x", input=image.noise(3000)).refused(".")
    equal(place.listing("layers", "tmp"), {name for name in before if not name.startswith("blobs")}, "the store")


@test("export: skopeo and umoci read it; imported again it has the same digest", ("skopeo", "umoci"))
def _(place):
    forms = {"oci": shared(layout).folder}
    docker = place.folder / "docker.tar"
    run("skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{forms['oci']}:latest", f"docker-archive:{docker}:x:1")
    forms["docker"] = docker
    for form, source in forms.items():
        place.nsbox("images", "import", source, f"{form}:1").ok()
        target = place.folder / f"export-{form}"
        place.nsbox("images", "export", f"{form}:1", target).ok()
        digest = place.inspect(f"{form}:1")["manifest"]
        index = json.loads((target / "index.json").read_text())
        equal([entry["digest"] for entry in index["manifests"]], [digest], "digest in the index")
        equal(image.sha256(run("skopeo", "inspect", "--raw", f"oci:{target}").encode()), digest, "digest that skopeo sees")
        run("skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{target}", f"dir:{place.folder / ('dir-' + form)}")
        (target / "index.json").write_text(json.dumps(index | {"manifests": [
            entry | {"annotations": {"org.opencontainers.image.ref.name": "latest"}} for entry in index["manifests"]]}))
        rootless = [] if IS_ROOT else ["--rootless"]
        run("umoci", "raw", "unpack", *rootless, "--image", f"{target}:latest", place.folder / f"tree-{form}")
        place.same_tree(f"{form}:1", place.folder / f"tree-{form}", [f"layer-{n}" for n in range(LAYERS)])
        place.nsbox("images", "rm", f"{form}:1").ok()
        place.nsbox("images", "import", target, f"{form}:1").ok()
        equal(place.inspect(f"{form}:1")["manifest"], digest, "digest when imported again")
        place.nsbox("images", "export", f"{form}:1", target).refused("making the directory|not empty|exists")
        place.nsbox("images", "rm", f"{form}:1").ok()
        # What its refusal of archives says to do.
        archive = place.folder / f"made-{form}.tar"
        for name in (archive, f"{archive}.gz", "-"):
            place.nsbox("images", "export", f"{form}:1", name).refused("makes a directory, and no archive.*tar -C DIR -cf FILE.tar .")
        check(not archive.exists(), "a directory with the name of an archive")
        run("tar", "-C", target, "-cf", archive, ".")
        place.nsbox("images", "import", archive, f"{form}:1").ok()
        equal(place.inspect(f"{form}:1")["manifest"], digest, "digest when imported from an archive")
        place.nsbox("images", "rm", f"{form}:1").ok()


@test("export of an image whose layers were there, packed otherwise: whole, and with its own digest, which is said", ("skopeo", "umoci"))
def _(place):
    archive = place.folder / "docker.tar"
    run("skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{shared(layout).folder}:latest", f"docker-archive:{archive}:x:1")
    place.nsbox("images", "import", shared(layout).folder, "first:1").ok()
    place.nsbox("images", "import", archive, "second:1").ok()
    # The archives of the first are the second's as well now.
    place.nsbox("images", "rm", "first:1").ok()
    target = place.folder / "out"
    done = place.nsbox("images", "export", "second:1", target).ok()
    digest = json.loads((target / "index.json").read_text())["manifests"][0]["digest"]
    check(f"packed otherwise, and is exported so: the manifest is {digest}, and not {place.inspect('second:1')['manifest']}"
          in done.errors, done.describe())
    run("skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{target}", f"oci:{place.folder / 'copy'}:latest")
    run("umoci", "raw", "unpack", *([] if IS_ROOT else ["--rootless"]), "--image", f"{place.folder / 'copy'}:latest",
        place.folder / "tree")
    place.same_tree("second:1", place.folder / "tree", [f"layer-{n}" for n in range(LAYERS)])
    place.nsbox("images", "rm", "second:1").ok()
    equal(place.listing(), set(), "the store afterwards")
    place.nsbox("images", "import", target, "third:1").ok()
    equal(place.inspect("third:1")["manifest"], digest, "digest when imported again")


@test("what ended processes have left in tmp goes with the next pull", ())
def _(place):
    with Stub(shared(layout)) as stub:
        place.pull(f"{stub.name}/x:latest").ok()
        for name in ("layer-aaaaaa", "gone-1-x"):
            (place.store / "tmp" / name / "fs/x").mkdir(parents=True)
        (place.store / "tmp/record-aaaaaa").write_text("{")
        place.pull(f"{stub.name}/x:latest").ok()
    whole(place)


@test("a layer that is there without its archive is fetched again", ())
def _(place):
    with Stub(shared(layout)) as stub:
        place.pull(f"{stub.name}/x:latest").ok()
        blob = place.record("x:latest")["layers"][0]["blob"]
        (place.store / "blobs/sha256" / blob[7:]).unlink()
        before = place.listing("layers")
        place.pull(f"{stub.name}/x:latest").ok()
        equal((len(stub.requests(blob)), place.listing("layers")), (2, before), "requests for it, and layers")
        place.nsbox("images", "export", f"{stub.name}/x:latest", place.folder / "out").ok()
    whole(place)


@test("prune beside a pull: says for whom it waits, and then does", ())
def _(place):
    go = threading.Event()

    def hold(request, kind, name):
        body = request.stub.layout.blob(name) if kind == "blobs" else b""
        if len(body) > 100000:
            go.wait(80)
        return False

    with Stub(shared(layout), hold) as stub:
        pull = place.start("pull", "--quiet", f"{stub.name}/x:latest")
        began = time.monotonic()
        while len(stub.requests("/blobs/")) < 3 and time.monotonic() - began < 60:
            time.sleep(0.02)
        prune = place.start("images", "prune")
        line = prune.stderr.readline().decode()
        equal(line, f"nsbox: waiting for process {pull.pid}, which adds something to the store {place.store}\n", "what prune says")
        equal(prune.poll(), None, "prune before the pull has ended")
        go.set()
        equal((pull.wait(30), prune.wait(30)), (0, 0), "status of pull and prune")
        pull.communicate(), prune.communicate()
    whole(place)


@test("a store that is somebody else's, is a file, or is no path: one line")
def _(place):
    place.nsbox("images", "ls", env={"NSBOX_STORE": "relative"}).refused("not an absolute path")
    (place.folder / "file").write_text("")
    place.nsbox("pull", "127.0.0.1:1/x", env={"NSBOX_STORE": str(place.folder / "file")}).refused("store")
    if not IS_ROOT:
        place.nsbox("pull", "127.0.0.1:1/x", env={"NSBOX_STORE": "/usr"}).refused("belongs to somebody else|Permission")


@test("images that share layers: rm and prune leave what another needs")
def _(place):
    base = image.layer([image.Entry("base", content="b")])
    for name in ("one", "two"):
        layers = [base, image.layer([image.Entry(name, content=name)])]
        place.nsbox("images", "import", image.simple(place.folder / name, layers).folder, name).ok()
    equal(len(place.listing("layers")), 3, "layers")
    place.nsbox("images", "rm", "one").ok()
    equal(len(place.listing("layers")), 2, "layers without the one")
    place.nsbox("images", "rm", "one").refused("no image")
    place.nsbox("images", "rm", "two").ok()
    equal(place.listing(), set(), "the store afterwards")
