//! What a core's predictor finds behind the instructions of a block: targets of taken branches, and lines.

use crate::block::Block;
use crate::core::choice::Joins;
use crate::core::params::Params;

/// What the predictor finds behind an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Found {
    /// The instruction is the branch that was taken last, too.
    pub again: bool,
    /// Finding what follows takes a cycle: a target, or the region that code runs on into.
    pub takes_cycle: bool,
}

/// What it finds behind each instruction of successive iterations; empty where targets are not found ahead.
pub(crate) fn of(block: &Block, params: &Params) -> Vec<Found> {
    let p = &params.uop_cache;
    if !p.joins.finds_ahead() {
        return Vec::new();
    }
    let insts = &block.insts;
    let region = |i: usize| (block.code_offset + insts[i].offset) / p.region_bytes;
    let behind = |i: usize| (i + 1..insts.len()).find(|n| !insts[*n].tail);
    let leaves = |i: usize| region(behind(i).unwrap_or(0)) != region(i);
    let returns = insts.iter().any(|inst| inst.returns);
    let mut found = vec![Found::default(); insts.len()];
    let mut last = insts
        .iter()
        .rfind(|inst| inst.taken && !inst.tail)
        .map(|inst| inst.offset);
    // Whether the last jump finds what follows its target too, and whether the last branch taken was a return.
    let (mut begins, mut returned) = (false, false);
    for i in (0..insts.len()).filter(|i| !insts[*i].tail) {
        let inst = &insts[i];
        if inst.taken {
            let again = last.replace(inst.offset) == Some(inst.offset);
            let second = begins && (inst.jump || inst.returns);
            found[i] = Found {
                again,
                takes_cycle: !second,
            };
            begins = p.joins == Joins::Pairs && inst.jump && leaves(i) && !second && !returned;
            returned = inst.returns;
        } else if returns && behind(i).is_some_and(|next| region(next) != region(i)) {
            found[i].takes_cycle = !begins;
            (begins, returned) = (false, false);
        }
    }
    found
}
