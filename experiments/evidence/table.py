"""The tables of docs/quality.md out of the rows of runs.py: table.py FOLDER"""

import csv
import os
import sys


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def short(number):
    return f"{float(number):.3f}".removeprefix("0").replace("1.000", "1")


def mean(values):
    values = [float(value) for value in values]
    return short(sum(values) / len(values))


def table(found, sets, settings, means):
    print("| setting |" + "".join(f" {name} |" for name in sets) + "".join(f" {title} |" for title, _ in means))
    print("|---|" + "---|" * (len(sets) + len(means)))
    for setting in settings:
        of = {row["set"]: row for row in found if row["setting"] == setting}
        if any(name not in of for name in sets):
            continue
        cells = [f"{short(of[n]['f1'])} [{short(of[n]['f1_low'])}, {short(of[n]['f1_high'])}]" for n in sets]
        cells += [mean(of[name]["f1"] for name in names) for _, names in means]
        print(f"| {setting} | " + " | ".join(cells) + " |")


def main():
    folder = sys.argv[1]
    lexical = rows(os.path.join(folder, "settings.csv"))
    settings = list(dict.fromkeys(row["setting"] for row in lexical))
    kinds = {kind: list(dict.fromkeys(r["set"] for r in lexical if r["kind"] == kind)) for kind in ("held-out", "chosen")}
    for kind, sets in kinds.items():
        print(f"\n{kind}\n")
        table(lexical, sets, settings, [("mean", sets)])
    for name in ("labelled.csv", "read.csv"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            found = rows(path)
            sets = list(dict.fromkeys(row["set"] for row in found))
            print(f"\n{name}\n")
            table(found, sets, settings, [("mean", sets)] if len(sets) > 1 else [])


if __name__ == "__main__":
    main()
