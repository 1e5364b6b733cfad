//! Buses of results, port by port: those of long uops, and of uops that borrow one, keep others out of their cycles.

use crate::block::uops::{From, Role, Uop};
use crate::block::Block;
use crate::core::params::Params;
use crate::core::value::PORTS;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::joint::of_branch;
use crate::engine::ready::Ready;
use crate::isa::inst::{Reg, CARRY, HIGH, OTHER, VECTOR};

/// Past cycles that are kept.
const PAST: u32 = 8;
/// Cycles in a row in which a bus is lent although its port starts uops without a result; as on Zen 4.
const SHARED: u32 = 2;
/// Cycles that are looked ahead; results of uops that take longer (dividers) are not followed.
const HORIZON: u32 = u64::BITS - PAST;

/// The results that are due.
#[derive(Debug)]
pub struct WriteBack {
    /// Latency from which on a result keeps others out; [`HORIZON`]: none does.
    least: u32,
    /// Cycles in a row without a free bus after which a uop lets no younger one pass; 0: it always does.
    patience: u32,
    /// By uop of the block: cycles to its result; 0 where it delivers none to general registers.
    latency: Vec<u32>,
    /// By port, a bit for each cycle in which a result is due, those before `at` first.
    due: [u64; PORTS],
    at: i32,
    /// Ports whose bus a uop of another port takes that starts in this cycle.
    lent: u32,
    /// By port, cycles in a row in which its bus was lent although it started a uop without a result.
    shared: [u32; PORTS],
    /// Ports that do so in this cycle.
    sharing: u32,
    /// Uops that wait for the next cycle, and the queues that they came from.
    held: Vec<(usize, u32)>,
    /// By port, the oldest uop that was held, in the last cycle and in this one.
    denied: [[Option<u32>; 2]; PORTS],
}

impl WriteBack {
    /// None due; `None` if results keep no others out on a core.
    pub fn new(block: &Block, params: &Params) -> Option<WriteBack> {
        let least = params.ports.result_cycles;
        (least > 0 || !params.ports.borrowed.is_empty()).then(|| WriteBack {
            least: if least > 0 { least } else { HORIZON },
            patience: params.ports.result_patience,
            latency: block.uops.iter().map(latency).collect(),
            due: [0; PORTS],
            at: 0,
            lent: 0,
            shared: [0; PORTS],
            sharing: 0,
            held: Vec::new(),
            denied: [[None; 2]; PORTS],
        })
    }

    /// A cycle begins.
    pub fn begin(&mut self, now: i32) {
        let passed = now.abs_diff(self.at);
        self.at = now;
        let sharing = if passed == 1 { self.sharing } else { 0 };
        for (port, shared) in self.shared.iter_mut().enumerate() {
            *shared = (*shared + 1) * (sharing >> port & 1);
        }
        (self.lent, self.sharing) = (0, 0);
        for due in &mut self.due {
            *due = due.checked_shr(passed).unwrap_or(0);
        }
        for [before, now] in &mut self.denied {
            *before = now.take().filter(|_| passed == 1);
        }
    }

    /// Whether the bus of a port, a mask, can be lent in this cycle.
    pub fn lends(&self, port: u32) -> bool {
        self.shared[port.trailing_zeros() as usize] < SHARED
    }

    /// A uop of another port takes the bus of this one.
    pub fn lend(&mut self, port: u32) {
        self.lent |= port;
    }

    /// The ports of some on which a uop that starts now delivers a result in a cycle that has none.
    pub fn free(&self, uop: u32, ports: u32) -> u32 {
        let latency = self.latency[uop as usize];
        if latency == 0 {
            return ports;
        }
        let taken = (0..PORTS).filter(|port| self.due[*port] >> (PAST + latency) & 1 != 0);
        ports & !taken.fold(self.lent, |all, port| all | 1 << port)
    }

    /// A uop starts on a port.
    pub fn start(&mut self, uop: u32, port: usize) {
        let latency = self.latency[uop as usize];
        if latency == 0 {
            self.sharing |= self.lent & 1 << port;
        }
        if latency >= self.least {
            self.due[port] |= 1 << (PAST + latency);
        }
    }

    /// Hold a uop, number `id`, from a queue for this cycle. Returns whether its port, where it has one alone, starts no
    /// other in this cycle.
    pub fn hold(&mut self, queue: usize, id: u32, uop: u32, ports: u32) -> bool {
        self.held.push((queue, id));
        if self.patience == 0 || ports.count_ones() != 1 {
            return false;
        }
        let port = ports.trailing_zeros() as usize;
        let [before, now] = &mut self.denied[port];
        now.get_or_insert(id);
        let latency = self.latency[uop as usize];
        let mut ago = 1..=self.patience;
        *before == Some(id) && ago.all(|cycles| self.due[port] >> (PAST + latency - cycles) & 1 != 0)
    }

    /// The cycle is over: what was held is in its queue again.
    pub fn release(&mut self, ready: &mut Ready) {
        for (queue, id) in self.held.drain(..) {
            ready.queues[queue].put(id);
        }
    }

    /// Tell what the future depends on, of so many ports.
    pub fn fingerprint(&self, ports: usize, into: &mut Fingerprint) {
        for (due, denied) in self.due[..ports].iter().zip(&self.denied) {
            into.add(*due);
            into.add(u64::from(denied[1].is_some()));
        }
        self.shared[..ports]
            .iter()
            .for_each(|shared| into.add(u64::from(*shared)));
        into.add(u64::from(self.sharing));
    }
}

/// Cycles to the last result of a uop between general registers and flags; 0 for all other uops, and for flags alone.
fn latency(uop: &Uop) -> u32 {
    let others = |reg: Reg| (VECTOR..CARRY).contains(&reg) || (OTHER..HIGH).contains(&reg);
    let reads = |from: &From| matches!(from, From::Reg(reg) if others(*reg));
    let foreign = uop.outputs.iter().flat_map(|o| &o.regs).any(|reg| others(*reg))
        || uop.sources.iter().any(|source| reads(&source.from));
    let last = uop.outputs.iter().map(|o| o.latency).max().unwrap_or(0);
    if uop.role != Role::Compute || uop.vector || foreign || uop.outputs.iter().all(of_branch) || last >= HORIZON {
        0
    } else {
        last
    }
}
