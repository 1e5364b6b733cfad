//! Fused pairs with a result that execute on an ALU and on the branch unit beside it.

use crate::block::uops::Output;
use crate::block::Block;
use crate::core::params::Params;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::in_flight::InFlight;
use crate::engine::ready::Ready;
use crate::isa::inst::VECTOR;

/// An ALU and the branch unit beside it. Zen 4: a pair that is bound to ALU3 executes in two parts, each when its port
/// takes it: the ALU writes the register, the branch unit writes the flags and takes the branch.
#[derive(Debug)]
pub struct Joint {
    alu: u32,
    branches: u32,
    /// By uop of the block, whether it is such a pair.
    pairs: Vec<bool>,
    /// Pairs of which the branch has started and the result has not.
    branched: Vec<u32>,
    /// Pairs of which the result has started and the branch has not.
    computed: Vec<u32>,
    /// Cycles in which pairs pass the same older branch, at most.
    patience: u32,
    /// The branch that was passed last, and in how many cycles.
    passed: (u32, u32),
}

impl Joint {
    /// `None` without such ports, and for a block without such pairs.
    pub fn new(block: &Block, params: &Params) -> Option<Joint> {
        let [alu, branches] = params.joint().ok()??;
        let uops = block.uops.iter().zip(&block.owner);
        let pairs: Vec<bool> = uops
            .map(|(uop, inst)| {
                let inst = &block.insts[usize::from(*inst)];
                inst.branch && inst.head && !uop.outputs.iter().all(of_branch)
            })
            .collect();
        pairs.contains(&true).then_some(Joint {
            alu,
            branches,
            pairs,
            branched: Vec::new(),
            computed: Vec::new(),
            patience: params.ports.joint_patience,
            passed: (0, 0),
        })
    }

    /// The port of branches.
    pub fn branches(&self) -> u32 {
        self.branches
    }

    /// The pair whose branch starts now, if it is its turn; `idle` are the ports that no slow uop keeps busy.
    pub fn next(&mut self, free: u32, idle: u32, ready: &Ready, flights: &InFlight) -> Option<u32> {
        let free = free & self.branches;
        if free == 0 {
            return None;
        }
        let waits = |id: &u32| self.pairs[flights.get(*id).uop as usize] && !self.branched.contains(id);
        let queues = ready.queues.iter().filter(|queue| queue.ports == self.alu);
        let waiting = queues.filter_map(|queue| queue.all().find(waits));
        let pair = waiting.chain(self.computed.iter().copied()).min()?;
        if let Some((older, _)) = ready.oldest_for([free, free & idle]).filter(|(other, _)| *other < pair) {
            let (last, cycles) = self.passed;
            let cycles = if last == older { cycles } else { 0 };
            if cycles >= self.patience {
                return None;
            }
            self.passed = (older, cycles + 1);
        }
        Some(pair)
    }

    /// The branch of a pair starts. Returns whether its result has started.
    pub fn start_branch(&mut self, id: u32) -> bool {
        let computed = take(&mut self.computed, id);
        if !computed {
            self.branched.push(id);
        }
        computed
    }

    /// Whether a uop is a pair in two parts, on some port.
    pub fn parts(&self, uop: u32, port: usize) -> bool {
        self.pairs[uop as usize] && self.alu == 1 << port
    }

    /// The result of a pair starts. Returns whether its branch has started.
    pub fn start_result(&mut self, id: u32) -> bool {
        let branched = take(&mut self.branched, id);
        if !branched {
            self.computed.push(id);
        }
        branched
    }

    /// Tell what the future depends on; `first` is the number of the first slot of the reorder buffer.
    pub fn fingerprint(&self, first: u32, flights: &InFlight, into: &mut Fingerprint) {
        into.add(u64::from(self.passed.1));
        for (part, ids) in [&self.branched, &self.computed].into_iter().enumerate() {
            for id in ids {
                into.add((u64::from(flights.get(*id).rob.wrapping_sub(first)) << 1) | part as u64);
            }
        }
    }
}

/// Whether the branch of a pair writes an output.
pub fn of_branch(output: &Output) -> bool {
    output.regs.iter().all(|reg| *reg >= VECTOR)
}

fn take(ids: &mut Vec<u32>, id: u32) -> bool {
    let found = ids.iter().position(|other| *other == id);
    found.map(|n| ids.remove(n)).is_some()
}
