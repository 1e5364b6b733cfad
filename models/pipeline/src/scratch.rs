//! Large arrays that simulations on a thread use one after the other.

use crate::flight::{Flight, RobEntry, Value, LATER, NONE, ROB_SIZE, SOURCES, UOP_SIZE};
use crate::machine::Machine;
use std::cell::Cell;

/// The arrays; their content is written before it is read.
pub(crate) struct Scratch {
    pub(crate) links: Vec<u32>,
    pub(crate) extra: Vec<u16>,
    pub(crate) flights: Vec<Flight>,
    pub(crate) rob: Vec<RobEntry>,
    pub(crate) values: Vec<Value>,
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
            critical: 0,
            values: [NONE; 4],
            result: LATER,
        };
        Scratch {
            links: vec![NONE; UOP_SIZE * SOURCES],
            extra: vec![0; UOP_SIZE * SOURCES],
            flights: vec![flight; UOP_SIZE],
            rob: vec![
                RobEntry {
                    slot: 0,
                    iteration: 0,
                    left: 0,
                    done: 0
                };
                ROB_SIZE
            ],
            values: Vec::with_capacity(1024),
        }
    }
}

thread_local! {
    pub(crate) static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let scratch = Scratch {
            links: std::mem::take(&mut self.links),
            extra: std::mem::take(&mut self.extra),
            flights: std::mem::take(&mut self.flights),
            rob: std::mem::take(&mut self.rob),
            values: std::mem::take(&mut self.values),
        };
        // The thread may be ending.
        let _ = SCRATCH.try_with(|place| place.set(Some(scratch)));
    }
}
