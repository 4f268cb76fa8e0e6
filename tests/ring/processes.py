"""Trainings as trees of processes: those of an island, and their end."""
import os
import pathlib
import signal
import subprocess
import time


def kill_group(process):
    """With all that it started, which else would go on for a moment beside the next start."""
    ranks = descendants(process.pid, every=True)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    for pid in ranks:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    code = process.wait(timeout=100)
    limit = time.monotonic() + 100
    while time.monotonic() < limit and any(is_alive(pid) for pid in ranks):
        time.sleep(0.02)
    return code


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid, every=False):
    """Of a process, those that are of penstock-train or of its launcher, or all."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    children = {}
    for line in table.splitlines():
        child, parent, name = line.split(None, 2)
        children.setdefault(int(parent), []).append((int(child), name))
    found, open_ones = [], [pid]
    while open_ones:
        for child, name in children.get(open_ones.pop(), []):
            open_ones.append(child)
            if every or name.startswith("penstock-train") or name.startswith("mpirun"):
                found.append(child)
    return found
