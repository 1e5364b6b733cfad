//! A store between retirement and the cache.

use crate::engine::fingerprint::Fingerprint;

/// A store on its way into the cache.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its number in the block.
    pub store: u16,
    /// Of the block.
    pub iteration: u32,
}

impl Entry {
    /// Tell which one it is.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.store) << 32 | into.ahead(self.iteration));
    }
}
