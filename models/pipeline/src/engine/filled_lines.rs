//! Lines of the cache that are written at new addresses.

use crate::core::params::memory;
use crate::engine::fingerprint::Fingerprint;

/// Pauses of loads and stores while lines are filled.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Bytes of a line.
    bytes: u32,
    /// Thousandths of a cycle for each line.
    each: u32,
    /// Bytes written to a line that is not full yet.
    written: u32,
    /// Thousandths of a cycle that full lines still owe.
    owed: u32,
}

impl Lines {
    /// Lines of a core; they are not followed where they take no cycles.
    pub fn new(p: &memory) -> Lines {
        Lines {
            bytes: p.line_bytes,
            each: (1000.0 * p.stream_line_cycles).round() as u32,
            written: 0,
            owed: 0,
        }
    }

    /// Cycles to pause for each line that so many bytes more fill.
    pub fn write(&mut self, bytes: u32) -> impl Iterator<Item = u32> + '_ {
        self.written += if self.each > 0 { bytes } else { 0 };
        std::iter::from_fn(move || {
            self.written = self.written.checked_sub(self.bytes)?;
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
