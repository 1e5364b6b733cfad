//! The ports that the uops of each instruction use.

use crate::block::Block;
use crate::core::value::PORTS;
use crate::engine::events::{Event, Observer};

/// The ports of each uop since the start.
#[derive(Clone, Debug)]
pub struct Usage {
    /// By uop of the block and port: how often it started there.
    pub started: Vec<[u32; PORTS]>,
    /// By dispatch slot: how often it needed no port.
    pub eliminated: Vec<u32>,
}

impl Usage {
    /// Nothing has run yet.
    pub fn new(uops: usize, slots: usize) -> Usage {
        Usage {
            started: vec![[0; PORTS]; uops],
            eliminated: vec![0; slots],
        }
    }
}

impl Observer for Usage {
    fn on(&mut self, _: i32, event: Event) {
        match event {
            Event::Issued { uop, port, .. } => self.started[uop as usize][usize::from(port)] += 1,
            Event::Renamed {
                slot, executed: false, ..
            } => self.eliminated[slot as usize] += 1,
            _ => {}
        }
    }
}

/// Uops per iteration by instruction and port: of the times that a uop was decided, the share
/// that each port had. What is still in flight counts for nothing.
pub fn by_instruction(block: &Block, ports: usize, usage: &Usage) -> Vec<Vec<f64>> {
    let mut out = vec![vec![0.0; ports]; block.insts.len()];
    for (at, slot) in block.slots.iter().enumerate() {
        for uop in slot.uops.clone() {
            let started = &usage.started[uop as usize];
            let decided = started.iter().sum::<u32>() + usage.eliminated[at];
            for (cell, uses) in out[usize::from(slot.inst)].iter_mut().zip(started) {
                *cell += f64::from(*uses) / f64::from(decided.max(1));
            }
        }
    }
    out
}
