//! Parameters of single instructions: strings, and what serialises.
use crate::core::{choice::*, declare::tables};
tables! {
    string {
        /// Copy: start-up cycles before the first byte.
        movs_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Copy by bytes as measured: `[bytes, cycles, cycles if the destination is not aligned]`; none: start-up and rate.
        movsb_cycles: triples = Some(&[]),
        /// The same for copies by 8 bytes to multiples of 8.
        movsq_cycles: triples = Some(&[]),
        /// The same for copies by 8 bytes to other addresses; both figures are equal.
        movsq_odd_cycles: triples = Some(&[]),
        /// Fill by bytes as measured, as movsb_cycles.
        stosb_cycles: triples = Some(&[]),
        /// Fill by 8 bytes to multiples of 8, as movsq_cycles.
        stosq_cycles: triples = Some(&[]),
        /// The same for fills to other addresses.
        stosq_odd_cycles: triples = Some(&[]),
        /// Copy by bytes: cycles before the first byte, if more.
        movsb_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Copy: bytes per cycle.
        movs_rate: real[0.0..=4096.0] = Some(0.0),
        /// Copy: bytes per cycle if the destination is not aligned; 0: unknown.
        movs_rate_unaligned: real[0.0..=4096.0] = Some(0.0),
        /// Fill: start-up cycles before the first byte.
        stos_startup: real[0.0..=100_000.0] = Some(0.0),
        /// Fill: bytes per cycle.
        stos_rate: real[0.0..=4096.0] = Some(0.0),
        /// Fill: bytes per cycle if the destination is not aligned; 0: unknown.
        stos_rate_unaligned: real[0.0..=4096.0] = Some(0.0),
        /// Copy: extra cycles for each 64 bytes if a side is not aligned to the element's size.
        movs_odd_line_cycles: real[0.0..=200.0] = Some(0.0),
        /// The same for fills.
        stos_odd_line_cycles: real[0.0..=200.0] = Some(0.0),
        /// Sides of a copy whose alignment counts for that, and for movsq_odd_cycles.
        odd_side: word[Sides] = Some(Sides::Destination),
        /// Alignment of the destination that the rates above need, bytes.
        alignment: int[1..=64] = Some(32),
        /// End of the destination that has to be aligned: its `start`, or its `end` (after the last byte).
        aligned_at: word[Ends] = Some(Ends::Start),
        /// Whether alignments are those of the element that an address lies in.
        whole_elements: flag = Some(false),
        /// Copy by measured points, longer than `end_from`: cycles more where it ends at no multiple of `alignment`.
        movs_end_cycles: real[0.0..=1000.0] = Some(0.0),
        /// The same for fills.
        stos_end_cycles: real[0.0..=1000.0] = Some(0.0),
        /// Bytes beyond which a misaligned end takes those cycles; 0: beyond what takes the first point's cycles.
        end_from: int[0..=65_536] = Some(0),
        /// Whether the instructions after a string instruction are renamed only after these cycles.
        holds_rename: flag = Some(false),
        /// Bytes of an element from which it does so.
        hold_bytes: int[1..=8] = Some(1),
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
        /// Cycles of an AVX-SSE transition: upper halves of vector registers are saved before a legacy SSE instruction that writes a lower half, or restored before the next VEX instruction.
        avx_sse_transition: int[0..=10_000] = Some(0),
    }
}
