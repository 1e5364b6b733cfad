//! Stores on their way into the cache: in order, after retirement, two that lie together in a cycle.

use crate::engine::flight::{Held, NONE};
use crate::engine::machine::Machine;
use std::collections::VecDeque;

/// A retired store that is not in the cache yet.
#[derive(Clone, Copy, Debug)]
struct Entry {
    store: u16,
    iteration: u32,
}

/// State of the stores between rename and the cache.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Retired ones, the oldest first.
    retired: VecDeque<Entry>,
    /// Renamed ones, in order: what loads that wait for them wait for.
    awaited: VecDeque<u32>,
    /// Stores that take a place of the queue.
    taken: u32,
    /// First cycle at which the cache takes the next one.
    free: i32,
    /// Cycles in which the cache took stores, since the start.
    pub busy: u64,
    /// By store, what loads wait for in the last iterations.
    pub held: Vec<[Held; 8]>,
}

impl State {
    /// No stores.
    pub fn new(stores: usize) -> State {
        State {
            held: vec![[Held::Since(0, 0); 8]; stores],
            ..State::default()
        }
    }

    /// What the future depends on, relative to an iteration and a cycle.
    pub fn fingerprint(&self, base: u32, now: i32, mut add: impl FnMut(u64)) {
        add(u64::from(self.taken) << 32 | (self.free - now).max(0) as u64);
        for entry in &self.retired {
            add(u64::from(entry.store) << 32 | u64::from(entry.iteration.wrapping_sub(base)));
        }
    }
}

impl Machine<'_> {
    /// Whether so many stores more fit between rename and the cache.
    pub(crate) fn room_for_stores(&self, stores: u32) -> bool {
        let p = &self.params.memory;
        p.commit_bytes == 0 || self.commit.taken + stores <= p.store_queue.max(stores)
    }

    /// A store takes its place at rename.
    pub(crate) fn rename_store(&mut self, store: u16, iteration: u32, inst: u16) {
        if self.params.memory.commit_bytes == 0 {
            return;
        }
        self.commit.taken += 1;
        let mut value = NONE;
        if self.block.places[usize::from(store)].awaited {
            value = self.new_value(inst);
            let held = Held::Value(value);
            self.count(held, 1);
            let place = &mut self.commit.held[usize::from(store)][iteration as usize % 8];
            let old = std::mem::replace(place, held);
            self.count(old, -1);
        }
        self.commit.awaited.push_back(value);
    }

    /// A store retires.
    pub(crate) fn retire_store(&mut self, store: u16, iteration: u32) {
        if self.params.memory.commit_bytes != 0 {
            self.commit.retired.push_back(Entry { store, iteration });
        }
    }

    /// Write to the cache for a cycle.
    pub(crate) fn commit_cycle(&mut self) {
        let within = self.params.memory.commit_bytes;
        if within == 0 || self.commit.free > self.now {
            return;
        }
        let Some(first) = self.commit.retired.pop_front() else {
            return;
        };
        let block = self.block;
        let place = |e: &Entry| &block.places[usize::from(e.store)];
        self.committed();
        let crosses = place(&first).crosses(first.iteration, within);
        self.commit.free = self.now + 1 + i32::from(crosses);
        self.commit.busy += 1 + u64::from(crosses);
        let Some(&next) = self.commit.retired.front() else {
            return;
        };
        // What crosses the middle is written alone.
        let whole = |e: &Entry| !place(e).crosses(e.iteration, within / 2);
        if whole(&first) && whole(&next) && place(&first).meets(first.iteration, place(&next), next.iteration, within) {
            self.commit.retired.pop_front();
            self.committed();
        }
    }

    /// The oldest store is in the cache: tell the loads that wait for it.
    fn committed(&mut self) {
        self.commit.taken = self.commit.taken.saturating_sub(1);
        if let Some(value) = self.commit.awaited.pop_front() {
            self.resolve(value, self.now);
        }
    }
}
