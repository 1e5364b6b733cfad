//! Mispredicted branches: rename waits for one until what follows it arrives, and the front end until it is found.

use crate::core::params::Params;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::LATER;
use crate::engine::schedule::Schedule;

/// The mispredicted branches that rename waits for.
#[derive(Debug)]
pub struct Redirect<'a> {
    params: &'a Params,
    /// Instructions whose branches are mispredicted; empty: none.
    mispredicted: &'a [bool],
    /// One that is renamed and has not started.
    branch: Option<u32>,
    /// The front end has not been told yet what follows it.
    pending: bool,
}

impl<'a> Redirect<'a> {
    /// Waiting for nothing.
    pub fn new(params: &'a Params, mispredicted: &'a [bool]) -> Redirect<'a> {
        Redirect {
            params,
            mispredicted,
            branch: None,
            pending: false,
        }
    }

    /// A uop of an instruction is renamed.
    #[inline]
    pub fn renamed(&mut self, inst: u16, uop: u32) {
        if self.mispredicted.get(usize::from(inst)) == Some(&true) {
            (self.branch, self.pending) = (Some(uop), true);
        }
    }

    /// Whether a branch has not started.
    pub fn waits(&self) -> bool {
        self.branch.is_some()
    }

    /// Cycles, this one included, until what follows a branch that has started arrives; `None` if none is waited for.
    pub fn left(&mut self, now: i32, schedule: &Schedule) -> Option<u32> {
        let result = schedule.result(self.branch?);
        if result == LATER {
            return Some(1);
        }
        self.branch = None;
        // Of the cycles from one execution to the next the last ones are spent behind rename.
        let p = self.params;
        let arrives = result - 1 + p.mispredict.cycles as i32 - p.scheduler.delay as i32;
        Some((arrives - now).max(0) as u32)
    }

    /// Whether the front end finds from now on what follows, rename still standing still for some cycles.
    pub fn resumes(&mut self, stall: u32) -> bool {
        let resumes = self.pending && self.branch.is_none() && stall <= 1;
        self.pending &= !resumes;
        resumes
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.branch.is_some()) << 1 | u64::from(self.pending));
    }
}
