//! The units behind rename together.

use crate::block::uops::From;
use crate::block::Block;
use crate::engine::flight::Held;
use crate::engine::memory::{Memory, Of};
use crate::engine::registers::Registers;
use crate::engine::results::Results;
use crate::engine::retire::Retire;
use crate::engine::schedule::Schedule;

/// The units behind rename, which it gives places in.
#[derive(Debug)]
pub struct Backend<'a> {
    /// Block.
    pub block: &'a Block,
    /// Results in flight.
    pub results: Results,
    /// Schedulers and ports.
    pub schedule: Schedule<'a>,
    /// Stores in flight.
    pub memory: Memory<'a>,
    /// Reorder buffer.
    pub retire: Retire<'a>,
}

impl Backend<'_> {
    /// The source of an input of the uop `at` of the block, of an iteration and an instruction.
    #[inline]
    pub fn input(&self, from: From, at: u32, iteration: u32, inst: u16, registers: &Registers) -> Held {
        let (of, store, back) = match from {
            From::Reg(reg) => return registers.get(reg),
            From::Inner(n) => {
                let wanted = self.block.inner_base[at as usize] + u32::from(n);
                return self.schedule.flights().inner(at, wanted);
            }
            From::Stored(store, back) => (Of::Source, store, back),
            From::Store(store, back) => (Of::Data, store, back),
            From::Committed(store, back) => (Of::Commit, store, back),
        };
        let held = self.memory.get(of, store, iteration, back);
        held.unwrap_or(Held::Since(0, inst))
    }
}
