//! Objects in stores and on web servers, read by ranges of bytes; [`put`] writes them.
//!
//! An object is pinned to the version in which it was found: every answer says its version and its length, and
//! one of another version is a failure. What fails is asked for again, with growing pauses; what still fails is
//! told with the address and the offset, and noted at the object ([`Object::failure`]), since it is no damage of
//! the object.
//!
//! Requests go through one runtime with threads of its own, so that whoever decodes waits for nothing but bytes
//! that are on their way.

mod put;

pub(crate) use put::Prefix;

use std::collections::{HashMap, VecDeque};
use std::error::Error as _;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{
    ClientOptions, Error as StoreError, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt,
};
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// Bytes of the first request of a reader: few, for those who want one record only.
const FIRST: u64 = 256 << 10;
/// Bytes of a request of those who go on.
const STEP: u64 = 4 << 20;
/// Requests under way at once.
const AHEAD: usize = 2;
/// Pieces that a reader keeps of what has come: the one that is read and the one before, for a look back.
const KEPT: usize = 2;
/// How often a body that breaks off is asked for again, beyond what `object_store` does of itself.
const TRIES: usize = 4;

/// What runs the requests.
fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        // Without it no connection by TLS can be made; another one may stand there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(2)
            .thread_name("stores")
            .enable_all()
            .build()
            .map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|error| io::Error::other(format!("requests cannot be made: {error}")))
}

/// A request under way. Dropped, it is given up.
#[derive(Debug)]
struct Request<T> {
    answer: mpsc::Receiver<io::Result<T>>,
    task: AbortHandle,
}

impl<T: Send + 'static> Request<T> {
    fn begin(work: impl Future<Output = io::Result<T>> + Send + 'static) -> io::Result<Self> {
        let (tell, answer) = mpsc::sync_channel(1);
        let task = runtime()?.spawn(async move {
            let _ = tell.send(work.await);
        });
        Ok(Self { answer, task: task.abort_handle() })
    }

    fn wait(self) -> io::Result<T> {
        self.answer.recv().unwrap_or_else(|_| Err(io::Error::other("the request was given up")))
    }
}

impl<T> Drop for Request<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    scheme: Scheme,
    /// The bucket or container; of a web server its scheme, name and port.
    place: String,
    /// The key; of a folder without the slash at its end.
    key: Key,
    is_folder: bool,
    /// On a web server, how it is written there; else empty.
    url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scheme {
    S3,
    Google,
    Azure,
    Web,
}

fn refuse(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

impl Address {
    fn of(path: &Path) -> io::Result<Self> {
        let text = path.to_str().ok_or_else(|| refuse("an address that is no UTF-8"))?;
        let Some((scheme, rest)) = text.split_once("://") else { return Err(refuse("no address")) };
        let scheme = match scheme {
            "s3" => Scheme::S3,
            "gs" => Scheme::Google,
            "az" => Scheme::Azure,
            "http" | "https" => return Self::of_web(text),
            _ => return Err(refuse("an address that is not read; s3, gs, az, http and https are")),
        };
        let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
        if place.is_empty() {
            return Err(refuse("an address without the name of a bucket"));
        }
        let is_folder = key.is_empty() || key.ends_with('/');
        let key = Key::parse(key).map_err(|error| refuse(format!("a key that is not read: {error}")))?;
        Ok(Self { scheme, place: place.to_owned(), key, is_folder, url: String::new() })
    }

    fn of_web(text: &str) -> io::Result<Self> {
        let url = reqwest::Url::parse(text).map_err(|error| refuse(format!("no address: {error}")))?;
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            let what = "an address with a query, a fragment or a password, which results would repeat; download \
                        the file, or give one without";
            return Err(refuse(what));
        }
        let key = Key::from_url_path(url.path()).map_err(|error| refuse(format!("no address: {error}")))?;
        let is_folder = url.path().ends_with('/');
        let place = url.origin().ascii_serialization();
        Ok(Self { scheme: Scheme::Web, place, key, is_folder, url: url.into() })
    }

    /// What names the object of this key, whichever way it was written.
    fn of_key(&self, key: &Key) -> PathBuf {
        let scheme = match self.scheme {
            Scheme::S3 => "s3://",
            Scheme::Google => "gs://",
            Scheme::Azure => "az://",
            Scheme::Web => return self.url.clone().into(),
        };
        format!("{scheme}{}/{key}", self.place).into()
    }

    /// The store of this address: one for each place, whose connections are used again.
    fn store(&self) -> io::Result<Arc<dyn ObjectStore>> {
        // It installs what connections need.
        runtime()?;
        self.open_store().map_err(|error| self.told(error))
    }

    fn open_store(&self) -> Result<Arc<dyn ObjectStore>, StoreError> {
        type Stores = HashMap<(Scheme, String), Arc<dyn ObjectStore>>;
        static STORES: OnceLock<Mutex<Stores>> = OnceLock::new();
        let mut stores = STORES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let name = (self.scheme, self.place.clone());
        if let Some(store) = stores.get(&name) {
            return Ok(store.clone());
        }
        let store: Arc<dyn ObjectStore> = match self.scheme {
            Scheme::S3 => Arc::new(AmazonS3Builder::from_env().with_bucket_name(&self.place).build()?),
            Scheme::Google => {
                Arc::new(GoogleCloudStorageBuilder::from_env().with_bucket_name(&self.place).build()?)
            }
            Scheme::Azure => {
                Arc::new(MicrosoftAzureBuilder::from_env().with_container_name(&self.place).build()?)
            }
            Scheme::Web => {
                let options = ClientOptions::new().with_allow_http(true);
                Arc::new(HttpBuilder::new().with_url(&self.place).with_client_options(options).build()?)
            }
        };
        stores.insert(name, store.clone());
        Ok(store)
    }

    /// What went wrong, with what can be done about it.
    fn told(&self, error: StoreError) -> io::Error {
        let (kind, advice) = match &error {
            StoreError::NotFound { .. } => (
                io::ErrorKind::NotFound,
                match self.scheme {
                    Scheme::Web => "there is nothing",
                    _ => "there is no such object; an address that ends in / names all below it",
                },
            ),
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
                (io::ErrorKind::PermissionDenied, self.credentials())
            }
            StoreError::NotSupported { .. } => {
                let advice = "the server does not answer requests for a part of a file; download it first";
                (io::ErrorKind::Unsupported, advice)
            }
            _ => (io::ErrorKind::Other, self.credentials()),
        };
        io::Error::new(kind, format!("{advice} ({})", chain(&error)))
    }

    /// Where keys and the like come from.
    fn credentials(&self) -> &'static str {
        match self.scheme {
            Scheme::S3 if std::env::var_os("AWS_ACCESS_KEY_ID").is_none() => {
                "the store does not answer as it should; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                 AWS_SKIP_SIGNATURE=true for a public bucket"
            }
            Scheme::S3 => {
                "the store does not answer as it should; see AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP=true \
                 for one without TLS, and the keys"
            }
            Scheme::Google => {
                "the store does not answer as it should; see GOOGLE_SERVICE_ACCOUNT, or \
                 GOOGLE_SKIP_SIGNATURE=true for a public bucket"
            }
            Scheme::Azure => {
                "the store does not answer as it should; see AZURE_STORAGE_ACCOUNT_NAME and \
                 AZURE_STORAGE_ACCOUNT_KEY, or AZURE_SKIP_SIGNATURE=true for a public container"
            }
            Scheme::Web => "the server does not answer as it should",
        }
    }
}

/// An error with all that led to it, of which some repeat their causes and others do not.
fn chain(error: &StoreError) -> String {
    /// Answers of servers may be long.
    const LONGEST: usize = 600;
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !told.contains(&more) {
            told = format!("{told}: {more}");
        }
        cause = error.source();
    }
    let mut words: String = told.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.len() > LONGEST {
        words.truncate(words.floor_char_boundary(LONGEST));
        words.push('…');
    }
    words
}

/// An object, as it was found.
pub(crate) struct Object {
    address: PathBuf,
    parts: Address,
    store: Arc<dyn ObjectStore>,
    length: u64,
    version: Version,
    failure: OnceLock<String>,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object").field("address", &self.address).finish_non_exhaustive()
    }
}

/// An ETag as answers have it. Lists of Azure have it without quotes.
fn quoted(tag: &str) -> String {
    if tag.ends_with('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

/// What tells one version of an object from another.
#[derive(Clone, Debug)]
struct Version {
    tag: Option<String>,
    /// In seconds, as answers have it; 0 where it is not told.
    modified: i64,
}

impl Version {
    fn of(found: &ObjectMeta) -> Self {
        Self { tag: found.e_tag.as_deref().map(quoted), modified: found.last_modified.timestamp() }
    }

    fn is(&self, other: &Self) -> bool {
        match (&self.tag, &other.tag) {
            (Some(tag), Some(other)) => tag == other,
            _ => self.modified == other.modified,
        }
    }
}

impl Object {
    fn new(parts: Address, store: Arc<dyn ObjectStore>, found: &ObjectMeta) -> Self {
        let address = parts.of_key(&found.location);
        let parts = Address { key: found.location.clone(), is_folder: false, ..parts };
        let (length, version) = (found.size, Version::of(found));
        Self { address, parts, store, length, version, failure: OnceLock::new() }
    }

    /// Asks for an object.
    ///
    /// # Errors
    /// If there is none, or the store does not answer.
    pub fn find(path: &Path) -> io::Result<Self> {
        let parts = Address::of(path)?;
        if parts.is_folder {
            return Err(refuse("a folder on a web server, whose files cannot be listed; name them"));
        }
        let store = parts.store()?;
        let found = Self::ask(&parts, &store)?;
        Ok(Self::new(parts, store, &found))
    }

    fn ask(parts: &Address, store: &Arc<dyn ObjectStore>) -> io::Result<ObjectMeta> {
        let (parts, store) = (parts.clone(), store.clone());
        Request::begin(async move { store.head(&parts.key).await.map_err(|error| parts.told(error)) })?.wait()
    }

    /// What names it: of two addresses of one object the same.
    pub fn address(&self) -> &Path {
        &self.address
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// A reader of it.
    ///
    /// # Errors
    /// None: nothing is asked for yet.
    pub fn open(self: &Arc<Self>) -> io::Result<Box<ObjectReader>> {
        Ok(Box::new(ObjectReader::new(self)))
    }

    /// Bytes that a reader holds at most.
    pub fn read_ahead(&self) -> u64 {
        (AHEAD + KEPT) as u64 * STEP.min(self.length)
    }

    /// Whether the store still has the version that was found.
    pub fn is_as_found(&self) -> bool {
        let found = Self::ask(&self.parts, &self.store);
        found.is_ok_and(|found| self.is(&found))
    }

    fn is(&self, found: &ObjectMeta) -> bool {
        found.size == self.length && self.version.is(&Version::of(found))
    }

    /// What names its version, if something does.
    pub fn version(&self) -> Option<String> {
        let modified = (self.version.modified != 0).then(|| self.version.modified.to_string());
        self.version.tag.clone().or(modified)
    }

    /// Why bytes of it could not be had, if some could not.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.get().map(|told| io::Error::other(told.clone()))
    }

    /// The first bytes, at most so many.
    pub fn head(self: &Arc<Self>, length: u64) -> io::Result<Vec<u8>> {
        match length.min(self.length) {
            0 => Ok(Vec::new()),
            length => Ok(self.noted(self.request(0..length)?.wait())?.into()),
        }
    }

    fn request(self: &Arc<Self>, range: Range<u64>) -> io::Result<Request<Bytes>> {
        let object = self.clone();
        Request::begin(async move { object.bytes(range).await })
    }

    /// Notes a failure.
    fn noted<T>(&self, got: io::Result<T>) -> io::Result<T> {
        got.inspect_err(|error| {
            self.failure.get_or_init(|| error.to_string());
        })
    }

    async fn bytes(&self, range: Range<u64>) -> io::Result<Bytes> {
        let at = |error: io::Error| io::Error::new(error.kind(), format!("at byte {}: {error}", range.start));
        let mut tries = 0;
        loop {
            tries += 1;
            let options =
                GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            let got = self.store.get_opts(&self.parts.key, options).await;
            let is_other = match &got {
                Ok(got) => !self.is(&got.meta),
                // As when it has become shorter than the place that is asked for.
                Err(_) => self.store.head(&self.parts.key).await.is_ok_and(|found| !self.is(&found)),
            };
            if is_other {
                return Err(at(io::Error::other("the object is not the one that was found; it was changed")));
            }
            let got = got.map_err(|error| at(self.parts.told(error)))?;
            let failed = match got.bytes().await {
                Ok(bytes) if bytes.len() as u64 == range.end - range.start => return Ok(bytes),
                Ok(bytes) => io::Error::other(format!(
                    "{} bytes came instead of {}",
                    bytes.len(),
                    range.end - range.start
                )),
                Err(error) => self.parts.told(error),
            };
            if tries == TRIES {
                let told = format!("{failed}; given up after {TRIES} tries");
                return Err(at(io::Error::new(failed.kind(), told)));
            }
            tokio::time::sleep(std::time::Duration::from_millis(100 << tries)).await;
        }
    }
}

/// Whether an address names all that is below it.
pub(crate) fn is_folder(path: &Path) -> bool {
    Address::of(path).is_ok_and(|address| address.is_folder && address.scheme != Scheme::Web)
}

/// All objects below an address.
///
/// # Errors
/// If the store does not answer, or there are none.
pub(crate) fn list(path: &Path) -> io::Result<Vec<Object>> {
    let parts = Address::of(path)?;
    let store = parts.store()?;
    let found = below(&parts, &store)?;
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no object below this address"));
    }
    Ok(found.iter().map(|found| Object::new(parts.clone(), store.clone(), found)).collect())
}

/// What is below an address.
fn below(parts: &Address, store: &Arc<dyn ObjectStore>) -> io::Result<Vec<ObjectMeta>> {
    let mut found: Vec<ObjectMeta> = {
        let (parts, store) = (parts.clone(), store.clone());
        let prefix = (!parts.key.as_ref().is_empty()).then(|| parts.key.clone());
        Request::begin(async move {
            store.list(prefix.as_ref()).try_collect().await.map_err(|error| parts.told(error))
        })?
        .wait()?
    };
    // Some programs put an empty object where a file system has a folder.
    let folders: std::collections::HashSet<String> = found
        .iter()
        .filter_map(|object| object.location.as_ref().rsplit_once('/'))
        .map(|(folder, _)| folder.to_owned())
        .collect();
    let is_folder = |object: &ObjectMeta| {
        object.location == parts.key || object.size == 0 && folders.contains(object.location.as_ref())
    };
    found.retain(|object| !is_folder(object));
    Ok(found)
}

/// A piece of an object that was asked for.
#[derive(Debug)]
struct Coming {
    range: Range<u64>,
    request: Request<Bytes>,
}

/// Reads an object from any place on. Who goes on reading has the next pieces under way.
#[derive(Debug)]
pub(crate) struct ObjectReader {
    object: Arc<Object>,
    at: u64,
    /// How far it is read ahead: nobody has asked for more yet.
    end: u64,
    /// Bytes of the next request.
    step: u64,
    /// Pieces that are here, with where they start.
    here: VecDeque<(u64, Bytes)>,
    /// Pieces that are under way, one behind the other.
    coming: VecDeque<Coming>,
}

impl ObjectReader {
    fn new(object: &Arc<Object>) -> Self {
        let (object, end) = (object.clone(), object.length);
        Self { object, at: 0, end, step: FIRST, here: VecDeque::new(), coming: VecDeque::new() }
    }

    /// Another reader of the same object, for someone who is going to read these bytes of it.
    ///
    /// # Errors
    /// None: nothing is asked for yet.
    pub fn within(&self, from: u64, end: u64) -> io::Result<Box<Self>> {
        let end = end.min(self.object.length);
        Ok(Box::new(Self { at: from, end, step: STEP, ..Self::new(&self.object) }))
    }

    pub fn length(&self) -> u64 {
        self.object.length
    }

    /// Asks for the piece that starts there.
    fn ask(&mut self, start: u64) -> io::Result<()> {
        let (end, length) = (self.end, self.object.length);
        // Behind the end somebody wants a few bytes after all.
        let length = if start < end { self.step.min(end - start) } else { FIRST.min(length - start) };
        let range = start..start + length;
        let request = self.object.request(range.clone())?;
        self.coming.push_back(Coming { range, request });
        self.step = (4 * self.step).min(STEP);
        Ok(())
    }

    /// Sees to it that the next pieces are under way.
    fn ask_ahead(&mut self) -> io::Result<()> {
        while self.coming.len() < AHEAD {
            let next = match (self.coming.back(), self.here.back()) {
                (Some(last), _) => last.range.end,
                (None, Some((start, bytes))) => start + bytes.len() as u64,
                (None, None) => self.at,
            };
            if next >= self.end {
                break;
            }
            self.ask(next)?;
        }
        Ok(())
    }

    /// Waits for the piece with the byte that is read next.
    fn load(&mut self) -> io::Result<()> {
        let at = self.at;
        // What was asked for in vain.
        while self.coming.front().is_some_and(|piece| piece.range.end <= at) {
            self.coming.pop_front();
        }
        if self.coming.front().is_none_or(|piece| at < piece.range.start) {
            let near = |(start, bytes): &(u64, Bytes)| at.abs_diff(start + bytes.len() as u64) <= STEP;
            if !self.here.back().is_some_and(near) && !self.here.is_empty() {
                self.step = FIRST;
            }
            self.coming.clear();
            self.ask(at)?;
        }
        if let Some(Coming { range, request }) = self.coming.pop_front() {
            let bytes = request.wait()?;
            if self.here.len() == KEPT {
                self.here.pop_front();
            }
            self.here.push_back((range.start, bytes));
        }
        Ok(())
    }
}

impl Read for ObjectReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.object.length || into.is_empty() {
            return Ok(0);
        }
        loop {
            let at = self.at;
            let has = |(start, bytes): &&(u64, Bytes)| (*start..start + bytes.len() as u64).contains(&at);
            let Some((start, bytes)) = self.here.iter().rev().find(has) else {
                let loaded = self.load();
                self.object.clone().noted(loaded)?;
                continue;
            };
            let rest = &bytes[(at - start) as usize..];
            let n = rest.len().min(into.len());
            into[..n].copy_from_slice(&rest[..n]);
            let is_far = (at - start) as usize + n > bytes.len() / 2;
            self.at += n as u64;
            // Who has read half of a piece goes on.
            if is_far {
                let asked = self.ask_ahead();
                self.object.clone().noted(asked)?;
            }
            return Ok(n);
        }
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::End(by) => self.object.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or_else(|| refuse("a place before the start"))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use object_store::{PutMode, PutOptions};
    use proptest::prelude::*;

    fn put(store: &Arc<dyn ObjectStore>, bytes: Vec<u8>) {
        let store = store.clone();
        let put = async move {
            let options = PutOptions { mode: PutMode::Overwrite, ..PutOptions::default() };
            let put = store.put_opts(&Key::from("a/key"), bytes.into(), options).await;
            put.map(drop).map_err(io::Error::other)
        };
        Request::begin(put).and_then(Request::wait).expect("memory");
    }

    fn object(bytes: Vec<u8>) -> (Arc<dyn ObjectStore>, Arc<Object>) {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, bytes);
        let parts = Address::of(Path::new("s3://bucket/a/key")).expect("an address");
        let found = Object::ask(&parts, &store).expect("an object");
        (store.clone(), Arc::new(Object::new(parts, store, &found)))
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    /// Somewhere to go, and how much to read there.
    fn steps() -> impl Strategy<Value = Vec<(u64, usize, bool)>> {
        let length = 3 * STEP + 77_777;
        let to = prop_oneof![0..length, Just(0), (0u64..4).prop_map(|at| at * FIRST), 0..FIRST];
        let read = prop_oneof![0..2000usize, (0..3 * STEP as usize)];
        proptest::collection::vec((to, read, any::<bool>()), 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn reads_what_a_slice_reads(steps in steps(), part in proptest::option::of((0..8 * FIRST, 0..STEP))) {
            let all = bytes(3 * STEP as usize + 7);
            let (_store, object) = object(all.clone());
            let mut reader = object.open().expect("a reader");
            let mut slice = io::Cursor::new(&all);
            if let Some((from, length)) = part {
                reader = reader.within(from, from + length).expect("a reader");
                slice.set_position(from);
            }
            for (to, length, goes) in steps {
                if goes {
                    prop_assert_eq!(reader.seek(SeekFrom::Start(to)).ok(), slice.seek(SeekFrom::Start(to)).ok());
                }
                let (mut ours, mut theirs) = (Vec::new(), Vec::new());
                (&mut reader).take(length as u64).read_to_end(&mut ours).expect("memory");
                (&mut slice).take(length as u64).read_to_end(&mut theirs).expect("memory");
                prop_assert!(ours == theirs, "{} bytes instead of {}", ours.len(), theirs.len());
                let held: usize = reader.here.iter().map(|(_, bytes)| bytes.len()).sum();
                let coming: u64 = reader.coming.iter().map(|piece| piece.range.end - piece.range.start).sum();
                prop_assert!(held as u64 + coming <= object.read_ahead());
            }
            prop_assert!(object.failure().is_none());
        }
    }

    #[test]
    fn tags_are_the_same_with_quotes_and_without() {
        let of = |tag: Option<&str>, modified: i64| Version { tag: tag.map(quoted), modified };
        // As Azure lists one, and as it answers.
        assert!(of(Some("0x8D"), 1).is(&of(Some("\"0x8D\""), 2)));
        assert!(!of(Some("0x8D"), 1).is(&of(Some("\"0x8E\""), 1)));
        assert_eq!(quoted("W/\"5\""), "W/\"5\"");
        assert!(of(None, 1).is(&of(Some("0x8D"), 1)) && !of(None, 1).is(&of(None, 2)));
    }

    #[test]
    fn another_version_is_a_failure() {
        let (store, object) = object(bytes(1000));
        assert!(object.is_as_found());
        let mut reader = object.open().expect("a reader");
        put(&store, bytes(1000).into_iter().rev().collect());
        assert!(!object.is_as_found());
        let error = reader.read_to_end(&mut Vec::new()).expect_err("another version");
        assert!(error.to_string().contains("at byte 0") && error.to_string().contains("changed"), "{error}");
        assert!(object.failure().is_some());
    }

    #[test]
    fn addresses_are_taken_apart() {
        let of = |text: &str| Address::of(Path::new(text)).map_err(|error| error.to_string());
        let named = |text: &str| {
            let address = of(text)?;
            Ok::<_, String>((address.of_key(&address.key).display().to_string(), address.is_folder))
        };
        for (text, name, is_folder) in [
            ("s3://b/a key/x?y#z%20.gz", "s3://b/a key/x?y#z%20.gz", false),
            ("s3://b//k", "s3://b/k", false),
            ("s3://b", "s3://b/", true),
            ("gs://b/k/", "gs://b/k", true),
            ("az://c/k", "az://c/k", false),
            ("HTTPS://Server:443/a%20b/c", "https://server/a%20b/c", false),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/", true),
        ] {
            assert_eq!(named(&text.replace("HTTPS", "https")), Ok((name.to_owned(), is_folder)));
        }
        for text in [
            "",
            "a/b",
            "s3:/b",
            "s3://",
            "s3:///k",
            "s3://b/a//k",
            "ftp://h/f",
            "http://",
            "http://h/f?q",
            "http://u@h/f",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
