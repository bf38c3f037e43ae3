"""How many damaged copies of texts are found beside their sources, by kind and rate of damage: ../results/damage/rows.csv.

usage: damage.py SIMFLIP ROWS.csv DOCUMENTS

Takes 130 passages of 150 to 400 words, and for each kind and rate of damage a copy of each. A copy is found if a run over
passages and copies lists it with its passage. A row has: kind, rate, setting, found (of 130), wrong (pairs of others).
"""

import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import corpus

SETTINGS = {
    "default": [],
    "--similarity .5": ["--similarity", "0.5"],
    "--preset removable": ["--preset", "removable"],
    "--preset noisy": ["--preset", "noisy"],
}
PASSAGES = 130
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# What recognition of characters takes for what.
MISREAD = {"e": "c", "c": "e", "l": "1", "i": "l", "o": "0", "s": "5", "a": "o", "n": "u", "u": "n", "h": "b", "m": "rn", "t": "f"}


def each(rate, change):
    """Changes every item of a list with a probability."""
    return lambda rng, items: [change(rng, item) if rng.random() < rate else item for item in items]


def characters(rate, change):
    return lambda rng, words: "".join(each(rate, change)(rng, " ".join(words))).split(" ")


def letter(rng, character):
    return rng.choice(LETTERS) if character.isalpha() else character


def moved(rate):
    def move(rng, words):
        sentences = re.split(r"(?<=[.!?]) ", " ".join(words))
        for _ in range(round(rate * len(sentences))):
            sentences.insert(rng.randrange(len(sentences)), sentences.pop(rng.randrange(len(sentences))))
        return " ".join(sentences).split(" ")
    return move


def swapped(rate):
    def swap(rng, words):
        words = list(words)
        for at in range(len(words) - 1):
            if rng.random() < rate:
                words[at], words[at + 1] = words[at + 1], words[at]
        return words
    return swap


def spaces_lost(rate):
    return lambda rng, words: "".join(word + ("" if rng.random() < rate else " ") for word in words).split(" ")


KINDS = {
    "letters wrong": [(rate, characters(rate, letter)) for rate in (0.01, 0.02, 0.05, 0.1)],
    "letters misread": [(rate, characters(rate, lambda rng, c: MISREAD.get(c, c))) for rate in (0.01, 0.02, 0.05, 0.1)],
    "words lost": [(rate, each(rate, lambda rng, word: "")) for rate in (0.02, 0.05, 0.1, 0.2)],
    "words swapped": [(rate, swapped(rate)) for rate in (0.02, 0.05, 0.1)],
    "spaces lost": [(rate, spaces_lost(rate)) for rate in (0.01, 0.05, 0.1)],
    "hyphens at line ends": [
        (rate, each(rate, lambda rng, word: f"{word[:len(word) // 2]}-\n{word[len(word) // 2:]}" if len(word) > 5 else word))
        for rate in (0.05, 0.1, 0.3)
    ],
    "sentences moved": [(rate, moved(rate)) for rate in (0.1, 0.5)],
    "cut": [(rate, lambda rng, words, rate=rate: words[: round(len(words) * (1 - rate))]) for rate in (0.1, 0.3, 0.5)],
}


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    _, program, out, documents = sys.argv
    rng = random.Random(11)
    texts = sorted({text for *_, text in corpus.read(documents)})
    rng.shuffle(texts)
    passages = [text.split()[: rng.randint(150, 400)] for text in texts if len(text.split()) >= 150][:PASSAGES]
    with open(out, "w", encoding="utf-8", newline="") as file, tempfile.TemporaryDirectory() as folder:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["kind", "rate", "setting", "found", "wrong"])
        for kind, rates in KINDS.items():
            for rate, damage in rates:
                pages = os.path.join(folder, "pages.jsonl")
                with open(pages, "w", encoding="utf-8") as written:
                    for number, words in enumerate(passages):
                        for name, text in (("a", words), ("b", damage(rng, words))):
                            written.write(json.dumps({"id": f"{number}{name}", "text": " ".join(text)}) + "\n")
                for setting, options in SETTINGS.items():
                    result = os.path.join(folder, "result")
                    command = [program, "dedup", pages, "--out", result, "--force", "--write", "pairs", "--all-pairs", "--quiet", *options]
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                    with open(os.path.join(result, "pairs.csv"), encoding="utf-8", newline="") as table:
                        pairs = [(row["a_id"][:-1], row["b_id"][:-1]) for row in csv.DictReader(table)]
                    found = len({a for a, b in pairs if a == b})
                    rows.writerow([kind, rate, setting, found, sum(a != b for a, b in pairs)])
                    print(kind, rate, setting, found, flush=True)


if __name__ == "__main__":
    main()
