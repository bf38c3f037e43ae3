"""Runs rivals on one corpus and writes what they find, for `experiments -- quality --rival`.

    python rivals.py CORPUS OUT_PREFIX [NAME…]

CORPUS is a WET file, or JSONL with the field `text`. Each rival NAME writes OUT_PREFIX.NAME.csv: pairs (a,b) or
clusters (record,cluster) by record number, conversion records or lines counted from 0; and its seconds of processor time to OUT_PREFIX.seconds.csv. See README.md for what must be installed.
"""

import csv
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# The interpreter that has text-dedup, and the built program of simdoc/.
TEXT_DEDUP = os.environ.get("TEXT_DEDUP_PYTHON", sys.executable)
SIMDOC = os.environ.get("SIMDOC", str(HERE / "simdoc/target/release/simdoc"))
LIMIT = float(os.environ.get("RIVAL_SECONDS", "900"))


def read(corpus):
    if corpus.endswith(".jsonl"):
        with open(corpus, encoding="utf-8") as file:
            yield from (json.loads(line)["text"] for line in file if line.strip())
        return
    from warcio.archiveiterator import ArchiveIterator

    with open(corpus, "rb") as file:
        for record in ArchiveIterator(file):
            if record.rec_type == "conversion":
                yield record.content_stream().read().decode("utf-8", "replace")


def words(text):
    return re.findall(r"[^\W_]+", text.lower())


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(header)
        out.writerows(rows)


def text_dedup(module, flags):
    """The package's own program; its result are clusters."""

    def run(texts, out):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder, "texts.jsonl")
            with open(data, "w") as file:
                for text in texts:
                    file.write(json.dumps({"text": text}) + "\n")
            command = [TEXT_DEDUP, "-m", f"text_dedup.{module}", "--path", "json", "--data_files", str(data)]
            command += ["--split", "train", "--column", "text", "--cache_dir", f"{folder}/cache"]
            command += ["--output", f"{folder}/out", "--num_proc", "1", "--debug", *flags]
            subprocess.run(command, check=True, timeout=LIMIT, cwd=folder, capture_output=True)
            # The pickle is an instance of the package's class; its interpreter opens it.
            script = "import pickle,json;u=pickle.load(open('out/uf.pkl','rb'));print(json.dumps([[int(x),int(u.find(x))] for x in list(u.parent)]))"
            found = subprocess.run([TEXT_DEDUP, "-c", script], check=True, cwd=folder, capture_output=True)
            write(out, ["record", "cluster"], sorted(json.loads(found.stdout)))

    return run


def datasketch(width, threshold, permutations=128, index_at=None, checked=True):
    """MinHashLSH over word shingles for one threshold, candidates checked by the estimated Jaccard coefficient, from
    another threshold on if the index has one of its own."""

    def run(texts, out):
        from datasketch import MinHash, MinHashLSH

        index, sketches, pairs = MinHashLSH(threshold=index_at or threshold, num_perm=permutations), [], []
        for number, text in enumerate(texts):
            tokens = words(text)
            shingles = {" ".join(tokens[i : i + width]) for i in range(max(len(tokens) - width + 1, 1))}
            sketch = MinHash(num_perm=permutations)
            sketch.update_batch([shingle.encode() for shingle in shingles])
            found = index.query(sketch)
            near = (other for other in found if not checked or sketch.jaccard(sketches[other]) >= threshold)
            pairs.extend((other, number) for other in near)
            index.insert(number, sketch)
            sketches.append(sketch)
        write(out, ["a", "b"], sorted(pairs))

    return run


def simdoc(*arguments):
    """find-simdoc reads one document a line and cuts at blanks, so it is given lower-case words."""

    def run(texts, out):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
            for text in texts:
                lines.write((" ".join(words(text)) or "-") + "\n")
            lines.flush()
            found = subprocess.run([SIMDOC, lines.name, *arguments], check=True, timeout=LIMIT, capture_output=True)
            Path(out).write_bytes(found.stdout)

    return run


RIVALS = {
    "text-dedup-minhash-2gram-50x4": text_dedup("minhash", "--ngram 2 --num_perm 200 --b 50 --r 4 --hash_func xxh3 --min_length 0".split()),
    "text-dedup-minhash-5gram-0.7": text_dedup("minhash", "--ngram 5 --num_perm 250 --threshold 0.7 --min_length 5".split()),
    "text-dedup-minhash-5gram-0.8": text_dedup("minhash", "--ngram 5 --num_perm 250 --threshold 0.8 --min_length 5".split()),
    "text-dedup-minhash-5gram-0.9": text_dedup("minhash", "--ngram 5 --num_perm 250 --threshold 0.9 --min_length 5".split()),
    "text-dedup-simhash-3bits": text_dedup("simhash", "--ngram 3 --f 64 --bit_diff 3 --num_bucket 4".split()),
    "text-dedup-simhash-7bits": text_dedup("simhash", "--ngram 3 --f 64 --bit_diff 7 --num_bucket 8".split()),
    # The defaults of MinHashLSH, on sets of words as in its documentation, which takes what the index gives.
    "datasketch-words-0.9-unchecked": datasketch(1, 0.9, checked=False),
    # The best of grid.py.
    "datasketch-5shingles-256-0.6-0.82": datasketch(5, 0.82, permutations=256, index_at=0.6),
    "datasketch-5shingles-0.8": datasketch(5, 0.8),
    "datasketch-5shingles-0.5": datasketch(5, 0.5),
    "datasketch-2shingles-0.5": datasketch(2, 0.5),
    "find-simdoc-cosine-words-0.1": simdoc("cosine", "1", "0.1"),
    "find-simdoc-cosine-words-0.05": simdoc("cosine", "1", "0.05"),
    "find-simdoc-cosine-3shingles-0.1": simdoc("cosine", "3", "0.1"),
    "find-simdoc-jaccard-5shingles-0.2": simdoc("jaccard", "5", "0.2"),
}


def main():
    corpus, prefix, *names = sys.argv[1:]
    texts = list(read(corpus))
    times = []
    for name in names or RIVALS:
        before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        try:
            RIVALS[name](texts, f"{prefix}.{name}.csv")
        except subprocess.TimeoutExpired:
            print(f"{name}: stopped after {LIMIT:.0f} s", file=sys.stderr)
            continue
        after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        spent = sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after))
        times.append((name, f"{spent:.2f}"))
        print(f"{name}: {spent:.1f} s", file=sys.stderr)
    write(f"{prefix}.seconds.csv", ["rival", "cpu_seconds"], times)


if __name__ == "__main__":
    main()
