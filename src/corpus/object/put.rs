//! Files that are put into a store.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use object_store::path::Path as Key;
use tokio::io::AsyncWriteExt;

use super::{Address, StorePlace, refuse, store_error, wait};

/// Bytes of a part of a large object; a smaller object goes in one request.
const PART: u64 = 8 << 20;
/// Parts that an object has at most: stores end at 10,000.
const PARTS: u64 = 9_000;
/// Bytes of parts that are under way, unless one has more.
const UNDER_WAY: u64 = 32 << 20;

/// The address of an object in a store that is to be written, replaced or removed.
pub(crate) struct PutTarget {
    place: StorePlace,
    key: Key,
}

impl PutTarget {
    /// The target at an address; an error for one on a web server. The store is asked for nothing yet.
    pub fn of(path: &Path) -> io::Result<Self> {
        let address = Address::of(path)?;
        if address.is_web() {
            let what = "an address on a web server, where nothing is put; s3, gs and az have stores";
            return Err(refuse(what));
        }
        Ok(Self { place: StorePlace::of(&address.root)?, key: address.key })
    }

    /// Checks that the store lets the object be written, and leaves nothing: an upload is begun and given up.
    pub fn try_out(&self) -> io::Result<()> {
        self.place.wait(async {
            let mut upload = self.place.store.put_multipart(&self.key).await?;
            let tried = upload.put_part(Bytes::from_static(b"tried out").into()).await;
            let _ = upload.abort().await;
            tried
        })
    }

    /// Writes the content of the file at `path` to the object. `advance` gets the number of bytes of each part that is
    /// sent. After an error there is no object, or the one that was there before.
    pub fn put(&self, path: &Path, advance: &dyn Fn(u64)) -> io::Result<()> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let part = PART.max(length.div_ceil(PARTS));
        let (StorePlace { root, store }, key) = (&self.place, &self.key);
        let writer = BufWriter::with_capacity(store.clone(), key.clone(), part as usize);
        let mut writer = writer.with_max_concurrency((UNDER_WAY / part).max(1) as usize);
        let refusal =
            |error: io::Error| error.downcast().map_or_else(|error| error, |error| store_error(root, &error));
        wait(async {
            let sent = async {
                for at in (0..length).step_by(part as usize) {
                    let mut bytes = vec![0; part.min(length - at) as usize];
                    file.read_exact(&mut bytes)?;
                    writer.put(bytes.into()).await?;
                    advance(part.min(length - at));
                }
                Ok(())
            };
            if let Err(error) = sent.await {
                // If the abort fails too, the parts stay until the store's own rule deletes them.
                let _ = writer.abort().await;
                return Err(refusal(error));
            }
            let Err(error) = writer.shutdown().await else { return Ok(()) };
            // An answer may be lost on its way, and who asks again hears that there is no such upload.
            match store.head(key).await {
                Ok(found) if found.size == length => Ok(()),
                _ => Err(refusal(error)),
            }
        })?
    }

    /// Removes the object. A missing one is no error.
    pub fn remove(&self) -> io::Result<()> {
        match self.place.wait(self.place.store.delete(&self.key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}
