//! Large arrays that simulations on a thread use one after the other.

use crate::engine::flight::{
    Flight, Queued, RobEntry, Value, Waiting, LATER, NONE, OUTPUTS, ROB_SIZE, SOURCES, UOP_SIZE,
};
use crate::engine::machine::Machine;
use crate::engine::ready::Ready;
use std::cell::Cell;
use std::collections::VecDeque;

/// The arrays; the content of those of fixed size is written before it is read.
pub(crate) struct Scratch {
    pub(crate) links: Box<[u32; UOP_SIZE * SOURCES]>,
    pub(crate) extra: Box<[u16; UOP_SIZE * SOURCES]>,
    pub(crate) flights: Box<[Flight; UOP_SIZE]>,
    pub(crate) rob: Box<[RobEntry; ROB_SIZE]>,
    pub(crate) values: Vec<Value>,
    pub(crate) free_values: Vec<u32>,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) idq: VecDeque<Waiting>,
    pub(crate) ready: Ready,
}

impl Default for Scratch {
    fn default() -> Self {
        let flight = Flight {
            uop: NONE,
            rob: 0,
            iteration: 0,
            port: 255,
            pending: 0,
            ready: 0,
            earliest: 0,
            operand: 0,
            critical: 0,
            values: [NONE; OUTPUTS],
            result: LATER,
        };
        let entry = RobEntry {
            slot: 0,
            iteration: 0,
            left: 0,
            done: 0,
        };
        Scratch {
            links: Box::new([NONE; UOP_SIZE * SOURCES]),
            extra: Box::new([0; UOP_SIZE * SOURCES]),
            flights: Box::new([flight; UOP_SIZE]),
            rob: Box::new([entry; ROB_SIZE]),
            values: Vec::with_capacity(1024),
            free_values: Vec::with_capacity(1024),
            queue: VecDeque::with_capacity(64),
            idq: VecDeque::with_capacity(256),
            ready: Ready::default(),
        }
    }
}

thread_local! {
    pub(crate) static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

impl Machine<'_> {
    /// Leave the arrays to the next simulation on this thread.
    pub fn recycle(self) {
        let mut scratch = Scratch {
            links: self.links,
            extra: self.extra,
            flights: self.flights,
            rob: self.rob,
            values: self.values,
            free_values: self.free_values,
            queue: self.queue,
            idq: self.idq,
            ready: self.sched.ready,
        };
        scratch.values.clear();
        scratch.free_values.clear();
        scratch.queue.clear();
        scratch.idq.clear();
        SCRATCH.set(Some(scratch));
    }
}
