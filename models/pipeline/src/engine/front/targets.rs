//! Targets of taken branches that the predictor, which finds one a cycle, has found for the uop cache.

use crate::block::cut::Cut;
use crate::block::jumps::Found;
use crate::block::Inst;
use crate::core::choice::Joins;
use crate::core::params::Params;
use crate::engine::ablation::Ablation;
use crate::engine::fingerprint::Fingerprint;

/// Targets found and not delivered yet.
#[derive(Debug)]
pub struct Targets<'a> {
    joins: Joins,
    /// Cycles that a branch loses which leaves a loop.
    late: u32,
    /// By instruction; empty where targets are not found ahead.
    jumps: &'a [Found],
    /// Below zero where delivery waits for one.
    found: i32,
    /// Cycles that a return loses.
    bubble: u32,
    /// A jump that always follows the branch taken before it is found with that branch.
    pairs: bool,
    /// A line that code goes on in takes a cycle like a target.
    next_line: bool,
    /// Cycles by which targets are found ahead of delivery, and the most of them.
    lead: i32,
    most: i32,
}

impl<'a> Targets<'a> {
    /// None found yet.
    pub fn new(cut: &'a Cut, params: &Params, ablation: &Ablation) -> Targets<'a> {
        Targets {
            joins: params.uop_cache.joins,
            late: params.taken_branch.exit_bubble,
            jumps: &cut.jumps,
            found: 0,
            bubble: if ablation.taken_branch {
                0
            } else {
                params.taken_branch.return_bubble
            },
            pairs: params.taken_branch.jump_pairs,
            next_line: params.taken_branch.next_line,
            lead: 0,
            most: params.taken_branch.return_lead as i32,
        }
    }

    /// Find another one; whether delivery can go on.
    pub fn cycle(&mut self) -> bool {
        self.found = (self.found + 1).min(self.most);
        if self.bubble > 0 {
            self.lead = (self.lead + 1).min(self.most);
        }
        self.found >= 0
    }

    /// Pass an instruction: cycles for which delivery stands still behind it, and whether it goes on in the same cycle.
    pub fn pass(&mut self, at: usize, inst: &Inst) -> (u32, bool) {
        let late = if inst.late { self.late } else { 0 };
        if let Some(found) = self.jumps.get(at) {
            self.found -= late as i32 + i32::from(found.takes_cycle);
            return (0, self.found >= 0 && !found.again);
        }
        (late, late == 0 && (!inst.taken || self.joins == Joins::All))
    }

    /// Cycles that delivery waits behind an instruction for what is found next: a target, or the next line.
    pub fn wait(&mut self, inst: &Inst, leaves_line: bool) -> u32 {
        let is_found = inst.taken || self.next_line && leaves_line;
        if self.bubble == 0 || !is_found {
            return 0;
        }
        let returned = if inst.returns { self.bubble as i32 } else { 0 };
        let together = self.pairs && inst.second && inst.taken;
        self.lead -= i32::from(!together) + returned;
        self.lead.min(0).unsigned_abs()
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(self.found as u64 ^ u64::from(self.lead as u32) << 32);
    }
}
