//! Parameters of the caches of decoded uops.
use crate::core::{choice::*, declare::tables, value::UNLIMITED};
tables! {
    uop_cache {
        /// `region`, `entry` or `none`.
        rule: word[CacheRule] = None,
        /// Bytes of the aligned region that an entry covers.
        region_bytes: int[4..=64] = Some(32),
        /// Lines per region.
        lines: int[1..=64] = Some(3),
        /// Uops per region, where all its lines hold fewer together than each by itself.
        region_uops: limit[1..=512] = Some(UNLIMITED),
        /// Uops per line.
        line_uops: int[1..=64] = Some(6),
        /// 32-bit immediates, displacements and branch distances that a full line has room for; one of 64 bits is two, or takes the place of a uop where neither this nor `long_constants` has a limit.
        constants: limit[0..=64] = Some(UNLIMITED),
        /// Further constants for each free uop slot of a line.
        spare_constants: int[0..=8] = Some(0),
        /// Room for them in lines of many uops: `[from, to, constants]` by uops of the line.
        crowded_constants: triples = Some(&[]),
        /// Whether an instruction's only constant takes room if it has 8 bits.
        short_constants: flag = Some(true),
        /// Instructions per line that take two slots: those of 64-bit immediates, and of `wide_operands`. A cycle delivers as many of each line that it reads.
        line_wide: limit[1..=64] = Some(UNLIMITED),
        /// Constants per line that need 64 bits.
        long_constants: limit[1..=64] = Some(UNLIMITED),
        /// Uops per cycle.
        width: int[1..=64] = Some(4),
        /// Regions or entries read per cycle.
        reads: int[1..=64] = Some(1),
        /// Whether the first line or entry of a region is read in the same cycle as the last one of a region that has several.
        overlaps: flag = Some(false),
        /// Whether unrolled copies are taken to be in the cache.
        unrolled: flag = Some(false),
        /// Whether an instruction with a 64-bit immediate is the last that a cycle delivers.
        wide_ends: flag = Some(false),
        /// Whether an immediate of more than 16 bits beside a memory operand takes two slots of a line.
        wide_operands: flag = Some(false),
        /// Behind which taken branches a cycle reads on: `none`, `all`, those to another region (`apart`), or one of the `others` than the branch that was taken last; `pairs`: a jump to another region and the jump or return behind it are one, but not right behind a return.
        joins: word[Joins] = Some(Joins::None),
        /// Whether a cycle reads on behind the last branch of a loop that has at most eight uops.
        joins_short_loops: flag = Some(false),
        /// Whether the rest of a line that the cycle before began counts for `reads`.
        line_rest_counts: flag = Some(true),
        /// Stall of a switch to microcode, cycles.
        microcode_stall: int[0..=100] = Some(4),
        /// Whether a branch, or its fused pair, belongs to the region in which it ends.
        branch_by_end: flag = Some(false),
        /// Whether a cycle reads lines of one region only.
        one_region: flag = Some(false),
        /// Whether two regions that meet within a branch or its fused pair are read in separate cycles.
        cut_branch_apart: flag = Some(false),
        /// Whether a region is cached only if both halves of its aligned 64 bytes qualify.
        pairs: flag = Some(false),
        /// Whether a branch that touches a 32-byte boundary keeps its region out.
        branch_erratum: flag = Some(false),
    }
    loop_buffer {
        /// Whether small loops are replayed from the queue in front of rename.
        enabled: flag = Some(false),
        /// Uops that the loop buffer holds.
        uops: int[0..=4096] = Some(0),
        /// Most uops of a loop that is held although its code lies in more than one region of the uop cache.
        crossing_uops: limit[0..=4096] = Some(UNLIMITED),
        /// Unrolling: `[from, to, times]` by uops of the loop.
        unroll: triples = Some(&[]),
    }
}
