//! What happens in the pipeline, for reports that subscribe to it.

use crate::engine::flight::Source;

/// Why rename took no more in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing was waiting.
    Empty,
    /// All issue slots were used.
    Width,
    /// The limit of instructions or of arithmetic uops a cycle.
    Window,
    /// The loop buffer starts over in a new cycle.
    LoopEnd,
    /// The reorder buffer was full.
    ReorderBuffer,
    /// The schedulers were full.
    Scheduler,
    /// The stores on their way into the cache took all places.
    StoreQueue,
    /// A serialising instruction waits or is under way.
    Serial,
}

/// Something that happens to an instruction's uop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A cycle starts.
    Cycle,
    /// An instruction was predecoded or fetched.
    Predecoded {
        /// Instruction of the block.
        inst: u32,
        /// Iteration.
        iteration: u32,
    },
    /// A fused uop entered the queue in front of rename.
    Queued {
        /// Fused uop of the block.
        fused: u32,
        /// Iteration.
        iteration: u32,
        /// Unit that it came from.
        from: Source,
    },
    /// An issue slot was renamed.
    Renamed {
        /// Slot of the block.
        slot: u32,
        /// Iteration.
        iteration: u32,
    },
    /// Rename takes no more in this cycle.
    Held {
        /// Why.
        why: Hold,
    },
    /// A uop started on a port.
    Dispatched {
        /// Uop of the block.
        uop: u32,
        /// Iteration.
        iteration: u32,
        /// Number of the port.
        port: u8,
        /// First cycle at which its inputs allowed it.
        ready: i32,
        /// Instruction whose result came last.
        critical: u16,
        /// Cycle at which its last result is known.
        done: i32,
    },
    /// An issue slot retired.
    Retired {
        /// Slot of the block.
        slot: u32,
        /// Iteration.
        iteration: u32,
    },
}

/// Receives events.
pub trait Observer {
    /// Called for every event, in order.
    fn on(&mut self, cycle: i32, event: Event);
}

/// Ignores everything.
pub struct Nobody;

impl Observer for Nobody {
    #[inline(always)]
    fn on(&mut self, _: i32, _: Event) {}
}

/// Keeps the events of the first iterations.
#[derive(Default)]
pub struct Recorder {
    /// Iterations to keep.
    pub iterations: u32,
    /// Cycle and event, in order.
    pub events: Vec<(i32, Event)>,
    /// Why rename ended, by cycle.
    pub holds: Vec<Hold>,
}

impl Observer for Recorder {
    fn on(&mut self, cycle: i32, event: Event) {
        let iteration = match event {
            Event::Cycle => return,
            Event::Held { why } => {
                self.holds.resize(cycle as usize, why);
                self.holds.push(why);
                return;
            }
            Event::Predecoded { iteration, .. }
            | Event::Queued { iteration, .. }
            | Event::Renamed { iteration, .. }
            | Event::Dispatched { iteration, .. }
            | Event::Retired { iteration, .. } => iteration,
        };
        if iteration < self.iterations {
            self.events.push((cycle, event));
        }
    }
}
