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
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def program(variable, otherwise):
    """A program that a variable names; these run in a folder of their own, where a relative path leads nowhere."""
    named = os.environ.get(variable, otherwise)
    return os.path.abspath(named) if os.sep in named else named


# The interpreters that have text-dedup and datatrove, the program of Duplodocus, and the built program of simdoc/.
TEXT_DEDUP = program("TEXT_DEDUP_PYTHON", sys.executable)
DATATROVE = program("DATATROVE_PYTHON", sys.executable)
DUPLODOCUS = program("DUPLODOCUS", "duplodocus")
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


def write_lines(path, texts):
    """Lines of JSON whose ids are the numbers of the texts."""
    with open(path, "w") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")


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


# The four stages of datatrove as its documentation chains them; which pages are of one cluster is asked of the third.
DATATROVE_STAGES = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig
bands, hashes, grams = map(int, sys.argv[1:])
config = MinhashConfig(
    hash_config=HashConfig(precision=64), num_buckets=bands, hashes_per_bucket=hashes, n_grams=grams,
)
reader = lambda: JsonlReader("in")
steps = [
    ([reader(), MinhashDedupSignature(output_folder="signatures", config=config)], 1),
    ([MinhashDedupBuckets(input_folder="signatures", output_folder="buckets", config=config)], bands),
    ([MinhashDedupCluster(input_folder="buckets", output_folder="remove", config=config, save_cluster_id=True)], 1),
    ([reader(), MinhashDedupFilter(input_folder="remove"), JsonlWriter("kept", compression=None)], 1),
]
for number, (pipeline, tasks) in enumerate(steps):
    LocalPipelineExecutor(pipeline=pipeline, tasks=tasks, workers=1, logging_dir=f"logs{number}").run()
"""


def datatrove(bands, hashes, grams):
    """Its stages on one file; clusters are read from what the third leaves, numbers of a page and of its cluster."""

    def run(texts, out):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "in").mkdir()
            write_lines(f"{folder}/in/texts.jsonl", texts)
            command = [DATATROVE, "-c", DATATROVE_STAGES, str(bands), str(hashes), str(grams)]
            subprocess.run(command, check=True, timeout=LIMIT, cwd=folder, capture_output=True)
            # Without a pair there is no file.
            found = b"".join(path.read_bytes() for path in Path(folder, "remove").glob("*.clusters"))
        # Its reader passes over pages without text, and does not count them.
        counted = [number for number, text in enumerate(texts) if text]
        rows = ((counted[page], cluster) for page, cluster in struct.iter_unpack("<2I", found))
        write(out, ["record", "cluster"], sorted(rows))

    return run


def duplodocus(bands, hashes, tokenizer="uniseg"):
    """Its job in memory, which marks pages with their clusters and removes none."""

    def run(texts, out):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "in").mkdir()
            write_lines(f"{folder}/in/texts.jsonl", texts)
            command = [DUPLODOCUS, "minhash-memory", "--text-key", "text"]
            command += ["--input-dir", "in", "--storage-dir", "work", "--output-dir", "out"]
            command += ["--num-buckets", str(bands), "--bucket-size", str(hashes)]
            # It does not know the name of its own default tokeniser, so one has to be named.
            command += ["--ngram-size", "5", "--tokenizer", tokenizer]
            command += ["--annotate", "true", "--annotate-key", "duplicate", "--remove-duplicates", "false"]
            subprocess.run(command, check=True, timeout=LIMIT, cwd=folder, capture_output=True)
            rows = []
            for path in Path(folder, "out").iterdir():
                with open(path, encoding="utf-8") as lines:
                    pages = map(json.loads, lines)
                    rows += [(int(page["id"]), page["duplicate"]["cc_id"]) for page in pages if "duplicate" in page]
        write(out, ["record", "cluster"], sorted(rows))

    return run


def fastrustrag(width, threshold):
    """Its pipeline with the bands and positions of its documentation; words are what blanks part."""

    def run(texts, out):
        from fastrustrag import DeduplicationPipeline

        pipeline = DeduplicationPipeline(
            num_bands=20, num_hashes=128, shingle_size=width, similarity_threshold=threshold
        )
        pipeline.process_documents(texts)
        found = pipeline.deduplicate_corpus()
        # Its threads number the texts as they come to them, so each is asked back; of the same text any will do.
        places = {}
        for number, text in enumerate(texts):
            places.setdefault(text, []).append(number)
        place = [places[pipeline.get_document(number)].pop() for number in range(len(texts))]
        write(out, ["a", "b"], sorted(sorted((place[a], place[b])) for a, b, _ in found))

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
    "datatrove-14x8": datatrove(14, 8, 5),
    # The shape that its code has by default with the tokeniser that is meant and with its fastest, and the shape of its
    # documentation's examples.
    "duplodocus-14x8-cl100k": duplodocus(14, 8, "cl100k"),
    "duplodocus-14x8": duplodocus(14, 8),
    "duplodocus-20x5": duplodocus(20, 5),
    # As documented, and with shingles as wide as ours.
    "fastrustrag-3shingles-0.8": fastrustrag(3, 0.8),
    "fastrustrag-5shingles-0.8": fastrustrag(5, 0.8),
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
