//! Objects in stores (S3, Google Cloud, Azure) and on web servers, read by ranges of bytes; [`put`] writes them.
//!
//! An object is pinned to the version in which it was found: bytes of another version are an error. `object_store`
//! repeats requests that fail. A reader notes at the object what fails nevertheless ([`Object::failure`]), since the
//! object is not corrupt.

mod put;

pub(crate) use put::PutTarget;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::{self, ErrorKind, Read};
use std::iter::successors;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ClientOptions, Error as StoreError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Bytes of the first request of a reader: few, for those who want one record only.
const FIRST: u64 = 256 << 10;
/// Bytes of a request of those who go on.
const STEP: u64 = 8 << 20;

/// The threads of requests.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("stores").enable_all().build()
    });
    let failed = |error| io::Error::other(format!("requests cannot be made: {error}"));
    RUNTIME.as_ref().map_err(failed)
}

/// Waits for the answer of a store. In the code of a task that would panic.
fn wait<T>(work: impl Future<Output = T>) -> io::Result<T> {
    runtime().map(|runtime| runtime.block_on(work))
}

/// An address taken apart.
#[derive(Debug)]
struct Address {
    /// All before the key.
    root: String,
    /// The key; of a folder, without the slash at its end.
    key: Key,
    is_folder: bool,
    /// The name of the object, whichever way it was written.
    name: PathBuf,
}

fn refuse(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what.into())
}

impl Address {
    fn of(path: &Path) -> io::Result<Self> {
        let text = path.to_str().ok_or_else(|| refuse("an address that is no UTF-8"))?;
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse("no address"))?;
        match scheme {
            "s3" | "gs" | "az" => {}
            "http" | "https" => return Self::of_web(text),
            _ => return Err(refuse("an address that is not read; s3, gs, az, http and https are")),
        }
        // No URL: the key may have any characters, and stands there as it is.
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        if place.is_empty() {
            return Err(refuse("an address without the name of a bucket"));
        }
        let (root, is_folder) = (format!("{scheme}://{place}"), key.is_empty() || key.ends_with('/'));
        let key = Key::parse(key).map_err(|error| refuse(format!("a key that is not read: {error}")))?;
        let name = format!("{root}/{key}").into();
        Ok(Self { root, key, is_folder, name })
    }

    fn of_web(text: &str) -> io::Result<Self> {
        let url = reqwest::Url::parse(text).map_err(|error| refuse(format!("no address: {error}")))?;
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            let what = "an address with a query, a fragment or a password, which results would repeat; download \
                        the file, or give one without";
            return Err(refuse(what));
        }
        let key = Key::from_url_path(url.path()).map_err(|error| refuse(format!("no address: {error}")))?;
        let (root, is_folder) = (url.origin().ascii_serialization(), url.path().ends_with('/'));
        Ok(Self { root, key, is_folder, name: String::from(url).into() })
    }

    fn is_web(&self) -> bool {
        self.root.starts_with("http")
    }
}

/// A bucket, a container or a web server.
#[derive(Clone)]
struct StorePlace {
    root: String,
    store: Arc<dyn ObjectStore>,
}

impl StorePlace {
    /// One for each root, whose connections are used again.
    fn of(root: &str) -> io::Result<Self> {
        static STORES: LazyLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> = LazyLock::new(Mutex::default);
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        if !stores.contains_key(root) {
            let store = Self::open(root).map_err(|error| store_error(root, &error))?;
            stores.insert(root.to_owned(), store);
        }
        Ok(Self { root: root.to_owned(), store: stores[root].clone() })
    }

    fn open(root: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
        // Without it no connection by TLS can be made; another one may stand there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(match root.split_once("://").unwrap_or_default() {
            ("s3", bucket) => Arc::new(AmazonS3Builder::from_env().with_bucket_name(bucket).build()?),
            ("gs", bucket) => {
                Arc::new(GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).build()?)
            }
            ("az", name) => Arc::new(MicrosoftAzureBuilder::from_env().with_container_name(name).build()?),
            _ => {
                let options = ClientOptions::new().with_allow_http(true);
                Arc::new(HttpBuilder::new().with_url(root).with_client_options(options).build()?)
            }
        })
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> io::Result<T> {
        wait(work)?.map_err(|error| store_error(&self.root, &error))
    }
}

/// An error with advice and its causes, of which some errors repeat theirs.
fn store_error(root: &str, error: &StoreError) -> io::Error {
    /// Answers of servers may be long.
    const LONGEST: usize = 600;
    let is_there_nothing = matches!(error, StoreError::NotFound { .. });
    let kind = if is_there_nothing { ErrorKind::NotFound } else { ErrorKind::Other };
    let advice = match (error, root.split(':').next().unwrap_or_default()) {
        (StoreError::NotFound { .. }, "http" | "https") => "there is nothing",
        (StoreError::NotFound { .. }, _) => {
            "there is no such object, or no such bucket; an address that ends in / names all below it"
        }
        (StoreError::NotSupported { .. }, _) => {
            "the server does not answer requests for a part of a file; download it first"
        }
        (_, "s3") => {
            "the store does not answer as it should; see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
             AWS_SKIP_SIGNATURE=true for a public bucket, AWS_REGION, AWS_ENDPOINT_URL, and AWS_ALLOW_HTTP=true for \
             one without TLS"
        }
        (_, "gs") => {
            "the store does not answer as it should; see GOOGLE_SERVICE_ACCOUNT, or GOOGLE_SKIP_SIGNATURE=true for a \
             public bucket"
        }
        (_, "az") => {
            "the store does not answer as it should; see AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or \
             AZURE_SKIP_SIGNATURE=true for a public container"
        }
        _ => "the server does not answer as it should",
    };
    let causes = successors(Some(error as &dyn Error), |&error| error.source()).map(ToString::to_string);
    let add = |all: String, more: String| if all.contains(&more) { all } else { format!("{all}: {more}") };
    let all = causes.reduce(add).unwrap_or_default();
    let all: String = all.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect();
    io::Error::new(kind, format!("{advice} ({all})"))
}

/// An ETag as answers have it. Lists of Azure have it without quotes, those of others not at all.
fn tag(found: &ObjectMeta) -> Option<String> {
    found.e_tag.as_ref().map(|tag| if tag.ends_with('"') { tag.clone() } else { format!("\"{tag}\"") })
}

/// An object in the version in which it was found.
pub(crate) struct Object {
    address: PathBuf,
    place: StorePlace,
    found: ObjectMeta,
    /// The first error of a reader.
    failure: OnceLock<String>,
}

// Stores are not shown: they have keys.
impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Object {
    fn new(address: PathBuf, place: StorePlace, found: ObjectMeta) -> Arc<Self> {
        Arc::new(Self { address, place, found, failure: OnceLock::new() })
    }

    /// Asks the store for the length and the version of the object at an address; an error if there is none.
    pub fn find(path: &Path) -> io::Result<Arc<Self>> {
        let address = Address::of(path)?;
        if address.is_folder {
            return Err(refuse("a folder on a web server, whose files cannot be listed; name them"));
        }
        let place = StorePlace::of(&address.root)?;
        let found = place.wait(place.store.head(&address.key))?;
        Ok(Self::new(address.name, place, found))
    }

    /// The address: the same for two spellings of one object.
    pub fn address(&self) -> &Path {
        &self.address
    }

    /// The number of bytes.
    pub fn length(&self) -> u64 {
        self.found.size
    }

    /// A reader from the start of the object. It asks for nothing before it is read.
    pub fn open(self: &Arc<Self>) -> Box<ObjectReader> {
        let here = (0, Bytes::new());
        let (object, end) = (self.clone(), self.length());
        Box::new(ObjectReader { object, at: 0, end, step: FIRST, here, coming: None })
    }

    /// The most bytes of memory that a reader of the object holds.
    pub fn read_ahead(&self) -> u64 {
        2 * STEP.min(self.length())
    }

    /// True if the store still has the version that was found.
    pub fn is_as_found(&self) -> bool {
        self.place.wait(self.place.store.head(&self.found.location)).is_ok_and(|found| self.is(&found))
    }

    fn is(&self, other: &ObjectMeta) -> bool {
        let is_version = match (tag(&self.found), tag(other)) {
            (Some(tag), Some(other)) => tag == other,
            // In seconds, as answers have it.
            _ => self.found.last_modified.timestamp() == other.last_modified.timestamp(),
        };
        is_version && self.found.size == other.size
    }

    /// The name of its version: the ETag, or else the seconds since 1970 of its last change, if the store gives one.
    pub fn version(&self) -> Option<String> {
        let modified = self.found.last_modified.timestamp();
        tag(&self.found).or_else(|| (modified != 0).then(|| modified.to_string()))
    }

    /// The first error of a reader of the object; `None` if all bytes that were asked for came.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.get().map(|message| io::Error::other(message.clone()))
    }

    /// The first bytes, at most `length`. Unlike a reader, this asks for no more than these.
    pub fn head(self: &Arc<Self>, length: u64) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.open().within(0, length).take(length).read_to_end(&mut head)?;
        Ok(head)
    }

    async fn bytes(&self, range: Range<u64>) -> io::Result<Bytes> {
        let StorePlace { root, store } = &self.place;
        let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
        let got = async {
            let got = store.get_opts(&self.found.location, options).await?;
            if self.is(&got.meta) { got.bytes().await.map(Some) } else { Ok(None) }
        };
        let failed = match got.await {
            Ok(Some(bytes)) if !bytes.is_empty() => return Ok(bytes),
            Ok(Some(_)) => io::Error::other("no bytes came"),
            // It may have become shorter than the place that is asked for.
            Err(error) if store.head(&self.found.location).await.map_or(true, |found| self.is(&found)) => {
                store_error(root, &error)
            }
            _ => io::Error::other("the object is not the one that was found; it was changed"),
        };
        Err(io::Error::new(failed.kind(), format!("at byte {}: {failed}", range.start)))
    }
}

/// True if an address in a store names all objects below it: it ends in `/`, or is a bucket. Web servers have no such
/// addresses.
pub(crate) fn is_folder(path: &Path) -> bool {
    Address::of(path).is_ok_and(|address| address.is_folder && !address.is_web())
}

/// All objects below an address, in the order of the store. Empty objects that stand for folders are left out.
pub(crate) fn list(path: &Path) -> io::Result<Vec<Arc<Object>>> {
    let Address { root, key, .. } = Address::of(path)?;
    let place = StorePlace::of(&root)?;
    let above = (!key.as_ref().is_empty()).then_some(&key);
    let mut found: Vec<ObjectMeta> = place.wait(place.store.list(above).try_collect())?;
    // Some programs put an empty object where a file system has a folder.
    let above = |object: &ObjectMeta| Some(object.location.as_ref().rsplit_once('/')?.0.to_owned());
    let folders: HashSet<String> = found.iter().filter_map(above).collect();
    let is_folder = |object: &ObjectMeta| object.size == 0 && folders.contains(object.location.as_ref());
    found.retain(|object| object.location != key && !is_folder(object));
    let object =
        |found: ObjectMeta| Object::new(format!("{root}/{}", found.location).into(), place.clone(), found);
    Ok(found.into_iter().map(object).collect())
}

/// A reader of an object from any place on. While one piece is read, the next one is under way, and a changed object is
/// an error. The reader of `object_store` does neither.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    object: Arc<Object>,
    at: u64,
    /// The end of what was asked for; the next range ends there.
    end: u64,
    /// Bytes of the next request.
    step: u64,
    /// The piece that is read, with where it starts.
    here: (u64, Bytes),
    /// The piece that is under way. Dropped, it is given up, as its set of tasks is.
    coming: Option<(Range<u64>, JoinSet<io::Result<Bytes>>)>,
}

impl ObjectReader {
    /// Another reader of the same object, at `from`. It asks for large pieces at once, but for none behind `end` unless
    /// that is read.
    pub fn within(&self, from: u64, end: u64) -> Box<Self> {
        Box::new(Self { at: from, end: end.min(self.object.length()), step: STEP, ..*self.object.open() })
    }

    /// The number of bytes of the object.
    pub fn length(&self) -> u64 {
        self.object.length()
    }

    /// Asks for the piece that starts there.
    fn ask(&mut self, start: u64) -> io::Result<()> {
        // Behind the end somebody wants a few bytes after all.
        let (end, most) =
            if start < self.end { (self.end, self.step) } else { (self.object.length(), FIRST) };
        let (object, range) = (self.object.clone(), start..end.min(start + most));
        let (asked, mut request) = (range.clone(), JoinSet::new());
        request.spawn_on(async move { object.bytes(asked).await }, runtime()?.handle());
        self.coming = Some((range, request));
        self.step = (4 * self.step).min(STEP);
        Ok(())
    }

    /// Moves to a byte of the object, which the next read begins with. Nothing is asked for yet.
    pub fn move_to(&mut self, at: u64) {
        self.at = at;
    }

    /// Waits for the piece with the byte that is read next.
    fn load(&mut self) -> io::Result<()> {
        let (at, last) = (self.at, self.here.0 + self.here.1.len() as u64);
        if self.coming.as_ref().is_none_or(|(range, _)| !range.contains(&at)) {
            if last > 0 && at.abs_diff(last) > STEP {
                self.step = FIRST;
            }
            self.ask(at)?;
        }
        if let Some((range, mut request)) = self.coming.take()
            && let Some(answer) = wait(request.join_next())?
        {
            self.here = (range.start, answer??);
        }
        Ok(())
    }

    fn read_on(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !(self.here.0..self.here.0 + self.here.1.len() as u64).contains(&self.at) {
            self.load()?;
        }
        let (start, bytes) = &self.here;
        let next = start + bytes.len() as u64;
        let n = (&bytes[(self.at - start) as usize..]).read(into)?;
        self.at += n as u64;
        // Who has read half of a piece goes on.
        if next - self.at < self.at - start && next < self.end && self.coming.is_none() {
            self.ask(next)?;
        }
        Ok(n)
    }
}

impl Read for ObjectReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.object.length() || into.is_empty() {
            return Ok(0);
        }
        let read = self.read_on(into);
        read.inspect_err(|error| drop(self.object.failure.set(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use proptest::prelude::*;

    fn put(place: &StorePlace, bytes: Vec<u8>) -> Arc<Object> {
        place.wait(place.store.put(&Key::from("key"), bytes.into())).expect("memory");
        let found = place.wait(place.store.head(&Key::from("key"))).expect("an object");
        Object::new("s3://bucket/key".into(), place.clone(), found)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn reads_what_a_slice_reads(
            steps in proptest::collection::vec((0..2 * STEP, 0..STEP as usize, any::<bool>()), 1..9),
            (from, end) in (0..STEP, 0..2 * STEP),
        ) {
            let byte = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            let all: Vec<u8> = (0..2 * STEP - 7).map(byte).collect();
            let place = StorePlace { root: "s3://bucket".into(), store: Arc::new(InMemory::new()) };
            let object = put(&place, all.clone());
            let (mut reader, mut slice) = (object.open().within(from, end), io::Cursor::new(&all));
            slice.set_position(from);
            for (to, length, goes) in steps {
                if goes {
                    reader.move_to(to);
                    slice.set_position(to);
                }
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                (&mut reader).take(length as u64).read_to_end(&mut ours).expect("memory");
                (&mut slice).take(length as u64).read_to_end(&mut theirs).expect("memory");
                prop_assert!(ours == theirs, "{} bytes instead of {}", ours.len(), theirs.len());
            }
            put(&place, all);
            let error = object.open().read(&mut [0]).expect_err("another version").to_string();
            prop_assert!(error.contains("at byte 0") && error.contains("changed") && object.failure().is_some());
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let named = |text: &str| {
            let Address { name, is_folder, .. } =
                Address::of(Path::new(text)).map_err(|error| error.to_string())?;
            Ok::<_, String>((name.display().to_string(), is_folder))
        };
        for (text, name, is_folder) in [
            ("s3://b/a key/x?y#z%20.gz", "s3://b/a key/x?y#z%20.gz", false),
            ("s3://b//k", "s3://b/k", false),
            ("s3://b", "s3://b/", true),
            ("gs://b/k/", "gs://b/k", true),
            ("https://Server:443/a%20b/c", "https://server/a%20b/c", false),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/", true),
        ] {
            assert_eq!(named(text), Ok((name.to_owned(), is_folder)));
        }
        for text in
            ["a/b", "s3:/b", "s3:///k", "s3://b/a//k", "ftp://h/f", "http://", "http://h/f?q", "http://u@h/f"]
        {
            assert!(named(text).is_err(), "{text}");
        }
    }
}
