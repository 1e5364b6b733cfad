//! Stores in flight: what loads take from them, and their way into the cache: in order, after
//! retirement, two that lie together in a cycle.

use crate::block::locations::Location;
use crate::block::Block;
use crate::core::params::{memory, Params};
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Held, NONE};
use crate::engine::partial_stores::PartialStores;
use crate::engine::results::Results;
use crate::engine::store_entry::Entry;
use std::collections::VecDeque;

/// Iterations that are remembered of a store; loads look back over fewer.
const ITERATIONS: usize = 8;

/// The values of one store, by iteration.
type History = [Held; ITERATIONS];

/// The part of a store that a load can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The data, from the store.
    Data,
    /// The data, from what made them.
    Source,
    /// That it is in the cache.
    Commit,
}

/// Stores in flight.
#[derive(Debug)]
pub struct Memory<'a> {
    block: &'a Block,
    p: &'a memory,
    data: Vec<History>,
    sources: Vec<History>,
    committed: Vec<History>,
    /// Retired ones, the oldest first.
    retired: VecDeque<Entry>,
    /// Renamed ones, in order: what loads that wait for them wait for.
    awaited: VecDeque<u32>,
    /// Stores that take a place of the queue.
    taken: u32,
    /// First cycle at which the cache takes the next one.
    free: i32,
    /// Parts of the oldest one that are in the cache (`memory.commit_parts`).
    begun: u32,
    /// The store written last (`memory.commit_parts`).
    last: Option<Entry>,
    partial_stores: PartialStores,
}

impl<'a> Memory<'a> {
    /// No stores.
    pub fn new(block: &'a Block, params: &'a Params) -> Memory<'a> {
        let none = [Held::Since(0, 0); ITERATIONS];
        let stores = if block.forwards { block.stores } else { 0 };
        Memory {
            block,
            p: &params.memory,
            data: vec![none; stores],
            sources: vec![none; stores],
            committed: vec![none; block.places.len()],
            retired: VecDeque::new(),
            awaited: VecDeque::new(),
            taken: 0,
            free: 0,
            begun: 0,
            last: None,
            partial_stores: PartialStores::default(),
        }
    }

    /// The value of a store some iterations back that a load waits for; `None` if before the start.
    pub fn get(&self, of: Of, store: u16, iteration: u32, back: u16) -> Option<Held> {
        let iteration = iteration.checked_sub(u32::from(back))?;
        let histories = match of {
            Of::Data => &self.data,
            Of::Source => &self.sources,
            Of::Commit => &self.committed,
        };
        Some(histories[usize::from(store)][iteration as usize % ITERATIONS])
    }

    /// A store is renamed that takes `source` and hands on `data`.
    pub fn store(&mut self, store: u16, iteration: u32, source: Held, data: Held, results: &mut Results) {
        put(&mut self.sources, store, iteration, source, results);
        put(&mut self.data, store, iteration, data, results);
    }

    /// Whether so many stores more fit between rename and the cache.
    pub fn fits(&self, stores: u32) -> bool {
        self.p.commit_bytes == 0 || self.taken + stores <= self.p.store_queue.max(stores)
    }

    /// A store takes its place at rename.
    pub fn enter(&mut self, store: u16, iteration: u32, inst: u16, results: &mut Results) {
        let awaited = self.block.places[usize::from(store)].awaited;
        if self.p.commit_bytes == 0 && !awaited {
            return;
        }
        self.taken += 1;
        let mut value = NONE;
        if awaited {
            value = results.promise(inst);
            put(&mut self.committed, store, iteration, Held::Value(value), results);
        }
        self.awaited.push_back(value);
    }

    /// Retired stores that are not in the cache yet.
    pub fn backlog(&self) -> usize {
        self.retired.len()
    }

    /// A store retires.
    pub fn retire(&mut self, store: u16, iteration: u32) {
        if self.p.commit_bytes != 0 || self.block.places[usize::from(store)].awaited {
            self.retired.push_back(Entry { store, iteration });
        }
    }

    /// Write to the cache for a cycle; `written` is told what loads wait for of each store.
    pub fn cycle(&mut self, now: i32, mut written: impl FnMut(u32)) {
        let within = self.p.commit_bytes;
        if within == 0 {
            // The cache takes all at once; those that loads wait for are the ones here.
            while self.retired.pop_front().is_some() {
                self.commit(&mut written);
            }
            return;
        }
        if self.free > now {
            return;
        }
        if self.p.commit_parts {
            self.write_parts(now, &mut written);
            return;
        }
        let block = self.block;
        let Some(&first) = self.retired.front() else {
            return;
        };
        if self.partial_stores.waits(self.p, &block.places, first, now) {
            return;
        }
        self.retired.pop_front();
        self.partial_stores.written(self.p, &block.places, first, now);
        let place = |e: &Entry| &block.places[usize::from(e.store)];
        self.commit(&mut written);
        let crosses = place(&first).crosses(first.iteration, within);
        self.free = now + 1 + i32::from(crosses) + self.page_cycles(first);
        let Some(&next) = self.retired.front() else {
            return;
        };
        let part = self.whole_bytes();
        let whole = |e: &Entry| !place(e).crosses(e.iteration, part);
        if whole(&first) && whole(&next) && place(&first).meets(first.iteration, place(&next), next.iteration, within) {
            self.retired.pop_front();
            self.partial_stores.written(self.p, &block.places, next, now);
            self.commit(&mut written);
        }
    }

    /// The aligned bytes that a store may not cross if it is to be written beside another.
    fn whole_bytes(&self) -> u32 {
        let parts = if self.p.commit_middle { 2 } else { 1 };
        (self.p.commit_bytes / parts).max(1)
    }

    /// Write two stores, of which one begins other aligned bytes than the store before it; one that crosses such bytes
    /// counts as two, which are not written in the same cycle.
    fn write_parts(&mut self, now: i32, written: &mut impl FnMut(u32)) {
        let mut others = false;
        for n in 0..2 {
            let Some(&store) = self.retired.front() else {
                return;
            };
            if self.begun == 0 && self.partial_stores.waits(self.p, &self.block.places, store, now) {
                return;
            }
            let place = &self.block.places[usize::from(store.store)];
            let parts = place.parts(store.iteration, self.p.commit_bytes);
            let alone = self.p.commit_middle && place.crosses(store.iteration, self.whole_bytes());
            let begins = self.begun > 0 || !self.continues(place, store.iteration);
            if n > 0 && (self.begun > 0 || alone || others && begins) {
                return;
            }
            others |= begins;
            self.begun += 1;
            if self.begun == 1 {
                self.free = now + 1 + self.page_cycles(store);
            }
            if self.begun == parts {
                self.begun = 0;
                self.last = Some(store);
                self.retired.pop_front();
                self.partial_stores.written(self.p, &self.block.places, store, now);
                self.commit(written);
            }
            if alone {
                return;
            }
        }
    }

    /// Cycles more that a store takes because it crosses the end of a page.
    fn page_cycles(&self, store: Entry) -> i32 {
        let crosses = self.block.places[usize::from(store.store)].leaves_page(store.iteration);
        if crosses {
            self.p.commit_page_cycles as i32
        } else {
            0
        }
    }

    /// Whether a store begins in the aligned bytes that the last one ended in.
    fn continues(&self, place: &Location, iteration: u32) -> bool {
        let within = self.p.commit_bytes;
        self.last.is_some_and(|last| {
            let before = &self.block.places[usize::from(last.store)];
            let end = i64::from((before.parts(last.iteration, within) - 1) * within);
            before.meets_part(last.iteration, end, place, iteration, within)
        })
    }

    /// The oldest store is in the cache.
    fn commit(&mut self, written: &mut impl FnMut(u32)) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(value) = self.awaited.pop_front() {
            written(value);
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, results: &Results, into: &mut Fingerprint) {
        for history in [&self.data, &self.sources] {
            into.add_rare(history.iter().flatten().map(|held| results.ready(*held)));
        }
        if self.p.commit_bytes != 0 {
            into.add(u64::from(self.taken) << 32 | into.until(self.free));
            into.add(u64::from(self.begun));
            if let Some(last) = self.last {
                last.fingerprint(into);
            }
            for entry in &self.retired {
                entry.fingerprint(into);
            }
            self.partial_stores.fingerprint(into);
        }
    }
}

fn put(histories: &mut [History], store: u16, iteration: u32, held: Held, results: &mut Results) {
    let place = &mut histories[usize::from(store)][iteration as usize % ITERATIONS];
    let old = std::mem::replace(place, held);
    results.count(held, 1);
    results.count(old, -1);
}
