//! Files that are put into a store, below an address.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use tokio::io::AsyncWriteExt;

use super::{Address, Object, StorePlace, refuse, store_error, wait};

/// Bytes of a part of a large object; a smaller object goes in one request.
const PART: u64 = 8 << 20;
/// Parts that an object has at most: stores end at 10,000.
const PARTS: u64 = 9_000;
/// Bytes of parts that are under way, unless one has more.
const UNDER_WAY: u64 = 32 << 20;

/// An address below which files are put.
pub(crate) struct Prefix {
    place: StorePlace,
    above: Key,
}

impl Prefix {
    /// Takes the address of a store that is written to, and asks nothing of the store yet.
    pub fn of(path: &Path) -> io::Result<Self> {
        let address = Address::of(path)?;
        if address.is_web() {
            let what = "an address on a web server, where nothing is put; s3, gs and az have stores";
            return Err(refuse(what));
        }
        Ok(Self { place: StorePlace::of(&address.root)?, above: address.key })
    }

    fn key(&self, name: &str) -> io::Result<Key> {
        let key = Key::parse(format!("{}/{name}", self.above));
        key.map_err(|error| refuse(format!("{name}: no name for an object: {error}")))
    }

    /// The address of an object below, if one may be called so.
    pub fn address_of(&self, name: &str) -> io::Result<PathBuf> {
        Ok(format!("{}/{}", self.place.root, self.key(name)?).into())
    }

    /// The objects below the address, by name, with their lengths.
    pub fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let name = |key: &Key| {
            let name = key.as_ref().strip_prefix(self.above.as_ref()).unwrap_or(key.as_ref());
            name.trim_start_matches('/').to_owned()
        };
        let found = self.place.below(&self.above)?;
        Ok(found.iter().map(|object| (name(&object.location), object.size)).collect())
    }

    /// The first bytes of an object, at most so many.
    pub fn head_of(&self, name: &str, length: u64) -> io::Result<Vec<u8>> {
        Arc::new(Object::find(&self.address_of(name)?)?).head(length)
    }

    /// Tries to write, and leaves nothing: an upload is begun and given up.
    pub fn try_out(&self) -> io::Result<()> {
        let (store, key) = (&self.place.store, self.key("report.json")?);
        self.place.wait(async {
            let mut upload = store.put_multipart(&key).await?;
            let tried = upload.put_part(Bytes::from_static(b"tried out").into()).await;
            let _ = upload.abort().await;
            tried
        })
    }

    /// Puts a file there. `advance` hears of the bytes that are on their way. Where it fails there is no such object,
    /// or the one that was there before.
    pub fn put(&self, name: &str, path: &Path, advance: &dyn Fn(u64)) -> io::Result<()> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let part = PART.max(length.div_ceil(PARTS));
        let (StorePlace { root, store }, key) = (&self.place, self.key(name)?);
        let writer = BufWriter::with_capacity(store.clone(), key.clone(), part as usize);
        let mut writer = writer.with_max_concurrency((UNDER_WAY / part).max(1) as usize);
        wait(async {
            let mut left = length;
            while left > 0 {
                let mut bytes = vec![0; part.min(left) as usize];
                let sent = match file.read_exact(&mut bytes) {
                    Ok(()) => writer.put(bytes.into()).await.map_err(|error| store_error(root, &error)),
                    Err(error) => Err(error),
                };
                if let Err(error) = sent {
                    // Where that fails, too, the parts stay until the store's own rule takes them away.
                    let _ = writer.abort().await;
                    return Err(error);
                }
                advance(part.min(left));
                left -= part.min(left);
            }
            let Err(error) = writer.shutdown().await else { return Ok(()) };
            // An answer may be lost on its way, and who asks again hears that there is no such upload.
            match store.head(&key).await {
                Ok(found) if found.size == length => Ok(()),
                _ => Err(error.downcast().map_or_else(|error| error, |error| store_error(root, &error))),
            }
        })?
    }

    /// Removes an object. That it is gone already is no failure.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match self.place.wait(self.place.store.delete(&self.key(name)?)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}
