//! Retirement, in order.

use crate::engine::events::{Event, Observer};
use crate::engine::flight::ROB_SIZE;
use crate::engine::machine::Machine;

/// State of retirement.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Cycle at which each iteration was complete.
    pub completed: Vec<i32>,
}

impl Machine<'_> {
    /// Retire for a cycle.
    pub fn retire_cycle<O: Observer>(&mut self, observer: &mut O) {
        let last_slot = self.block.slots.len() as u32 - 1;
        let mut retired = 0;
        while retired < self.params.retire.width && self.rob_head != self.rob_tail {
            let entry = self.rob[self.rob_head as usize % ROB_SIZE];
            if entry.left > 0 || entry.done > self.now {
                break;
            }
            observer.on(
                self.now,
                Event::Retired {
                    slot: entry.slot,
                    iteration: entry.iteration,
                },
            );
            if entry.slot == last_slot {
                self.retire.completed.push(self.now);
            }
            if let Some(store) = self.block.slots[entry.slot as usize].store {
                self.retire_store(store, entry.iteration);
            }
            self.rob_head += 1;
            retired += 1;
        }
    }
}
