//! Taken branches: what the target buffer that a loop's branch hits costs in each iteration.

use crate::block::{Block, Inst, Notion};
use crate::core::params::Params;
use std::collections::{HashMap, HashSet};

/// The branch at the end of a loop, or the one that a call takes most often.
fn usual(block: &Block) -> Option<&Inst> {
    match block.notion {
        Notion::Loop => block.insts.last(),
        Notion::Unrolled => None,
        Notion::Call => {
            let mut times: HashMap<u32, usize> = HashMap::new();
            let taken = block.insts.iter().filter(|i| i.taken && !i.head);
            taken.clone().for_each(|i| *times.entry(i.offset).or_default() += 1);
            taken.max_by_key(|i| times[&i.offset])
        }
    }
}

/// Cycles that the branch at the end of a loop loses.
pub fn bubble(block: &Block, params: &Params) -> u32 {
    let Some(last) = usual(block) else {
        return 0;
    };
    let p = &params.taken_branch;
    let place = |i: &Inst| (block.code_offset + i.offset) / p.dense_bytes;
    // Of a fused pair the second counts.
    let branches = block.insts.iter().filter(|i| i.branch && !i.head);
    let near: HashSet<u32> = branches.filter(|i| place(i) == place(last)).map(|i| i.offset).collect();
    let near = near.len();
    let level = match p.level {
        0 => 0,
        1 => p.second_bubble,
        _ => p.third_bubble,
    };
    let dense = near > 1 && p.level >= p.dense_level;
    level + if dense { p.dense_bubble } else { 0 }
}
