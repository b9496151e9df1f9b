# SPDX-License-Identifier: MIT
"""Images made by hand, the same bytes each time: layers as tar archives, OCI image layouts around them."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

TYPES = {"dir": tarfile.DIRTYPE, "file": tarfile.REGTYPE, "symlink": tarfile.SYMTYPE, "link": tarfile.LNKTYPE,
         "fifo": tarfile.FIFOTYPE, "char": tarfile.CHRTYPE, "block": tarfile.BLKTYPE}
OCI = "application/vnd.oci.image."
LAYER = OCI + "layer.v1.tar"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Entry(tarfile.TarInfo):
    """An entry; `content` is what a file has, or where a link leads."""

    def __init__(self, name, kind="file", content=b"", mode=None, uid=0, gid=0, mtime=1700000000, pax=None):
        super().__init__(name)
        self.type = TYPES[kind]
        self.mode = mode if mode is not None else 0o755 if kind == "dir" else 0o644
        self.uid, self.gid, self.mtime = uid, gid, mtime
        self.pax_headers = pax or {}
        self.content = None
        if kind in ("symlink", "link"):
            self.linkname = content
        elif kind in ("char", "block"):
            self.devmajor, self.devminor = 1, 3
        elif kind == "file":
            self.content = content if isinstance(content, bytes) else content.encode()
            self.size = len(self.content)


def layer(entries, dialect=tarfile.PAX_FORMAT):
    """An archive of entries; raw bytes among them are put in as they are."""
    archive = b""
    for entry in entries:
        if isinstance(entry, bytes):
            archive += entry
            continue
        archive += entry.tobuf(dialect, "utf-8", "surrogateescape")
        if entry.content is not None:
            archive += entry.content + bytes(-len(entry.content) % 512)
    return archive + bytes(1024)


def compressed(archive):
    return gzip.compress(archive, mtime=0)


class Layout:
    """An OCI image layout in a folder."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.blobs = self.folder / "blobs/sha256"
        self.blobs.mkdir(parents=True)
        self.manifests = []
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def put(self, data, media_type, **more):
        """A blob of these bytes; returns its descriptor."""
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        digest = sha256(data)
        (self.blobs / digest[7:]).write_bytes(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data), **more}

    def blob(self, digest):
        return (self.blobs / digest[7:]).read_bytes()

    def manifest(self, layers, config=None, architecture="amd64", gzipped=True, diff_ids=None, blobs=None):
        """The descriptor of an image's manifest. `blobs`: layers as they are to be stored."""
        if blobs is None:
            blobs = [self.put(compressed(each) if gzipped else each, LAYER + ("+gzip" if gzipped else "")) for each in layers]
        configuration = {"architecture": architecture, "os": "linux", "config": config or {},
                         "rootfs": {"type": "layers", "diff_ids": diff_ids or [sha256(each) for each in layers]}}
        return self.put({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                         "config": self.put(configuration, OCI + "config.v1+json"), "layers": blobs},
                        OCI + "manifest.v1+json", platform={"os": "linux", "architecture": architecture})

    def index(self, manifests):
        return self.put({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": manifests},
                        OCI + "index.v1+json")

    def tag(self, descriptor, name="latest"):
        entry = {key: value for key, value in descriptor.items() if key != "platform"}
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        self.manifests = [old for old in self.manifests
                          if old["annotations"]["org.opencontainers.image.ref.name"] != name] + [entry]
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self.manifests}))
        return descriptor

    def descriptor(self, name):
        for entry in self.manifests:
            if entry["annotations"]["org.opencontainers.image.ref.name"] == name or entry["digest"] == name:
                return entry
        return None


def simple(folder, layers, config=None, **more):
    """A layout with one image, called «latest»."""
    layout = Layout(folder)
    layout.tag(layout.manifest(layers, config, **more))
    return layout


def noise(length, seed=1):
    """Bytes that do not compress, the same each time."""
    parts, size = [], 0
    while size < length:
        parts.append(hashlib.sha256(f"{seed} {size}".encode()).digest())
        size += 32
    return b"".join(parts)[:length]


# Directories that no layer names.
UNNAMED = {"implied", "implied/deep", "newdir", "newdir/sub"}
# Hard links to files of layers below.
CROSSING = {"linked-2", "linked-3", "linked-4", "linked-5", "linked-6", "usr/share/s", "kept", "link"}


# capabilities(7): struct vfs_cap_data of revision 2, effective, in a file's extended attribute.
CAP_NET_RAW = "\x01\0\0\x02\0\x20\0\0" + 12 * "\0"


def every_kind():
    """Ten layers: every kind of entry, and every way in which one layer changes what is below it."""
    first = [
        Entry("./", "dir", mode=0o711, mtime=1600000000), Entry("bin", "dir"), Entry("usr", "dir"),
        Entry("usr/lib", "dir", mode=0o750, uid=5, gid=6, mtime=1600000001), Entry("lib", "symlink", "usr/lib"),
        Entry("usr/lib/a", content="A"), Entry("usr/lib/b", content="B" * 100000), Entry("usr/lib/empty"),
        Entry("tmp", "dir", mode=0o1777), Entry("dir", "dir", mtime=1500000000), Entry("dir/x", content="x"),
        Entry("dir/y", content="y"), Entry("odir", "dir"), Entry("odir/old", content="old"), Entry("odir/older", "dir"),
        Entry("file-to-dir", content="file"), Entry("dir-to-file", "dir"), Entry("dir-to-file/in", content="in"),
        Entry("link-to-dir", "symlink", "dir"), Entry("file-to-link", content="file"), Entry("fifo-to-file", "fifo"),
        Entry("linked", content="hard links", uid=7), Entry("linked-2", "link", "linked"), Entry("linked-3", "link", "./linked"),
        Entry("within", content="links of one layer"), Entry("within-2", "link", "within"), Entry("dir/within-3", "link", "within-2"),
        Entry("suid", content="s", mode=0o4755), Entry("sgid", content="s", mode=0o2755), Entry("sgid-dir", "dir", mode=0o2775),
        Entry("dev", "dir"), Entry("dev/null", "char", mode=0o666), Entry("dev/disk", "block", mode=0o660), Entry("fifo", "fifo"),
        Entry("long", "dir"), Entry("long/" + "n" * 200, "dir"), Entry("long/" + "n" * 200 + "/" + "m" * 255, content="long"),
        Entry("long/link", "symlink", "t" * 300), Entry("uni-ä€😀\u0301", content="u"), Entry("latin-\udce4", content="bytes"),
        Entry("back\\slash and space", content="s"), Entry("new\nline", content="n"), Entry("closed", "dir", mode=0),
        Entry("closed/file", content="q", mode=0, uid=9), Entry("closed/dir", "dir", mode=0),
        Entry("attributes", content="x", pax={"SCHILY.xattr.user.test": "value"}),
        Entry("capable", content="c", mode=0o755, pax={"SCHILY.xattr.security.capability": CAP_NET_RAW}),
        Entry("owned", content="o", uid=1234, gid=65534), Entry("old", content="1", mtime=1), Entry("future", mtime=4102444800),
        Entry("nanoseconds", content="n", mtime=1600000000.25), Entry("symlink-old", "symlink", "nowhere", mtime=12345),
    ]
    return [layer(entries) for entries in (
        first,
        [Entry("lib/c", content="through the link"), Entry("dir/.wh.x"), Entry("odir/.wh..wh..opq"), Entry("odir/new", content="n"),
         Entry("file-to-dir", "dir"), Entry("file-to-dir/in", content="i"), Entry("dir-to-file", content="f"),
         Entry("usr/lib/hard", "link", "usr/lib/a"), Entry("newdir/sub/z", content="z"), Entry("tmp/t", content="t")],
        [Entry(".wh.linked"), Entry("dir/y", content="y2"), Entry("dir/.wh.nothing"), Entry(".wh.odir"),
         Entry("odir", "dir", mtime=1400000000), Entry("odir/again", content="again")],
        [Entry("dir/y", content="y3", mode=0o600), Entry("link-to-dir/through", content="t"), Entry("file-to-link", "symlink", "dir/y"),
         Entry("fifo-to-file", content="f"), Entry("implied/deep/file", content="d")],
        [Entry("lib/.wh.b"), Entry("linked-4", "link", "linked-2"), Entry("linked-5", "link", "linked-4"),
         Entry("closed/file", content="q2", mode=0), Entry("closed/new", content="n")],
        [Entry("link-to-dir", "dir"), Entry("link-to-dir/now", content="a directory"), Entry("dir", "dir", mode=0o700, mtime=1300000000)],
        [Entry("deep", "dir")] + [Entry("/".join(["deep"] + ["d"] * n), "dir") for n in range(1, 40)],
        [Entry("deep/d/d/.wh.d"), Entry("deep/d/d/e", "symlink", "../../.."), Entry("usr/lib/a", content="A2")],
        [Entry("usr", "dir", mode=0o711), Entry("usr/.wh..wh..opq"), Entry("usr/share", "dir"), Entry("usr/share/s", content="s")],
        [Entry("last", content="last"), Entry("usr/lib", "dir"), Entry("lib/back", content="through the link, again"),
         Entry("dir/.wh.through"), Entry("linked-6", "link", "usr/share/s")],
    )]


def opaque_root():
    """Layers of which the last but one hides all below."""
    return [layer(entries) for entries in (
        [Entry("gone", content="g"), Entry("gone-dir", "dir"), Entry("gone-dir/in", content="i")],
        [Entry(".wh..wh..opq"), Entry("kept", content="k"), Entry("gone-dir", "dir"), Entry("gone-dir/new", content="n"),
         Entry("a", "dir"), Entry("a/b", "dir"), Entry("a/b/c", content="c")],
        [Entry("top", content="t"), Entry("a/b/d", content="d"), Entry("link", "link", "kept")],
    )]
