//! Parameters of branches: fused, taken and mispredicted.
use crate::core::{choice::*, declare::tables, value::UNLIMITED};
tables! {
    macro_fusion {
        /// Branches fused by whole class, `cmp_test` for compare and test only, `table` for the figures' own.
        pairs: word[Pairs] = Some(Pairs::None),
        /// Aligned bytes at whose start a branch does not fuse; 0: no limit.
        boundary_bytes: int[0..=64] = Some(0),
        /// Ports of a fused pair that has a result beside flags; empty: those of the branch.
        result_ports: text = Some(""),
        /// Dispatch slots of a fused pair that loads, at least.
        load_slots: int[1..=2] = Some(1),
        /// Vector instructions of which the second, right behind the first, shares its place and its uop, where it reads and writes the register that the first writes: `eor+eor aese+aesmc`.
        dependent: text = Some(""),
        /// Instructions that fuse with a move between registers right before them, whose result they read and replace: `add shl`.
        move_ops: text = Some(""),
        /// The same for a load right before them, without an index: `add xor`; without immediates, and of vectors behind an unaligned load alone.
        load_ops: text = Some(""),
        /// Whether a nop shares the entry of the instruction before it.
        nops: flag = Some(false),
        /// Bytes of both together, at most.
        nop_bytes: limit[2..=30] = Some(UNLIMITED),
    }
    taken_branch {
        /// Taken branches per cycle in the small target buffer.
        cycles: int[1..=100] = Some(1),
        /// Target buffer that the branch hits: 0 is the fastest.
        level: int[0..=2] = Some(0),
        /// Extra cycles of the second target buffer over the fastest.
        second_bubble: int[0..=100] = Some(0),
        /// Extra cycles of the third target buffer over the fastest.
        third_bubble: int[0..=100] = Some(0),
        /// Cycles lost at the predicted exit of a loop of several iterations; only for prediction kind `call`.
        exit_bubble: int[0..=100] = Some(0),
        /// Least iterations of a loop with that loss.
        exit_turns: int[3..=100_000] = Some(3),
        /// Cycles lost after a return; only for prediction kind `call`.
        return_bubble: int[0..=100] = Some(0),
        /// Cycles by which targets are found ahead of delivery at most; 1: none of a return's are hidden.
        return_lead: int[1..=100] = Some(2),
        /// Whether an unconditional jump is found together with the taken branch before it, if that always leads to it.
        jump_pairs: flag = Some(false),
        /// Whether a line that is entered without a branch takes a cycle like a target.
        next_line: flag = Some(false),
        /// Aligned bytes of code within which branches are dense.
        dense_bytes: int[4..=64] = Some(32),
        /// Target buffer from which on a second branch in those bytes costs cycles.
        dense_level: int[0..=2] = Some(1),
        /// Cycles of such a second branch.
        dense_bubble: int[0..=100] = Some(0),
    }
    mispredict {
        /// Cycles from the execution of a mispredicted branch to that of its successor; only for prediction kind `call`.
        cycles: int[0..=1000] = Some(16),
        /// Taken branches that the predictor remembers; only for prediction kind `call`.
        history: int[1..=100_000] = Some(64),
    }
}
