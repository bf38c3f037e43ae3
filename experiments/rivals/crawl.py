"""Has this page been seen, or one near it? simflip's service and what else people ask, on the same pages in the same order.

    python3 crawl.py SIMFLIP ROWS.csv WORK_FOLDER FILE.warc.wet.gz TRUTH.csv [TOOL…]

Without TOOL, all that are named here. SIMFLIP is built with `--features serve`. Each page is asked about and then stored, before the next one comes. TRUTH has
exact Jaccard coefficients (`a,b,jaccard`, by record number): a page is truly near if one before it has 0.8 or more.

Processor time is that of the client and of the server together, a page: `sketching` from the text to what is asked with,
`asking` from there to the answer, with the page stored. Memory is what the process that holds the pages grew by. The
Python tools get a virtual environment in WORK_FOLDER, `redis-server` is the system's; what cannot be had is named with
the reason and left out.
"""

import csv
import datetime
import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from costs import environment, kernel, lines_of, processor, reason_of

HERE = Path(__file__).parent
FIELDS = [
    "date", "machine", "kernel", "command", "corpus", "pages", "tool", "version", "work", "sketching_microseconds", "asking_microseconds",
    "bytes_a_page", "reported", "recall", "precision",
]
SECONDS = float(os.environ.get("RIVAL_SECONDS", "1800"))
NEAR = 0.8

# Run in a tool's environment: PROGRAM has `sketch(text)` and `ask(number, sketch)`, which stores, too, and says whether an
# earlier page is near.
HARNESS = """
import json, sys, time
pages, called = sys.argv[1:3]
sys.path.insert(0, sys.argv[3])
from corpus import shingles
def features(text):
    return [" ".join(shingle).encode() for shingle in shingles(text, 5)]
PROGRAM
def held():
    status = open("/proc/self/status").read()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024
sketch("a text to warm up with, of more than five words")
sketching = asking = 0.0
before = held()
with open(pages, encoding="utf-8") as lines, open(called, "w") as out:
    for number, line in enumerate(lines):
        text = json.loads(line)["text"]
        start = time.process_time()
        sketched = sketch(text)
        between = time.process_time()
        near = ask(number, sketched)
        asking += time.process_time() - between
        sketching += between - start
        if near:
            out.write(f"{number}\\n")
print(json.dumps({"sketching": sketching, "asking": asking, "bytes": held() - before}))
"""
DATASKETCH = """
from datasketch import MinHash, MinHashLSH
index = MinHashLSH(threshold=0.8, num_perm=128, STORAGE)
def sketch(text):
    made = MinHash(num_perm=128)
    made.update_batch(features(text))
    return made
def ask(number, made):
    found = index.query(made)
    index.insert(str(number), made)
    return bool(found)
"""
BLOOM = """
import hashlib
from rbloom import Bloom
seen = Bloom(1_000_000, 0.001, lambda digest: int.from_bytes(digest[:16], "little", signed=True))
def sketch(text):
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
def ask(number, digest):
    known = digest in seen
    seen.add(digest)
    return known
"""
MILVUS = """
import tempfile, zlib
import numpy
from pymilvus import DataType, MilvusClient
client = MilvusClient(tempfile.mkdtemp() + "/pages.db")
schema = client.create_schema(auto_id=False)
schema.add_field("id", DataType.INT64, is_primary=True)
schema.add_field("vector", DataType.FLOAT_VECTOR, dim=256)
index = client.prepare_index_params()
index.add_index("vector", index_type="HNSW", metric_type="COSINE", params={"M": 16, "efConstruction": 200})
client.create_collection("pages", schema=schema, index_params=index, consistency_level="Strong")
client.load_collection("pages")
def sketch(text):
    hashes = numpy.fromiter((zlib.crc32(feature) for feature in features(text)), numpy.uint32)
    vector = numpy.zeros(256, numpy.float32)
    numpy.add.at(vector, hashes & 255, 1.0 - 2.0 * (hashes >> 31))
    return vector.tolist() if vector.any() else [1.0] + [0.0] * 255
def ask(number, vector):
    found = client.search("pages", [vector], limit=1)[0]
    client.insert("pages", [{"id": number, "vector": vector}])
    # The cosine of two sets of one size with a Jaccard coefficient of 0.8.
    return bool(found) and found[0]["distance"] >= 0.8 / 0.9
"""
# Pages of a request.
SIMFLIP = {"simflip serve, a page a request": 1, "simflip serve, 100 pages a request": 100}
FIVE = "runs of five words, made in Python; MinHash of 128 positions, MinHashLSH at .8, candidates unchecked"
# Name: module, packages, program, what it does.
PYTHON_TOOLS = {
    "datasketch, in memory": ("datasketch", ["datasketch==2.0.0", "numpy"], DATASKETCH.replace("STORAGE", ""), f"{FIVE}; forgets all at its end"),
    "datasketch with Redis": ("datasketch", ["datasketch==2.0.0", "numpy", "redis"], DATASKETCH, f"{FIVE}; keys in redis-server, which saves when it likes"),
    "rbloom": ("rbloom", ["rbloom==1.5.4"], BLOOM, "a Bloom filter of digests for a million texts: the same text only; keeps nothing on disk here, names no page"),
    "Milvus Lite": ("pymilvus", ["milvus-lite==3.2.2", "pymilvus==3.0.2", "numpy"], MILVUS, "runs of five words, made in Python, hashed to a vector of 256 numbers; HNSW by cosine, the nearest one judged at the cosine of .8; it has no binary vectors and no MinHash"),
}
NOWHERE = "in no package registry"
NOT_HAD = {
    "Qdrant": f"its server is {NOWHERE}; the client's local mode compares with all pages and is meant for tests",
    "Elasticsearch": f"its server is {NOWHERE}",
}


class Process:
    """A server of ours or of others: its processor time and memory, from outside."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def held(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def waited_for(look, what):
    """What `look` gives as soon as it gives something."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    sys.exit(f"{what} does not answer")


def simflip(program, pages, folder, batch):
    """Sketches of all pages by the service, then each asked and stored: seconds, bytes, the numbers of those called near."""
    log = open(folder / "service.log", "w+", encoding="utf-8")
    server = Process([program, "serve", "--index", folder / "index", "--listen", "127.0.0.1:0"], log)
    port = waited_for(lambda: re.search(r"127\.0\.0\.1:(\d+)", (folder / "service.log").read_text()), "simflip serve")
    client = http.client.HTTPConnection("127.0.0.1", int(port[1]))

    def post(path, lines):
        kind = "application/json" if len(lines) == 1 else "application/x-ndjson"
        client.request("POST", path, body="\n".join(lines).encode(), headers={"content-type": kind})
        answer = client.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {body[:300]}")
        return [json.loads(line) for line in body.splitlines() if line.strip()]

    def clock():
        return time.process_time() + server.seconds()

    near, sketching, asking = [], 0.0, 0.0
    held = server.held()
    with open(pages, encoding="utf-8") as lines:
        for batched in iter(lambda: [line for _, line in zip(range(batch), lines)], []):
            texts = [json.loads(line) for line in batched]
            start = clock()
            sketches = post("/v1/sketch", [json.dumps({"url": page["id"], "text": page["text"]}) for page in texts])
            between = clock()
            asked = [json.dumps({"url": page["id"], "sketch": made["sketch"]}) for page, made in zip(texts, sketches)]
            answers = post("/v1/check-and-add", asked)
            asking += clock() - between
            sketching += between - start
            near += [int(page["id"]) for page, answer in zip(texts, answers) if answer["answer"] != "new"]
    held = server.held() - held
    server.end()
    return sketching, asking, held, near


def python_tool(python, program, pages, folder, server=None):
    """The same by a tool in a process of its own, and a server that it asks."""
    called = folder / "called"
    before = (server.seconds(), server.held()) if server else (0, 0)
    run = [python, "-c", HARNESS.replace("PROGRAM", program), pages, called, HERE.parent / "evidence"]
    done = subprocess.run(run, check=True, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    told = json.loads(done.stdout.splitlines()[-1])
    # The client's own memory is none of the pages', if a server holds them.
    held = server.held() - before[1] if server else told["bytes"]
    asking = told["asking"] + (server.seconds() - before[0] if server else 0)
    return told["sketching"], asking, held, [int(line) for line in called.read_text().split()]


def redis(folder):
    log = open(folder / "redis.log", "w")
    server = Process(["redis-server", "--port", "0", "--unixsocket", folder / "redis.sock", "--dir", folder], log)
    waited_for(lambda: (folder / "redis.sock").exists(), "redis-server")
    storage = {"type": "redis", "basename": b"pages", "redis": {"unix_socket_path": str(folder / "redis.sock")}}
    return server, f"storage_config={storage!r}"


def main():
    program, rows, work, file, truth = (Path(given).resolve() for given in sys.argv[1:6])
    wanted = sys.argv[6:]
    if unknown := set(wanted) - {*SIMFLIP, *PYTHON_TOOLS}:
        sys.exit(f"{', '.join(sorted(unknown))}: expected {', '.join([*SIMFLIP, *PYTHON_TOOLS])}")
    work.mkdir(parents=True, exist_ok=True)
    corpus = file.name.removesuffix(".warc.wet.gz")
    machine = f"{processor()} x{os.cpu_count()}"
    command = f"crawl.py simflip crawl/rivals.csv target/rivals {file.name} {truth.name}"
    opened = gzip.open if truth.suffix == ".gz" else open
    with opened(truth, "rt", newline="") as pairs:
        truly = {max(int(pair["a"]), int(pair["b"])) for pair in csv.DictReader(pairs) if float(pair["jaccard"]) >= NEAR}
    made = []
    with tempfile.TemporaryDirectory(dir=work) as folder:
        pages = Path(folder, "pages.jsonl")
        number, _ = lines_of([file], pages)

        def row(tool, version, did, measured):
            sketching, asking, held, near = measured
            right = len(truly.intersection(near))
            made.append(dict(zip(FIELDS, [
                datetime.date.today(), machine, kernel(program), command, corpus, number, tool, version, did, f"{sketching / number * 1e6:.1f}",
                f"{asking / number * 1e6:.1f}", round(held / number), len(near), f"{right / max(len(truly), 1):.4f}",
                f"{right / max(len(near), 1):.4f}",
            ])))
            print(made[-1], file=sys.stderr)

        def fresh():
            return Path(tempfile.mkdtemp(dir=folder))

        version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
        did = "both sketches of runs of five words, candidates judged at .8; over HTTP, a log on disk in front of each answer"
        for tool, batch in SIMFLIP.items():
            if tool in (wanted or SIMFLIP):
                row(tool, version, did, simflip(program, pages, fresh(), batch))
        for tool, why in NOT_HAD.items():
            print(f"{tool}: left out: {why}", file=sys.stderr)
        for tool, (module, packages, run, did) in PYTHON_TOOLS.items():
            if tool not in (wanted or PYTHON_TOOLS):
                continue
            python, version = environment(work / f"crawl-{module}", module, packages)
            if python is None:
                print(f"{tool}: left out: {version}", file=sys.stderr)
                continue
            at, server = fresh(), None
            if "Redis" in tool:
                if shutil.which("redis-server") is None:
                    print(f"{tool}: left out: no redis-server, a package of the system", file=sys.stderr)
                    continue
                server, storage = redis(at)
                run = run.replace("STORAGE", storage)
            try:
                row(tool, version, did, python_tool(python, run, pages, at, server))
            except subprocess.SubprocessError as error:
                print(f"{tool}: left out: {reason_of(error)}", file=sys.stderr)
            if server:
                server.end()
    rows.parent.mkdir(parents=True, exist_ok=True)
    before = []
    if rows.exists():
        with open(rows, newline="") as old:
            again = {row["tool"] for row in made}
            before = [row for row in csv.DictReader(old) if row["corpus"] != corpus or row["tool"] not in again]
    with open(rows, "w", newline="") as out:
        out = csv.DictWriter(out, FIELDS, lineterminator="\n")
        out.writeheader()
        out.writerows([*before, *made])


if __name__ == "__main__":
    main()
