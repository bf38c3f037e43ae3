"""What --boilerplate-by host changes: each set is run with and without it, and scored.

usage: boilerplate.py SIMFLIP OUT.csv NAME=DOCUMENTS,TRUTH.csv...

DOCUMENTS and TRUTH.csv are those of score.py; a truth by resemblance counts from .8, and the default alone is
run. A row has the processor time of the whole run.
"""

import csv
import os
import sys
import tempfile

import runs

COLUMNS = "set options listed true hits wrong missed precision recall f1 f1_low f1_high".split()
COLUMNS += ["cpu_seconds", "kernel"]


def measure(tool, documents, truth, options, folder):
    taken, _, kernel = runs.run(tool, documents, options, folder)
    score = runs.script("score.py", os.path.join(folder, "pairs.csv"), documents, truth)
    return [
        *(score[name] for name in ("pairs_listed", "true", "hits", "wrong", "missed")),
        *(score[name][0] for name in ("precision", "recall", "f1")),
        *score["f1"][1:],
        round(taken, 2),
        kernel,
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
            for options in ([], ["--boilerplate-by", "host"]):
                row = measure(tool, documents, truth, options, os.path.join(top, f"{name}{len(options)}"))
                rows.writerow([name, " ".join(options), *row])


if __name__ == "__main__":
    main()
