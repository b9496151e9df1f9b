# SPDX-License-Identifier: MIT
"""
compare.py LAYERS CHAIN REFERENCE OPTIONS: mounts layers of a store as nsbox does, in a mount namespace that the caller has
made, and compares the tree with the one in folder REFERENCE. What nsbox-image(1) says is different is not counted.
"""

import json
import os
import stat
import subprocess
import sys


INITIAL_USER_NAMESPACE = 0xEFFFFFFD  # proc_ns.h of the kernel


def attributes_of(path):
    """But for those of overlayfs and of security modules, which images cannot bring."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    kept = [name for name in names if name.startswith("user.") and not name.startswith("user.overlay.")
            and name != "user.rootlesscontainers"]  # where umoci keeps the owner
    if os.geteuid() == 0 and "security.capability" in names and os.stat("/proc/self/ns/user").st_ino == INITIAL_USER_NAMESPACE:
        kept.append("security.capability")
    return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in kept}


def entry_of(path, name, owners, unnamed):
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        kind = stat.S_IFREG
    entry = {"type": oct(kind), "xattrs": attributes_of(path)}
    if kind != stat.S_IFLNK:
        entry["mode"] = oct(status.st_mode & 0o7777)
    if owners:
        entry["owner"] = f"{status.st_uid}:{status.st_gid}"
    if name not in unnamed:
        entry["mtime"] = status.st_mtime_ns
    if kind == stat.S_IFLNK:
        entry["target"] = os.readlink(path)
    if kind == stat.S_IFREG:
        entry["content"] = ""
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            entry["content"] = file.read().hex()
    return entry


def tree_of(root, owners, unnamed, crossing):
    tree, links = {}, {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            name = os.path.relpath(path, root)
            tree[name] = entry_of(path, name, owners, unnamed)
            status = os.lstat(path)
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                links.setdefault((status.st_dev, status.st_ino), []).append(name)
    for names in links.values():
        for name in set(names) - set(crossing):
            tree[name]["links"] = sorted(names)
    return tree  # but for the root, which in a sandbox is its own


def describe(name, left, right):
    if not left or not right:
        return f"{name}: only in {'nsbox' if left else 'the reference'}"
    return f"{name}: " + ", ".join(f"{key} {str(left.get(key))[:80]} and not {str(right.get(key))[:80]}"
                                   for key in sorted(set(left) | set(right)) if left.get(key) != right.get(key))


def main():
    layers, chain, reference, options = sys.argv[1], sys.argv[2].split(":"), sys.argv[3], json.loads(sys.argv[4])
    os.chdir(layers)
    if len(chain) == 1:
        merged = os.path.join(layers, chain[0], "fs")
    else:
        merged = "/mnt"
        lower = ":".join(f"{name}/fs" for name in chain)
        subprocess.run(["mount", "-t", "overlay", "-o", f"ro,userxattr,lowerdir={lower}", "overlay", merged], check=True)
    ours = tree_of(merged, options["owners"], options["unnamed"], options["crossing"])
    theirs = tree_of(reference, options["owners"], options["unnamed"], options["crossing"])
    found = [describe(name, ours.get(name), theirs.get(name)) for name in sorted(set(ours) | set(theirs))
             if ours.get(name) != theirs.get(name)]
    json.dump({"entries": len(ours), "differences": found}, sys.stdout)


main()
