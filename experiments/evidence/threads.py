"""What a second thread is worth: two threads against one, and against two processes of one thread each.

usage: threads.py SIMFLIP ROWS.csv [--runs 9] WET.gz ...

The documents make two halves that are alike, as one large file and as many small ones. In turns, `dedup` of both halves
runs with one thread and with two, and as two processes with one thread, each of a half: these share nothing but the
machine, and what they gain over one thread is what it gives. An efficiency is the time of one thread over twice that of
the other, the median of all turns; so are the ratios of processor time.
"""

import argparse
import csv
import datetime
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

from costs import machine

FIELDS = [
    "date", "machine", "command", "layout", "stored_bytes", "runs", "seconds_of_one_thread", "efficiency_of_threads",
    "efficiency_of_processes", "cpu_of_threads", "cpu_of_processes",
]


def lay_out(folder, documents):
    """Folders with each half and with both: as one file, and as a file for each of the documents."""
    made = {}
    for layout in ("one file", "many files"):
        folders = [os.path.join(folder, layout, name) for name in ("first", "second", "both")]
        for at, into in enumerate(folders):
            os.makedirs(into)
            for half in (0, 1) if at == 2 else (at,):
                for number, path in enumerate(documents):
                    name = "all" if layout == "one file" else f"{half}-{number}"
                    with open(os.path.join(into, f"{name}.warc.wet.gz"), "ab") as to, open(path, "rb") as source:
                        shutil.copyfileobj(source, to)
        made[layout] = folders
    return made


def spent(program, folder, runs):
    """Seconds on the clock and of processor time that runs of these inputs and threads take side by side."""
    outs = [os.path.join(folder, f"out-{number}") for number in range(len(runs))]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    running = [
        subprocess.Popen([program, "dedup", "-q", given, "--threads", str(threads), "--out", out], stdout=subprocess.DEVNULL)
        for (given, threads), out in zip(runs, outs)
    ]
    if any(run.wait() for run in running):
        raise SystemExit("a run failed")
    clock, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    for out in outs:
        shutil.rmtree(out)
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("rows")
    arguments.add_argument("--runs", type=int, default=9)
    arguments.add_argument("documents", nargs="+")
    given = arguments.parse_args()
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for layout, (first, second, both) in lay_out(folder, given.documents).items():
            turns = []
            for turn in range(given.runs + 1):
                taken = [
                    spent(given.program, folder, runs)
                    for runs in ([(both, 1)], [(both, 2)], [(first, 1), (second, 1)])
                ]
                # The first turn reads files that nobody has read.
                if turn:
                    turns.append(taken)
            of = lambda ratio: f"{statistics.median(ratio(*turn) for turn in turns):.3f}"
            made.append({
                "date": datetime.date.today().isoformat(),
                "machine": machine(),
                "command": f"threads.py --runs {given.runs} {' '.join(map(os.path.basename, given.documents))}",
                "layout": layout,
                "stored_bytes": sum(os.path.getsize(os.path.join(both, name)) for name in os.listdir(both)),
                "runs": given.runs,
                "seconds_of_one_thread": of(lambda one, two, apart: one[0]),
                "efficiency_of_threads": of(lambda one, two, apart: one[0] / (2 * two[0])),
                "efficiency_of_processes": of(lambda one, two, apart: one[0] / (2 * apart[0])),
                "cpu_of_threads": of(lambda one, two, apart: two[1] / one[1]),
                "cpu_of_processes": of(lambda one, two, apart: apart[1] / one[1]),
            })
            print(made[-1], flush=True)
    with open(given.rows, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)


if __name__ == "__main__":
    main()
