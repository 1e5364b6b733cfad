//! The reorder buffer, and retirement from it in order.

use crate::block::Block;
use crate::core::params::{retire, Params};
use crate::engine::events::{Event, Observer};
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::ROB_SIZE;

/// A fused uop in flight.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Slot of the block.
    slot: u32,
    iteration: u32,
    /// Uops still to start.
    left: u16,
    /// Cycle at which all started uops are done.
    done: i32,
}

/// The memory of a reorder buffer.
#[derive(Debug)]
pub struct Entries(Box<[Entry; ROB_SIZE]>);

impl Default for Entries {
    fn default() -> Self {
        let entry = Entry {
            slot: 0,
            iteration: 0,
            left: 0,
            done: 0,
        };
        Entries(Box::new([entry; ROB_SIZE]))
    }
}

/// The reorder buffer.
#[derive(Debug)]
pub struct Retire<'a> {
    block: &'a Block,
    p: &'a retire,
    entries: Entries,
    head: u32,
    tail: u32,
    /// Cycle at which each iteration was complete.
    completed: Vec<i32>,
}

impl<'a> Retire<'a> {
    /// An empty one.
    pub fn new(block: &'a Block, params: &'a Params, entries: Entries) -> Retire<'a> {
        Retire {
            block,
            p: &params.retire,
            entries,
            head: 0,
            tail: 0,
            completed: Vec::new(),
        }
    }

    /// Whether so many slots more fit.
    pub fn fits(&self, slots: u32) -> bool {
        self.tail - self.head + slots <= self.p.reorder_buffer.min(ROB_SIZE as u32)
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Slots that have retired since the start, and the number of the next one.
    pub fn retired(&self) -> u32 {
        self.head
    }

    /// Cycle at which each iteration was complete.
    pub fn completed(&self) -> &[i32] {
        &self.completed
    }

    /// A slot enters, of which so many uops are to be executed; its number.
    #[inline]
    pub fn enter(&mut self, slot: u32, iteration: u32, uops: u16, now: i32) -> u32 {
        let number = self.tail;
        self.entries.0[number as usize % ROB_SIZE] = Entry {
            slot,
            iteration,
            left: uops,
            done: now,
        };
        self.tail += 1;
        number
    }

    /// A uop of a slot has started and is done at a cycle.
    #[inline]
    pub fn started(&mut self, number: u32, done: i32) {
        let entry = &mut self.entries.0[number as usize % ROB_SIZE];
        entry.left = entry.left.saturating_sub(1);
        entry.done = entry.done.max(done);
    }

    /// Retire for a cycle; `stores` is told of each store.
    pub fn cycle<O: Observer>(&mut self, now: i32, observer: &mut O, mut stores: impl FnMut(u16, u32)) {
        let last_slot = self.block.slots.len() as u32 - 1;
        let mut retired = 0;
        while retired < self.p.width && self.head != self.tail {
            let entry = self.entries.0[self.head as usize % ROB_SIZE];
            if entry.left > 0 || entry.done > now {
                break;
            }
            let (slot, iteration) = (entry.slot, entry.iteration);
            observer.on(now, Event::Retired { slot, iteration });
            if slot == last_slot {
                self.completed.push(now);
            }
            if let Some(store) = self.block.slots[slot as usize].store {
                stores(store, iteration);
            }
            self.head += 1;
            retired += 1;
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, whole: &mut Fingerprint) {
        // A copy stays in a register.
        let mut into = *whole;
        // Slots follow each other in program order, and what has not started is told by its uops.
        if !self.is_empty() {
            let first = self.entries.0[self.head as usize % ROB_SIZE].slot;
            into.add(u64::from(self.tail - self.head) << 32 | u64::from(first));
        }
        for number in self.head..self.tail {
            let e = &self.entries.0[number as usize % ROB_SIZE];
            if e.done > into.now() {
                into.add(u64::from(number - self.head) << 32 | into.until(e.done));
            }
        }
        *whole = into;
    }

    /// Give the memory back.
    pub fn into_entries(self) -> Entries {
        self.entries
    }
}
