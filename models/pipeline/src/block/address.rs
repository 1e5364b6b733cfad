//! Addresses as far as they are known: unknown values plus constants.

/// A register's value: an unknown one plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abstract {
    /// The number of the unknown value.
    pub root: u32,
    /// Constant.
    pub offset: i64,
}

/// The address of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub base: Abstract,
    pub index: Abstract,
    pub scale: u8,
    pub disp: i64,
}

impl Key {
    /// The constant part of the address.
    pub(crate) fn constant(&self) -> i64 {
        let index = self.index.offset.wrapping_mul(i64::from(self.scale));
        self.disp.wrapping_add(index)
    }

    /// Whether two addresses differ by a constant alone.
    pub(crate) fn alike(&self, other: &Key) -> bool {
        let unknown = |k: &Key| (k.base.root, k.index.root, k.scale);
        unknown(self) == unknown(other)
    }
}
