//! Branches that take a second port, as they are fused with an instruction that has a result.

use crate::block::uops::Uop;
use crate::block::Block;
use crate::core::params::Params;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::in_flight::InFlight;
use crate::engine::ready::Ready;
use crate::isa::inst::VECTOR;

/// An ALU and the branch unit beside it. Zen 4 runs such a pair on both.
#[derive(Debug)]
pub struct Joint {
    alu: u32,
    branches: u32,
    /// By uop of the block, whether it is such a pair.
    pairs: Vec<bool>,
    /// Cycles in which pairs pass the same older branch, at most.
    patience: u32,
    /// The branch that was passed last, and in how many cycles.
    passed: (u32, u32),
}

/// What the two ports do first in a cycle.
pub enum First {
    /// They start this pair, from this queue.
    Pair(u32, usize),
    /// The ALU starts nothing: a pair waits for an older branch.
    Branch,
    /// Each starts its oldest uop.
    Any,
}

impl Joint {
    /// `None` on a core without such ports.
    pub fn new(block: &Block, params: &Params) -> Option<Joint> {
        let [alu, branches] = params.joint().ok()??;
        let result = |uop: &Uop| uop.outputs.iter().flat_map(|o| &o.regs).any(|reg| *reg < VECTOR);
        let uops = block.uops.iter().zip(&block.owner);
        Some(Joint {
            alu,
            branches,
            pairs: uops
                .map(|(uop, inst)| {
                    let inst = &block.insts[usize::from(*inst)];
                    inst.branch && inst.head && result(uop)
                })
                .collect(),
            patience: params.ports.joint_patience,
            passed: (0, 0),
        })
    }

    /// The ALU and the branch unit.
    pub fn ports(&self) -> [u32; 2] {
        [self.alu, self.branches]
    }

    /// What they do first; `idle` are the ports that no slow uop keeps busy.
    pub fn first(&mut self, free: u32, idle: u32, ready: &Ready, flights: &InFlight) -> First {
        let oldest = |ports: u32| ready.oldest_for([ports & free, ports & free & idle]);
        let Some((id, queue)) = oldest(self.alu).filter(|(id, _)| self.pairs[flights.get(*id).uop as usize]) else {
            return First::Any;
        };
        if let Some((older, _)) = oldest(self.branches).filter(|(other, _)| *other < id) {
            let (last, cycles) = self.passed;
            let cycles = if last == older { cycles } else { 0 };
            if cycles >= self.patience {
                return First::Branch;
            }
            self.passed = (older, cycles + 1);
        }
        First::Pair(id, queue)
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.passed.1));
    }
}
