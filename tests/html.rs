//! Pages as servers sent them: WARC responses, read with the feature `html`.

use super::cli::simflip;
use super::place::{gz, unpacked, words};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn html(page: usize) -> String {
    format!(
        "<html><head><title>t</title><script>var x;</script></head><body><p>{}</p></body></html>",
        words(page, 60)
    )
}

fn record(kind: &str, url: &str, content: &[u8]) -> Vec<u8> {
    let head = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2025-01-01T00:00:00Z\r\n\
         WARC-Record-ID: <{url}>\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    [head.as_bytes(), content, b"\r\n\r\n"].concat()
}

fn response(url: &str, head: &str, body: &[u8]) -> Vec<u8> {
    record("response", url, &[format!("HTTP/1.1 {head}\r\n\r\n").as_bytes(), body].concat())
}

const OK: &str = "200 OK\r\nContent-Type: text/html; charset=utf-8";

/// The records of a crawl: four pages, one of them twice, and much that is none.
fn crawl() -> Vec<Vec<u8>> {
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", html(2).len(), html(2));
    vec![
        record("warcinfo", "-", b"software: none"),
        record("response", "dns:pier.example", b"20250101000000\npier.example. 300 IN A 192.0.2.1\n"),
        record("request", "https://pier.example/1", b"GET /1 HTTP/1.1\r\n\r\n"),
        response("https://pier.example/1", OK, html(1).as_bytes()),
        response(
            "https://pier.example/2",
            &format!("{OK}\r\nTransfer-Encoding: chunked"),
            chunked.as_bytes(),
        ),
        response(
            "https://pier.example/3",
            &format!("{OK}\r\nContent-Encoding: gzip"),
            &gz(html(3).as_bytes()),
        ),
        // The same text in other markup.
        response("https://pier.example/1-again", OK, html(1).replace("<p>", "<p class=x>").as_bytes()),
        response("https://pier.example/moved", "301 Moved", b""),
        response("https://pier.example/x.png", "200 OK\r\nContent-Type: image/png", b"\x89PNG"),
        response(
            "https://pier.example/bad",
            &format!("{OK}\r\nContent-Encoding: gzip"),
            &gz(html(5).as_bytes())[..40],
        ),
        response(
            "https://pier.example/robots.txt",
            "200 OK\r\nContent-Type: text/plain",
            words(4, 60).as_bytes(),
        ),
        record("metadata", "https://pier.example/1", b"fetchTimeMs: 1"),
    ]
}

struct HtmlPlace(tempfile::TempDir);

impl HtmlPlace {
    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &str, code: i32) -> String {
        let run = simflip().current_dir(self.0.path()).args(arguments.split(' ')).assert().code(code);
        String::from_utf8_lossy(&run.get_output().stderr).into_owned()
    }

    fn report(&self, out: &str) -> Value {
        serde_json::from_slice(&fs::read(self.at(out).join("report.json")).unwrap()).unwrap()
    }

    /// The addresses of kept pages.
    fn kept(&self, path: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&unpacked(&self.at(path)).0).into_owned();
        let urls = text.lines().filter_map(|line| line.strip_prefix("WARC-Target-URI: "));
        urls.map(str::to_owned).collect()
    }
}

#[test]
fn a_raw_crawl_is_read_deduplicated_and_kept_as_it_was() {
    let place = HtmlPlace(tempfile::tempdir().unwrap());
    let members: Vec<Vec<u8>> = crawl().iter().map(|record| gz(record)).collect();
    fs::write(place.at("crawl.warc.gz"), members.concat()).unwrap();
    fs::write(place.at("plain.warc"), crawl().concat()).unwrap();
    let urls = ["1", "2", "3", "robots.txt"].map(|page| format!("https://pier.example/{page}"));
    for (input, out, threads, kept) in [
        ("crawl.warc.gz", "a", 1, "kept.warc.wet.gz"),
        ("crawl.warc.gz", "b", 3, "kept.warc.wet.gz"),
        ("plain.warc", "c", 2, "kept.warc.wet"),
    ] {
        let reported = place.run(&format!("dedup {input} --out {out} --threads {threads}"), 1);
        assert!(reported.contains("malformed: a body of gzip that does not decode"), "{reported}");
        assert_eq!(place.kept(&format!("{out}/{kept}")), urls, "{out}");
        let report = place.report(out);
        let corpus = &report["corpus"];
        assert_eq!(
            (&corpus["documents"], &corpus["records"], &corpus["extracted"]),
            (&5.into(), &12.into(), &5.into())
        );
        assert_eq!(corpus["extractor"], simflip::corpus::EXTRACTOR.unwrap());
        assert_eq!(
            (&report["corruption"]["total"], &report["corruption"]["documents_lost"]),
            (&1.into(), &1.into())
        );
        assert_eq!(
            (&report["outcome"]["exact_duplicates"], &report["files"][0]["unread"]),
            (&1.into(), &3.into())
        );
        let opening = report["largest_clusters"][0]["kept"]["opening"].as_str().unwrap();
        assert!(opening.starts_with("word1000 word1001 "), "{opening}");
        place.run(&format!("inspect {out}"), 0);
    }
    for name in ["pairs.csv", "clusters.csv", "kept.warc.wet.gz"] {
        assert_eq!(fs::read(place.at("a").join(name)).unwrap(), fs::read(place.at("b").join(name)).unwrap());
    }
    // What is kept reads back, as the members that it was.
    place.run("dedup a/kept.warc.wet.gz --out again", 0);
    assert_eq!(place.report("again")["outcome"]["kept"], 4);
    let kept = fs::read(place.at("a/kept.warc.wet.gz")).unwrap();
    assert!(memchr::memmem::find(&kept, &members[5]).is_some());
    // Against the text that another tool took from it.
    let wet = record("conversion", "https://pier.example/3", words(3, 60).as_bytes());
    fs::write(place.at("old.warc.wet"), wet).unwrap();
    place.run("dedup crawl.warc.gz --against old.warc.wet --out new", 1);
    assert_eq!(place.kept("new/kept.warc.wet.gz"), [&urls[0], &urls[1], &urls[3]].map(String::clone));
}

#[test]
fn the_specimens_are_those_of_this_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specimens-html");
    let br = {
        let mut br = Vec::new();
        brotli::BrotliCompress(
            &mut html(6).as_bytes(),
            &mut br,
            &brotli::enc::BrotliEncoderParams::default(),
        )
        .unwrap();
        response("https://pier.example/br", &format!("{OK}\r\nContent-Encoding: br"), &br)
    };
    let sjis = response(
        "https://pier.example/jp",
        "200 OK\r\nContent-Type: text/html",
        b"<meta charset=shift_jis><p>\x93\xfa\x96{",
    );
    let specimens = [
        ("crawl.warc.gz", crawl().iter().map(|record| gz(record)).collect::<Vec<_>>().concat(), 5, 1),
        ("crawl.warc", crawl().concat(), 5, 1),
        ("packed.warc", [br, sjis].concat(), 2, 0),
    ];
    if std::env::var_os("WRITE_SPECIMENS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        specimens.iter().for_each(|(name, bytes, ..)| fs::write(folder.join(name), bytes).unwrap());
    }
    for (name, _, documents, corrupt) in specimens {
        use simflip::corpus::{DiscoverOptions, ReadOptions, discover, read};
        let inputs = discover(&[folder.join(name)], &DiscoverOptions::default()).unwrap();
        for (threads, block_bytes) in [(1, 1 << 20), (3, 700)] {
            let options = ReadOptions { threads, block_bytes, ..ReadOptions::default() };
            let files = read(&inputs, &options, || (), |(), _| (), &|_| ()).files;
            assert_eq!((files[0].documents, files[0].corrupt), (documents, corrupt), "{name}");
        }
    }
}
