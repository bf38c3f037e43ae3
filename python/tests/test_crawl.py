"""docs/crawl.md: its recipe for Scrapy, run by Scrapy itself on a site of a few pages."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SPIDER = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess
from pipelines import SeenPipeline

class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for path in sorted(sys.argv[2:]):
            yield scrapy.Request("file://" + path)

    def parse(self, response):
        yield {"url": response.url.rsplit("/", 1)[1], "text": " ".join(response.css("p::text").getall())}

process = CrawlerProcess({
    "ITEM_PIPELINES": {SeenPipeline: 300}, "FEEDS": {sys.argv[1]: {"format": "jsonlines"}},
    "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False, "CONCURRENT_REQUESTS": 1,
})
process.crawl(Pages)
process.start()
"""


def crawl(folder, out):
    pages = [str(path) for path in folder.glob("*.html")]
    run = [sys.executable, "spider.py", out, *pages]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    path = folder / out
    return [json.loads(line)["url"] for line in path.read_text().splitlines()] if path.exists() else []


def test_the_pipeline_for_scrapy_drops_what_was_seen(tmp_path):
    recipe = (ROOT / "docs/crawl.md").read_text().split("```python\n")[1].split("```")[0]
    (tmp_path / "pipelines.py").write_text(recipe)
    (tmp_path / "spider.py").write_text(SPIDER)
    words = [f"word{number}" for number in range(200)]
    texts = {"a": words, "b": words[:100] + ["another"] + words[101:], "c": [f"else{number}" for number in range(200)]}
    for name, text in texts.items():
        (tmp_path / f"{name}.html").write_text(f"<html><body><p>{' '.join(text)}</p></body></html>")
    assert crawl(tmp_path, "first.jsonl") == ["a.html", "c.html"]
    (tmp_path / "d.html").write_text("<html><body><p>" + " ".join(f"new{n}" for n in range(200)) + "</p></body></html>")
    assert crawl(tmp_path, "second.jsonl") == ["d.html"]
