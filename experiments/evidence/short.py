"""Sets of short texts, and books with pieces of them, for counting what runs remove (removal.py).

usage: short.py books|tiny|titles OUT.jsonl
       apt-cache dumpavail | short.py names|summaries OUT.jsonl

books      40 texts of 6,000 random words, and of each 8 pieces of 30 to 3,000 words
tiny       6,000 texts of one to three words, none of which is in two texts
titles     30,000 texts of two to seven random words, every twentieth of them a second time, in capitals
names      names of 15,000 packages, the words in them apart
summaries  the first lines of the descriptions of 15,000 packages
"""

import json
import random
import re
import sys

PACKAGES = 15_000


def random_words(random_, kinds, count):
    return [f"w{random_.randrange(kinds)}" for _ in range(count)]


def books(random_):
    for _ in range(40):
        words = random_words(random_, 50_000, 6_000)
        yield " ".join(words)
        for _ in range(8):
            length = random_.randint(30, 3_000)
            first = random_.randrange(len(words) - length)
            yield " ".join(words[first : first + length])


def tiny(random_):
    number = 0
    for _ in range(6_000):
        count = random_.randint(1, 3)
        yield " ".join(f"w{number + at}" for at in range(count))
        number += count


def titles(random_):
    for number in range(30_000):
        title = " ".join(random_words(random_, 50_000, random_.randint(2, 7)))
        yield title
        if number % 20 == 0:
            yield title.upper()


def packages(random_, field):
    """That field of different packages, in the order of a shuffled list."""
    found = {}
    for stanza in sys.stdin.read().split("\n\n"):
        name = re.search(r"^Package: (\S+)$", stanza, re.M)
        value = re.search(rf"^{field}: (.+)$", stanza, re.M)
        if name and value:
            found.setdefault(name[1], value[1])
    return [found[name] for name in random_.sample(sorted(found), min(PACKAGES, len(found)))]


SETS = {
    "books": books,
    "tiny": tiny,
    "titles": titles,
    "names": lambda random_: (name.replace("-", " ") for name in packages(random_, "Package")),
    "summaries": lambda random_: packages(random_, "Description"),
}


def main(name, path):
    with open(path, "w", encoding="utf-8") as file:
        for number, text in enumerate(SETS[name](random.Random(1))):
            file.write(json.dumps({"id": f"{name}/{number}", "text": text}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
