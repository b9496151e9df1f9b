# SPDX-License-Identifier: MIT
"""What the programs of this folder share: counting what is left of sandboxes, a client of nsbox mcp, TAP."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def alone():
    """As root, goes on in a mount namespace with a file of ids that nobody else uses."""
    if os.geteuid() == 0 and "NSBOX_SOAK_INSIDE" not in os.environ:
        os.makedirs("/run/nsbox", exist_ok=True)
        os.environ["NSBOX_SOAK_INSIDE"] = "1"
        script = 'mount -t tmpfs -o mode=755 none /run/nsbox && exec "$@"'
        os.execvp("unshare", ["unshare", "--mount", "sh", "-c", script, "-", sys.executable, *sys.argv])


def adopt_orphans():
    """Makes every process that is left of a sandbox a child of ours, so that none can be overlooked."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("tests/soak/run: prctl")


class Counts:
    """What can be left of sandboxes, whose temporary files are in `scratch`."""

    def __init__(self, scratch):
        self.scratch = scratch

    @staticmethod
    def processes():
        """All that descend from us, but for zombies that wait for us alone."""
        parents, own = {}, os.getpid()
        for entry in os.listdir("/proc"):
            try:
                fields = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z" or int(fields[1]) != own:
                    parents[int(entry)] = int(fields[1])
            except (OSError, ValueError):
                pass
        found = {own}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found - {own})

    @staticmethod
    def locks():
        """On ranges of ids, which root alone takes: in the file that nobody else uses."""
        if os.geteuid() != 0:
            return 0
        try:
            status = os.stat("/run/nsbox/ids")
        except OSError:
            return 0
        inode = f" {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
        return pathlib.Path("/proc/locks").read_text().count(inode)

    @staticmethod
    def cgroups():
        return sum(name.startswith("nsbox") for _, names, _ in os.walk("/sys/fs/cgroup") for name in names)

    def take(self):
        pids = self.processes()
        result = {
            "processes": len(pids),
            "mounts": len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
            "cgroups": self.cgroups(),
            "locks": self.locks(),
            "temporary files": len(os.listdir(self.scratch)) + sum(
                # And not of another test, which may run at the same time.
                name.startswith("nsbox") and not name.startswith(("nsbox-fuzz", "nsbox-images", "nsbox-test", "nsbox-probe"))
                for name in os.listdir("/dev/shm")),
            "descriptors": 0,
            "memory_kib": 0,
        }
        for pid in pids:
            try:
                result["descriptors"] += len(os.listdir(f"/proc/{pid}/fd"))
                for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("RssAnon:"):
                        result["memory_kib"] += int(line.split()[1])
            except OSError:
                pass
        return result

    def settled(self, like=None):
        """The counts once the last sandboxes are gone: as `like`, or after a while what they are."""
        for _ in range(600):
            counts = self.take()
            if like is None or all(counts[key] == like[key] for key in like if key != "memory_kib"):
                return counts
            time.sleep(0.05)
        return counts


class Server:
    """An nsbox mcp, with at most `jobs` calls in flight."""

    def __init__(self, nsbox, noisy=True):
        self.process = subprocess.Popen([nsbox, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=None if noisy else subprocess.DEVNULL, bufsize=0)
        self.answers = os.fdopen(self.process.stdout.fileno(), "r", closefd=False)
        self.next_id = 0
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        self.request("initialize", client)
        self.answer()
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def request(self, method, params):
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})

    def answer(self):
        """The next answer; None at the end of the server."""
        line = self.answers.readline()
        return json.loads(line) if line else None

    def call(self, count, jobs):
        """Runs `count` empty programs; returns how many did not end as they should."""
        wrong = sent = done = 0
        while done < count:
            while sent < count and sent - done < jobs:
                self.request("tools/call", {"name": "execute_code", "arguments": {"language": "bash", "code": ":"}})
                sent += 1
            answer = self.answer()
            if answer is None:
                sys.exit("the server ended")
            done += 1
            result = answer.get("result", {})
            if result.get("isError") or result.get("structuredContent", {}).get("exit_code") != 0:
                wrong += 1
                print("# ", json.dumps(answer)[:500])
        return wrong

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(30)


class Report:
    def __init__(self):
        self.count = self.failures = 0

    def __call__(self, good, name, seen=""):
        self.count += 1
        self.failures += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}")
        if seen and not good:
            print(f"# {seen}")
        sys.stdout.flush()
