//! Bytes that hold a part of a bounded memory until their last clone is gone.

use axum::body::Bytes;

struct Held<P> {
    bytes: Vec<u8>,
    _part: P,
}

impl<P> AsRef<[u8]> for Held<P> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes; `part` is given back with their last clone.
pub fn holding<P: Send + Sync + 'static>(bytes: Vec<u8>, part: P) -> Bytes {
    Bytes::from_owner(Held { bytes, _part: part })
}
