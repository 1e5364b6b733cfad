//! Code that is analysed by itself.

use std::collections::BTreeMap;

/// Code that is analysed by itself.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Name that its marker gives it.
    pub name: String,
    /// Machine code.
    pub code: Vec<u8>,
    /// Address of its first byte in its section.
    pub address: u64,
    /// Names of places in it, by their distance in bytes from its first byte.
    pub labels: BTreeMap<i64, String>,
}
