//! Stores of less than a word: the cache merges them with what it has, and takes its time for that.

use crate::block::places::Place;
use crate::core::params::memory;
use crate::engine::fingerprint::Fingerprint;
use std::collections::VecDeque;

/// Bytes of a store that is written as it is.
const WORD: u16 = 4;

/// What was written of late.
#[derive(Debug, Default)]
pub struct Narrow {
    /// Narrow stores that the cache still merges, with their iteration and the cycle, the oldest first.
    merging: VecDeque<(u16, u32, i32)>,
    /// The store that was written last, with its iteration.
    last: Option<(u16, u32)>,
}

impl Narrow {
    /// Whether a store has to wait until what lies with it is merged; what follows that at once has not.
    pub fn waits(&self, p: &memory, places: &[Place], store: u16, iteration: u32, now: i32) -> bool {
        let place = &places[usize::from(store)];
        if p.commit_narrow_cycles == 0 || !place.narrower(WORD) {
            return false;
        }
        let beside =
            |(other, then): (u16, u32)| places[usize::from(other)].meets(then, place, iteration, p.commit_bytes);
        !self.last.is_some_and(beside)
            && self
                .merging
                .iter()
                .any(|&(other, then, at)| at + p.commit_narrow_cycles as i32 > now && beside((other, then)))
    }

    /// A store is written.
    pub fn written(&mut self, p: &memory, places: &[Place], store: u16, iteration: u32, now: i32) {
        if p.commit_narrow_cycles == 0 {
            return;
        }
        let merged = |&(_, _, at): &(u16, u32, i32)| at + p.commit_narrow_cycles as i32 <= now;
        while self.merging.front().is_some_and(merged) {
            self.merging.pop_front();
        }
        if places[usize::from(store)].narrower(WORD) {
            self.merging.push_back((store, iteration, now));
        }
        self.last = Some((store, iteration));
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, p: &memory, into: &mut Fingerprint) {
        let merging = self.merging.iter().map(|&(store, iteration, at)| {
            (
                u64::from(store) << 32 | into.ahead(iteration),
                into.until(at + p.commit_narrow_cycles as i32),
            )
        });
        let some: Vec<_> = merging.filter(|&(_, until)| until > 0).collect();
        for (which, until) in some {
            into.add(which);
            into.add(until);
        }
        if let Some((store, iteration)) = self.last {
            into.add(u64::from(store) << 32 | into.ahead(iteration));
        }
    }
}
