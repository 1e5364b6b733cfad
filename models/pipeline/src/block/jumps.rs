//! Branches of a block that are taken, as the predictor of a core finds their targets.

use crate::block::Block;
use crate::core::choice::Joins;
use crate::core::params::Params;

/// The known facts of an instruction as a taken branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Taken {
    /// It is the branch that was taken last, too.
    pub again: bool,
    /// Its target is found with that of the branch before it.
    pub second: bool,
}

/// The known facts of each instruction in successive iterations; empty where targets are not found ahead.
pub(crate) fn of(block: &Block, params: &Params) -> Vec<Taken> {
    let p = &params.uop_cache;
    if matches!(p.joins, Joins::None | Joins::Apart | Joins::All) {
        return Vec::new();
    }
    let insts = &block.insts;
    let jumps: Vec<usize> = (0..insts.len())
        .filter(|i| insts[*i].taken && !insts[*i].tail)
        .collect();
    let region = |i: usize| (block.code_offset + insts[i].offset) / p.region_bytes;
    let behind = |i: usize| (i + 1..insts.len()).find(|n| !insts[*n].tail).unwrap_or(0);
    let mut taken = vec![Taken::default(); insts.len()];
    let mut last = jumps.last().map(|i| insts[*i].offset);
    let mut second = false;
    for i in jumps {
        let again = last.replace(insts[i].offset) == Some(insts[i].offset);
        taken[i] = Taken { again, second };
        let ahead = insts[i].jump && region(behind(i)) > region(i);
        second = p.joins == Joins::Pairs && ahead && !second;
    }
    taken
}
