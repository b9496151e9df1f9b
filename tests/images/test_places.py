# SPDX-License-Identifier: MIT
"""Stores on other file systems: overlayfs, as in a container; tmpfs; a disk that is read-only."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import image
from harness import IS_ROOT, Skip, check, equal, remove, run, shared, test
from test_registry import samples
from test_run import busybox_layer

BUSYBOX = ("busybox",)
RUN = ("run", "--pull", "never", "--image", "box", "/bin/sh", "-c")


def box(folder):
    """Something is removed by a name, and by an opaque directory; what is removed and made again."""
    return image.simple(folder / "layout", [
        busybox_layer(),
        image.layer([image.Entry("gone", content="x"), image.Entry("d", "dir"), image.Entry("d/gone", content="x"),
                     image.Entry("e", "dir"), image.Entry("e/gone", content="x"), image.Entry("again", content="old")]),
        image.layer([image.Entry(".wh.gone"), image.Entry("d/.wh..wh..opq"), image.Entry("d/new", content="new"),
                     image.Entry("e/.wh.gone"), image.Entry("e/.wh..wh..opq"), image.Entry(".wh.again")]),
        image.layer([image.Entry("again", content="new")])])


LOOK = "cat /d/new /again; ls /d /e /; test ! -e /gone -a ! -e /d/gone -a ! -e /e/gone"


def import_and_look(place):
    place.nsbox("images", "import", shared(box).folder, "box").ok()
    done = place.nsbox(*RUN, LOOK).ok()
    check(done.output.startswith("newnew"), done.describe())
    return done


@contextmanager
def mounted(place, *arguments):
    folder = place.folder / "mounted"
    folder.mkdir()
    if not IS_ROOT:
        raise Skip("root is needed to mount")
    run("mount", *arguments, folder)
    try:
        place.environment["NSBOX_STORE"] = str(folder / "store")
        place.store = folder / "store"
        yield folder
    finally:
        run("umount", "-R", folder)


def overlay(place):
    for name in ("lower", "upper", "work"):
        (place.folder / name).mkdir()
    options = ",".join(f"{name}dir={place.folder / name}" for name in ("lower", "upper", "work"))
    return mounted(place, "-t", "overlay", "-o", options, "overlay")


@test("a store on overlayfs: what is removed is so, for which there is another way there", BUSYBOX)
def _(place):
    with overlay(place):
        import_and_look(place)
        check(not [path for path in place.store.rglob("*") if path.is_char_device()], "overlayfs has a device 0/0 in it")
        place.nsbox("images", "prune", "--all").ok()
        equal(place.listing(), set(), "the store afterwards")


@test("a store on overlayfs: the tree is umoci's", ("umoci",))
def _(place):
    with overlay(place):
        for name in ("every", "opaque"):
            layout = {"every": shared(samples).every, "opaque": shared(samples).opaque}[name]
            place.nsbox("images", "import", layout.folder, f"{name}:1").ok()
            found = place.differences(f"{name}:1", shared(samples).tree(name), image.UNNAMED)
            # On overlayfs an overlay without an index has a number of its own for each name of a file.
            wrong = [line for line in found["differences"] if ": links " not in line]
            check(found["entries"] > 5 and not wrong, "\n".join(wrong) or "no entries")


@test("a store on tmpfs", BUSYBOX)
def _(place):
    folder = Path(tempfile.mkdtemp(prefix="nsbox-images.", dir="/dev/shm"))
    try:
        place.environment["NSBOX_STORE"] = str(folder / "store")
        import_and_look(place)
        place.nsbox("images", "prune", "--all").ok()
    finally:
        remove(folder)


@test("a store on a disk that is read-only: images run, and what would change it says why not", BUSYBOX)
def _(place):
    with mounted(place, "-t", "tmpfs", "-o", "mode=755", "none") as folder:
        import_and_look(place)
        run("mount", "-o", "remount,ro", folder)
        done = place.nsbox(*RUN, LOOK).ok()
        check(done.output.startswith("newnew"), done.describe())
        equal(place.nsbox("images", "ls", "--quiet").ok().output, "box\n", "images")
        place.nsbox("images", "export", "box", place.folder / "out").ok()
        for command in (("pull", "127.0.0.1:1/x"), ("images", "import", shared(box).folder, "y"), ("images", "rm", "box"),
                        ("images", "prune")):
            place.nsbox(*command).refused("Read-only file system")
