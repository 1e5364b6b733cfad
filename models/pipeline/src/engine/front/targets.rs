//! Targets of taken branches that the predictor, which finds one a cycle, has found for the uop cache.

use crate::block::{Block, Inst};
use crate::core::choice::Joins;
use crate::core::params::Params;
use crate::engine::fingerprint::Fingerprint;

/// Targets found and not delivered yet.
#[derive(Debug)]
pub struct Targets {
    joins: Joins,
    /// Cycles that a branch loses which leaves a loop.
    late: u32,
    /// By instruction, whether it is the branch that was taken last, too.
    again: Vec<bool>,
    /// One at most; below zero where delivery waits for one.
    found: i32,
}

impl Targets {
    /// None found yet.
    pub fn new(block: &Block, params: &Params) -> Targets {
        let joins = params.uop_cache.joins;
        Targets {
            joins,
            late: params.taken_branch.exit_bubble,
            again: if joins == Joins::Others {
                again(&block.insts)
            } else {
                Vec::new()
            },
            found: 0,
        }
    }

    /// Find another one; whether delivery can go on.
    pub fn cycle(&mut self) -> bool {
        self.found = (self.found + 1).min(1);
        self.found >= 0
    }

    /// Pass an instruction: cycles for which delivery stands still behind it, and whether it goes on in the same cycle.
    pub fn pass(&mut self, at: usize, inst: &Inst) -> (u32, bool) {
        let late = if inst.late { self.late } else { 0 };
        if self.joins == Joins::Others {
            self.found -= late as i32 + i32::from(inst.taken);
            return (0, self.found >= 0 && !self.again[at]);
        }
        (late, late == 0 && (!inst.taken || self.joins == Joins::All))
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(self.found as u64);
    }
}

/// By instruction whether it is a taken branch, and so is no other since it was taken last.
fn again(insts: &[Inst]) -> Vec<bool> {
    let jumps = |i: &&Inst| i.taken && !i.tail;
    let mut last = insts.iter().rev().find(jumps).map(|i| i.offset);
    let same = |i: &Inst| jumps(&i) && last.replace(i.offset) == Some(i.offset);
    insts.iter().map(same).collect()
}
