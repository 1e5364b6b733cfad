//! Parameters of single instructions: strings, and what serialises.
use crate::core::{choice::*, declare::tables};
tables! {
    string {
        /// Copy: cycles before the first byte.
        movs_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Copy by bytes as measured: `[bytes, cycles, cycles if the destination is not aligned]`; none: start-up and rate.
        movsb_cycles: triples = Some(&[]),
        /// The same of copies by 8 bytes to multiples of 8.
        movsq_cycles: triples = Some(&[]),
        /// The same of copies by 8 bytes to other places; both cycles are those.
        movsq_odd_cycles: triples = Some(&[]),
        /// Fill by bytes as measured, as movsb_cycles.
        stosb_cycles: triples = Some(&[]),
        /// Fill by 8 bytes to multiples of 8, as movsq_cycles.
        stosq_cycles: triples = Some(&[]),
        /// The same of fills to other places.
        stosq_odd_cycles: triples = Some(&[]),
        /// Copy by bytes: cycles before the first byte, if more.
        movsb_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Copy: bytes per cycle.
        movs_rate: real[0.0..=4096.0] = Some(0.0),
        /// Copy: bytes per cycle if the destination is not aligned; 0: unknown.
        movs_rate_unaligned: real[0.0..=4096.0] = Some(0.0),
        /// Fill: cycles before the first byte.
        stos_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Fill: bytes per cycle.
        stos_rate: real[0.0..=4096.0] = Some(0.0),
        /// Fill: bytes per cycle if the destination is not aligned; 0: unknown.
        stos_rate_unaligned: real[0.0..=4096.0] = Some(0.0),
        /// Copy: cycles more for each 64 bytes where a side is at no multiple of the element's size.
        movs_odd_line_cycles: real[0.0..=200.0] = Some(0.0),
        /// The same of fills.
        stos_odd_line_cycles: real[0.0..=200.0] = Some(0.0),
        /// Which sides of a copy count for that, and for movsq_odd_cycles.
        odd_side: word[Sides] = Some(Sides::Destination),
        /// Alignment of the destination that the plain rates need, bytes.
        alignment: int[1..=64] = Some(32),
        /// Where the destination needs it: at its `start`, or at its `end`, behind the last byte.
        aligned_at: word[Ends] = Some(Ends::Start),
        /// Whether alignments are those of the element that an address lies in.
        whole_elements: flag = Some(false),
        /// Copy by measured points, longer than those that take what the first one does: cycles more where it ends at no multiple of `alignment`.
        movs_end_cycles: real[0.0..=1000.0] = Some(0.0),
        /// The same of fills.
        stos_end_cycles: real[0.0..=1000.0] = Some(0.0),
        /// Whether what follows a string instruction is renamed no earlier than that many cycles behind it.
        holds_rename: flag = Some(false),
        /// Repetitions assumed where the call gives none.
        count: int[0..=u32::MAX] = Some(64),
        /// Destination address mod 64 assumed where the call gives none.
        destination: int[0..=63] = Some(0),
    }
    serial {
        /** Cycles of `stac` and of `clac`. */ stac_clac: int[0..=10_000] = Some(0),
        /** Cycles of `lfence` once the pipeline is empty. */ lfence: int[0..=10_000] = Some(0),
        /** Those of them that pass while what is before it still runs. */ lfence_overlap: int[0..=100] = Some(0),
        /** Cycles of `mfence`. */ mfence: int[0..=10_000] = Some(0),
    }
}
