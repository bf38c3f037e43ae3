"""What --without-frames changes: each set is run with and without it, by the default and by --preset removable, and scored.

usage: frames.py FLIPSIDE OUT.csv NAME=DOCUMENTS,TRUTH.csv...

DOCUMENTS and TRUTH.csv are those of score.py; a truth by resemblance counts from .8, and the default alone is
run. A row has the processor time of the whole run.
"""

import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
COLUMNS = "set options listed true hits wrong missed precision recall f1 f1_low f1_high".split()
COLUMNS += ["cpu_seconds"]


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(tool, documents, truth, options, folder):
    before = processor_seconds()
    command = [tool, "dedup", documents, "--out", folder, "--force", "--all-pairs", "--quiet", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    taken = processor_seconds() - before
    score = [sys.executable, HERE / "score.py", os.path.join(folder, "pairs.csv"), documents, truth]
    score = json.loads(subprocess.run(score, check=True, capture_output=True).stdout)
    return [
        *(score[name] for name in ("pairs_listed", "true", "hits", "wrong", "missed")),
        *(score[name][0] for name in ("precision", "recall", "f1")),
        *score["f1"][1:],
        round(taken, 2),
    ]


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    _, tool, out, *sets = sys.argv
    with open(out, "w", encoding="utf-8", newline="") as file, tempfile.TemporaryDirectory() as top:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for given in sets:
            name, _, paths = given.partition("=")
            documents, truth = paths.split(",")
            labelled = "jaccard" not in os.path.basename(truth)
            for preset in ([], ["--preset", "removable"]) if labelled else ([],):
                for frames in ([], ["--without-frames"]):
                    options = preset + frames
                    row = measure(tool, documents, truth, options, os.path.join(top, "out"))
                    rows.writerow([name, " ".join(options), *row])


if __name__ == "__main__":
    main()
