//! Files that are put into a store, below an address.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt};

use super::{Address, Object, Request, Scheme, TRIES, below, refuse};

/// Bytes of a part of a large object; a smaller object goes in one request.
const PART: u64 = 8 << 20;
/// Parts that an object has at most: stores end at 10,000.
const PARTS: u64 = 9_000;
/// Bytes of parts that are under way, unless one has more.
const UNDER_WAY: u64 = 32 << 20;

/// An address below which files are put.
pub(crate) struct Prefix {
    parts: Address,
    store: Arc<dyn ObjectStore>,
}

impl Prefix {
    /// # Errors
    /// If it is no address of a store that is written to. Nothing is asked of the store yet.
    pub fn of(path: &Path) -> io::Result<Self> {
        let parts = Address::of(path)?;
        if parts.scheme == Scheme::Web {
            return Err(refuse(
                "an address on a web server, where nothing is put; s3, gs and az have stores",
            ));
        }
        let store = parts.store()?;
        Ok(Self { parts, store })
    }

    fn key(&self, name: &str) -> io::Result<Key> {
        let above = self.parts.key.as_ref();
        let key = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        Key::parse(key).map_err(|error| refuse(format!("{name}: no name for an object: {error}")))
    }

    /// What names an object below.
    ///
    /// # Errors
    /// If no object may be called so.
    pub fn address(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.parts.of_key(&self.key(name)?))
    }

    /// What is there, by names below the address, with lengths.
    ///
    /// # Errors
    /// If the store does not answer.
    pub fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let above = self.parts.key.as_ref();
        let name = |key: &Key| {
            let name = key.as_ref().strip_prefix(above).unwrap_or(key.as_ref());
            name.strip_prefix('/').unwrap_or(name).to_owned()
        };
        let found = below(&self.parts, &self.store)?;
        Ok(found.iter().map(|object| (name(&object.location), object.size)).collect())
    }

    /// The first bytes of an object, at most so many.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn head(&self, name: &str, length: u64) -> io::Result<Vec<u8>> {
        Arc::new(Object::find(&self.address(name)?)?).head(length)
    }

    /// Tries to write, and leaves nothing: an upload is begun and given up.
    ///
    /// # Errors
    /// If it may not be.
    pub fn try_out(&self) -> io::Result<()> {
        let mut upload = self.begin("report.json")?;
        let part = upload.put_part(Bytes::from_static(b"tried out").into());
        let tried = self.wait(part);
        self.abort(upload);
        tried
    }

    /// Puts a file there. `advance` hears of the bytes that are there.
    ///
    /// # Errors
    /// If it cannot be read or put. Then there is no such object, or the one that was there before.
    pub fn put(&self, name: &str, path: &Path, advance: &dyn Fn(u64)) -> io::Result<()> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        if length <= PART {
            let (store, key) = (self.store.clone(), self.key(name)?);
            let bytes = piece(&mut file, length)?;
            self.wait(async move { store.put(&key, bytes.into()).await.map(drop) })?;
            advance(length);
            return Ok(());
        }
        let mut upload = self.begin(name)?;
        if let Err(error) = self.put_parts(&mut *upload, &mut file, length, advance) {
            self.abort(upload);
            return Err(error);
        }
        let (upload, done) = self.wait(async move {
            let done = upload.complete().await;
            Ok((upload, done))
        })?;
        let Err(error) = done else { return Ok(()) };
        // An answer may be lost on its way, and who asks again is told that there is no such upload.
        let (store, key) = (self.store.clone(), self.key(name)?);
        let found = self.wait(async move { store.head(&key).await });
        if found.is_ok_and(|found| found.size == length) {
            return Ok(());
        }
        self.abort(upload);
        Err(told_of_put(&self.parts, error))
    }

    fn put_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        file: &mut File,
        length: u64,
        advance: &dyn Fn(u64),
    ) -> io::Result<()> {
        let part = PART.max(length.div_ceil(PARTS));
        let most = (UNDER_WAY / part).max(1) as usize;
        let mut under_way: VecDeque<(u64, Request<()>)> = VecDeque::new();
        let mut left = length;
        while left > 0 || !under_way.is_empty() {
            if (left == 0 || under_way.len() == most)
                && let Some((bytes, request)) = under_way.pop_front()
            {
                request.wait()?;
                advance(bytes);
                continue;
            }
            let bytes = part.min(left);
            let work = upload.put_part(piece(file, bytes)?.into());
            under_way.push_back((bytes, self.request(work)?));
            left -= bytes;
        }
        Ok(())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// If it cannot be removed. One that is gone already is none.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let key = self.key(name)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let (store, key) = (self.store.clone(), key.clone());
            match self.wait(async move { store.delete(&key).await }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // A request of this kind is not made again by itself where the connection breaks.
                Err(_) if tries < TRIES => std::thread::sleep(Duration::from_millis(100 << tries)),
                done => return done,
            }
        }
    }

    fn begin(&self, name: &str) -> io::Result<Box<dyn MultipartUpload>> {
        let (store, key) = (self.store.clone(), self.key(name)?);
        self.wait(async move { store.put_multipart(&key).await })
    }

    /// Gives an upload up. Where that fails, too, its parts stay until the store's own rule takes them away.
    fn abort(&self, mut upload: Box<dyn MultipartUpload>) {
        let _ = self.wait(async move { upload.abort().await });
    }

    fn request<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<Request<T>> {
        let parts = self.parts.clone();
        Request::begin(async move { work.await.map_err(|error| told_of_put(&parts, error)) })
    }

    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> io::Result<T> {
        self.request(work)?.wait()
    }
}

/// What went wrong where something was to be put. There an object that is not there is no mistake of the address.
fn told_of_put(parts: &Address, error: StoreError) -> io::Error {
    match &error {
        StoreError::NotFound { .. } => {
            let told = format!("is there no such bucket? ({})", super::chain(&error));
            io::Error::new(io::ErrorKind::NotFound, told)
        }
        _ => parts.told(error),
    }
}

/// The next bytes of a file.
fn piece(file: &mut File, length: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::Error::other("the file has become shorter while it was read"));
    }
    Ok(bytes.into())
}
