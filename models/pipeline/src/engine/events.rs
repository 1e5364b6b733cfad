//! Events of the pipeline, for reports that subscribe to them.

use crate::engine::flight::Source;

/// The reason why rename took no more in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing was waiting.
    Empty,
    /// All dispatch slots were used.
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
    /// A mispredicted branch waits, or what follows it is on its way.
    Mispredicted,
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
    /// A dispatch slot was renamed.
    Renamed {
        /// Slot of the block.
        slot: u32,
        /// Iteration.
        iteration: u32,
        /// It has uops that need a port.
        executed: bool,
    },
    /// A uop that is renamed needs a result of another instruction, or of an earlier instance of its own;
    /// told only to those who see operands.
    Needs {
        /// Instruction of the block.
        inst: u16,
        /// Instruction that makes it.
        from: u16,
    },
    /// Rename takes no more in this cycle.
    Held {
        /// The reason.
        why: Hold,
    },
    /// A uop started on a port.
    Issued {
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
    /// A dispatch slot retired.
    Retired {
        /// Slot of the block.
        slot: u32,
        /// Iteration.
        iteration: u32,
    },
}

/// Receives events.
pub trait Observer {
    /// Whether it wants to be told of what uops need.
    const OPERANDS: bool = false;

    /// Called for every event, in order.
    fn on(&mut self, cycle: i32, event: Event);
}

/// Ignores everything.
pub struct Nobody;

impl Observer for Nobody {
    #[inline(always)]
    fn on(&mut self, _: i32, _: Event) {}
}
