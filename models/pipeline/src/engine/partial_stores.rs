//! Stores of less than a word: the cache merges them with what it has, and takes its time for that.

use crate::block::locations::Location;
use crate::core::params::memory;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::store_entry::Entry;
use std::collections::VecDeque;

/// Bytes of a store that is written as it is.
const WORD: u16 = 4;

/// The recent stores.
#[derive(Debug, Default)]
pub struct PartialStores {
    /// Stores of less than a word that the cache still merges, and until which cycle, the oldest first.
    merging: VecDeque<(Entry, i32)>,
    /// The store that was written last.
    last: Option<Entry>,
}

impl PartialStores {
    /// Whether a store has to wait until what lies with it is merged; what follows that at once has not.
    pub fn waits(&self, p: &memory, places: &[Location], store: Entry, now: i32) -> bool {
        let place = |e: Entry| &places[usize::from(e.store)];
        let beside = |e: Entry| place(e).meets(e.iteration, place(store), store.iteration, p.commit_bytes);
        let merging = || self.merging.iter().any(|&(e, until)| until > now && beside(e));
        place(store).narrower(WORD) && !self.last.is_some_and(beside) && merging()
    }

    /// A store is written.
    pub fn written(&mut self, p: &memory, places: &[Location], store: Entry, now: i32) {
        if p.commit_narrow_cycles == 0 {
            return;
        }
        while self.merging.front().is_some_and(|&(_, until)| until <= now) {
            self.merging.pop_front();
        }
        if places[usize::from(store.store)].narrower(WORD) {
            self.merging.push_back((store, now + p.commit_narrow_cycles as i32));
        }
        self.last = Some(store);
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        for (store, until) in &self.merging {
            let left = into.until(*until);
            if left > 0 {
                store.fingerprint(into);
                into.add(left);
            }
        }
        if let Some(store) = self.last {
            store.fingerprint(into);
        }
    }
}
