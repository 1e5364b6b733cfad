//! Fetch and decode: parameters of what comes before the queue in front of rename.
use crate::core::{choice::*, declare::tables};
tables! {
    front_end {
        /// `real`, or `ideal`: the queue in front of rename is always full.
        mode: word[Mode] = Some(Mode::Real),
        /// `predecoded` or `blocks`.
        fetch: word[FetchKind] = None,
    }
    predecode {
        /// Bytes of an aligned block handled per cycle.
        block_bytes: int[4..=64] = Some(16),
        /// Instructions per cycle.
        width: int[1..=64] = Some(5),
        /// Entries of the instruction queue after predecode.
        queue: int[1..=4096] = Some(20),
        /// Cycles until an instruction can be decoded.
        delay: int[0..=100] = Some(3),
        /// Stall of a length-changing prefix, cycles.
        lcp_cycles: int[0..=100] = Some(3),
        /// Stall when a full group is followed by an instruction that crosses the block.
        cross_cycles: int[0..=100] = Some(1),
    }
    fetch {
        /** Bytes of an aligned block fetched per cycle. */ block_bytes: int[4..=64] = Some(32),
        /** Fetched instructions that wait for decode. */ queue: int[1..=4096] = Some(16),
        /** Lost cycles of a taken branch. */ taken_bubble: int[0..=100] = Some(0),
    }
    decode {
        /// Instructions per cycle.
        width: int[1..=64] = Some(4),
        /// Whether an instruction that could fuse may use the last decoder.
        fusible_last: flag = Some(false),
        /// Pop of rsp or r12: `any` decoder, the `first` of a group, or it is `alone` from there on.
        pop_r12: word[PopR12] = Some(PopR12::Any),
        /// Whether a branch ends the group of a cycle.
        branch_ends: flag = Some(true),
        /// Cycles lost by the switch to the microcode sequencer and back.
        microcode_cycles: int[0..=100] = Some(2),
        /// Uops that the microcode sequencer emits per cycle.
        microcode_width: int[1..=64] = Some(4),
    }
}
