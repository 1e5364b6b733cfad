//! The memory access of a form of AArch64, found by words that differ in one field.

use crate::isa::arm64::work::BASE;
use crate::isa::inst::{Decoded, Effect};

/// Lowest bits and widths of the fields that a displacement may stand in.
const FIELDS: [(u32, u32); 3] = [(10, 12), (12, 9), (15, 7)];

/// The field of a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displacement {
    /// Its lowest bit.
    pub low: u32,
    /// Its bits.
    pub width: u32,
    /// Bytes for each that it counts.
    pub step: i64,
    /// It counts below zero, too.
    pub signed: bool,
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bytes.
    pub bytes: u16,
    /// Is loaded.
    pub read: bool,
    /// Is stored.
    pub write: bool,
    /// The base is written.
    pub moves: bool,
    /// Bytes that the base moves on by.
    pub by: i64,
    /// The field of the displacement; none where there is none, or the base is written.
    pub displacement: Option<Displacement>,
}

/// Return a word of the same form as a given one that accesses the place its base points to, leaves
/// the base there if any such word does, and what it accesses; none where that is not known.
///
/// computes says what a word does.
pub fn accessed(word: u32, computes: impl Fn(u32) -> Option<Decoded>) -> Option<(u32, Access)> {
    let d = computes(word)?;
    let moves = d.writes.iter().any(|w| w.0 == BASE);
    let found = FIELDS.iter().find_map(|&(low, width)| {
        let mask = ((1 << width) - 1) << low;
        let named = |value: u32| computes(word & !mask | value << low).filter(|other| other.form == d.form);
        let (zero, one, most) = (named(0)?, named(1)?, named((1 << width) - 1)?);
        let same = zero.reads == one.reads && zero.writes == one.writes;
        let (none, step) = (place(&zero)?, place(&one)?);
        let field = Displacement {
            low,
            width,
            step,
            signed: place(&most)? < 0,
        };
        (same && none == 0 && step > 0).then_some((word & !mask, field))
    });
    let (word, field) = found.map_or((word, None), |(word, field)| (word, Some(field)));
    let d = computes(word)?;
    let [mem] = d.mems[..] else {
        return None;
    };
    let access = Access {
        bytes: mem.bytes,
        read: mem.read,
        write: mem.write,
        moves,
        by: if moves { place(&d)? } else { 0 },
        displacement: field.filter(|_| !moves),
    };
    (mem.disp == 0).then_some((word, access))
}

/// The address that an instruction accesses or moves its base to; none where unknown.
fn place(d: &Decoded) -> Option<i64> {
    if !d.writes.iter().any(|w| w.0 == BASE) {
        return d.mems.first().map(|mem| mem.disp);
    }
    d.effects.iter().find_map(|effect| match effect {
        Effect::Offset { add, .. } => Some(*add),
        Effect::Zero { .. } => None,
    })
}
