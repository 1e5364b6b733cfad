//! Taken branches: what the target buffer that a loop's branch hits costs in each iteration.

use crate::block::{Block, Inst, Notion};
use crate::core::params::Params;

/// Cycles that the branch at the end of a loop loses.
pub fn bubble(block: &Block, params: &Params) -> u32 {
    let Some(last) = block.insts.last().filter(|_| block.notion == Notion::Loop) else {
        return 0;
    };
    let p = &params.taken_branch;
    let place = |i: &Inst| (block.code_offset + i.offset) / p.dense_bytes;
    // Of a fused pair the second counts.
    let branches = block.insts.iter().filter(|i| i.branch && !i.head);
    let near = branches.filter(|i| place(i) == place(last)).count();
    let level = match p.level {
        0 => 0,
        1 => p.second_bubble,
        _ => p.third_bubble,
    };
    let dense = near > 1 && p.level >= p.dense_level;
    level + if dense { p.dense_bubble } else { 0 }
}
