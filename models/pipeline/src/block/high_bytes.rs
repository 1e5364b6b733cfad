//! High bytes of registers (`ah`), which rename knows apart, and the uops that merge them.

use crate::block::builder::Builder;
use crate::isa::inst::{Decoded, Reg, HIGH};
use std::borrow::Cow;

impl Builder<'_> {
    /// The instruction with high bytes as registers of their own, and the registers to be merged before it.
    ///
    /// A high byte is apart from its write on, until more than the low byte of the register is read or written.
    pub(crate) fn high_bytes<'d>(&mut self, d: &'d Decoded) -> (Cow<'d, Decoded>, Vec<Reg>) {
        if self.params.rename.high_byte_merge.is_empty() {
            return (Cow::Borrowed(d), Vec::new());
        }
        let merged = self.high_apart & d.whole_reads;
        self.high_apart &= !(d.whole_reads | d.whole_writes);
        let merges = (0..4).filter(|reg| merged >> reg & 1 != 0).collect();
        if d.high.is_empty() {
            return (Cow::Borrowed(d), merges);
        }
        let mut out = d.clone();
        for byte in &d.high {
            let own = (byte.label, byte.reg);
            let apart = HIGH + byte.reg;
            if byte.read {
                let from = if self.high_apart >> byte.reg & 1 != 0 {
                    apart
                } else {
                    byte.reg
                };
                out.reads.iter_mut().filter(|r| **r == own).for_each(|r| r.1 = from);
            } else {
                out.reads.retain(|r| *r != own);
            }
            if byte.written {
                out.writes.iter_mut().filter(|w| **w == own).for_each(|w| w.1 = apart);
            }
        }
        for byte in d.high.iter().filter(|byte| byte.written) {
            self.high_apart |= 1 << byte.reg;
        }
        (Cow::Owned(out), merges)
    }
}
