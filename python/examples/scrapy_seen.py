"""Near-duplicates in Scrapy: an item pipeline that drops pages that were seen before, in this crawl or an earlier one.

    python scrapy_seen.py START_URL INDEX_FOLDER ITEMS.jsonl

In a project of your own:

    ITEM_PIPELINES = {"scrapy_seen.SeenPipeline": 300}
    SEEN_INDEX = "crawl.seen"
    SEEN_SETTINGS = {"fresh": "30d"}       # keywords of simflip.Seen

An item needs a ``url`` and a ``text``. One that is new, or was not seen for so long that it is stale, goes on with the
answer in its field ``seen``; any other is dropped. When a crawl that was killed is taken up again, the page that was
lost with it gets the answer that it got. Needs scrapy.
"""

import sys
from urllib.parse import urldefrag

import simflip
import scrapy
from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class SeenPipeline:
    """Asks an index about each item, and drops what is not new."""

    def __init__(self, crawler):
        self.index = crawler.settings.get("SEEN_INDEX", "crawl.seen")
        self.settings = crawler.settings.getdict("SEEN_SETTINGS")
        self.stats = crawler.stats

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)

    def open_spider(self):
        self.seen = simflip.Seen(self.index, **self.settings)

    def close_spider(self):
        self.seen.close()

    def process_item(self, item):
        page = ItemAdapter(item)
        answer = self.seen.check_and_add(page["text"], page["url"])
        self.stats.inc_value(f"seen/{answer.answer}")
        if answer.answer in ("same", "near"):
            # Scrapy logs the whole item with it, text and all, as a warning unless it is told otherwise.
            raise DropItem(f"{answer.answer} as {answer.earlier}", log_level="DEBUG")
        page["seen"] = answer._asdict()
        return item


class SiteSpider(scrapy.Spider):
    """Follows the links of a site, and gives the text of each page."""

    name = "site"

    async def start(self):
        yield scrapy.Request(self.start_url)

    def parse(self, response):
        text = " ".join(response.xpath("//body//text()[normalize-space()]").getall())
        yield {"url": response.url, "text": text}
        for link in response.xpath("//a/@href").getall():
            url = urldefrag(response.urljoin(link)).url
            if url.startswith(self.start_url):
                yield response.follow(url)


def main(start_url, index, out, **settings):
    """Crawls a site. Gives how many items got which answer."""
    from scrapy.crawler import CrawlerProcess

    process = CrawlerProcess(
        {
            "ITEM_PIPELINES": {SeenPipeline: 300},
            "SEEN_INDEX": index,
            "SEEN_SETTINGS": settings,
            "FEEDS": {out: {"format": "jsonlines"}},
            "LOG_LEVEL": "WARNING",
            "TELNETCONSOLE_ENABLED": False,
        }
    )
    crawler = process.create_crawler(SiteSpider)
    process.crawl(crawler, start_url=start_url)
    process.start()
    stats = crawler.stats.get_stats()
    return {name: stats.get(f"seen/{name}", 0) for name in ["new", "near", "same", "stale"]}


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
