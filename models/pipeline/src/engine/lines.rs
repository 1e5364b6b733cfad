//! Lines of the cache that are written at new addresses.

use crate::engine::fingerprint::Fingerprint;

/// Bytes of a line.
const LINE: u32 = 64;

/// What loads and stores pause for lines that fill.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Thousandths of a cycle for each line.
    each: u32,
    /// Bytes written to a line that is not full yet.
    written: u32,
    /// Thousandths of a cycle that full lines still owe.
    owed: u32,
}

impl Lines {
    /// Lines that each take some cycles, 0: they are not followed.
    pub fn new(cycles: f64) -> Lines {
        Lines {
            each: (1000.0 * cycles).round() as u32,
            written: 0,
            owed: 0,
        }
    }

    /// Cycles to pause for each line that so many bytes more fill.
    pub fn write(&mut self, bytes: u32) -> impl Iterator<Item = u32> + '_ {
        self.written += if self.each > 0 { bytes } else { 0 };
        std::iter::from_fn(move || {
            self.written = self.written.checked_sub(LINE)?;
            self.owed += self.each;
            let pause = self.owed / 1000;
            self.owed %= 1000;
            Some(pause)
        })
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.written));
        into.add(u64::from(self.owed));
    }
}
