//! The uops that are executed, and how they depend on each other.

use crate::block::split::Split;
use crate::isa::inst::{Branch, Decoded, Reg};
use smallvec::SmallVec;

/// Inputs of a uop that are followed.
pub const SOURCES: usize = 8;
/// Outputs of a uop that are followed.
pub const OUTPUTS: usize = 4;

/// The source of a uop's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A register.
    Reg(Reg),
    /// An output of an earlier uop of the same instruction.
    Inner(u16),
    /// The data of a store: store number in the block, iterations back.
    Store(u16, u16),
    /// The data of a store, known to rename: store number, iterations back.
    Stored(u16, u16),
    /// A store that has to be in the cache: store number, iterations back.
    Committed(u16, u16),
}

/// An input; `extra` cycles pass between its result and the start of the uop.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Origin.
    pub from: From,
    /// Additional cycles.
    pub extra: u16,
}

impl Source {
    /// Whether it is a store that has to be in the cache.
    pub fn committed(&self) -> bool {
        matches!(self.from, From::Committed(..))
    }
}

/// Inputs of a uop.
pub type Sources = SmallVec<[Source; 4]>;
/// Outputs of a uop.
pub type Outputs = SmallVec<[Output; 2]>;
/// Registers that hold the same value.
pub type Regs = SmallVec<[Reg; 8]>;

/// An output; several registers may carry the same value.
#[derive(Clone, Debug)]
pub struct Output {
    /// Cycles from start to result.
    pub latency: u32,
    /// Registers written.
    pub regs: Regs,
}

/// Role of a uop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads memory.
    Load,
    /// Computes a store's address.
    StoreAddress,
    /// Supplies a store's data.
    StoreData,
    /// Everything else.
    Compute,
}

/// One executed uop.
#[derive(Clone, Debug)]
pub struct Uop {
    /// Ports that can execute it.
    pub ports: u32,
    /// Role.
    pub role: Role,
    /// Inputs.
    pub sources: Sources,
    /// Outputs.
    pub outputs: Outputs,
    /// Cycles that its port stays taken.
    pub port_cycles: u16,
    /// Cycles that its unit stays busy (dividers).
    pub busy: u32,
    /// Bytes that it writes to ever new addresses of a loop.
    pub streamed: u16,
    /// Its access, if that may cross a boundary that costs cycles.
    pub split: Option<Split>,
    /// The memory operand that it reads from the cache, if loads share that.
    pub read: Option<u16>,
    /// Computes with vectors.
    pub vector: bool,
    /// Computes with vectors of 512 bits.
    pub wide: bool,
    /// Branches, and is not taken or part of no instruction that writes a register.
    pub branch: bool,
    /// Ports of the uop that waits in one scheduler entry with it: of a load and the uop that computes with it, and of
    /// a store's address and data; 0: none does.
    pub beside: u32,
}

impl Expansion {
    /// Ports of the uop that waits in one scheduler entry with a uop, but for stores of vectors; 0: none does.
    ///
    /// A store's address and data share an entry, with the uop that computes the data, such as a constant. So do a load
    /// and the uop that computes with it in one dispatch slot.
    pub fn beside(&self, at: usize, d: &Decoded) -> u32 {
        use Role::{Compute, StoreAddress, StoreData};
        let ports = |n: usize| self.uops[n].ports;
        let roles: SmallVec<[Role; 4]> = self.uops.iter().map(|uop| uop.role).collect();
        match roles[..] {
            [StoreAddress, StoreData] if !d.vector() => return ports(1 - at),
            [Compute, StoreAddress, StoreData] if !d.vector() && d.branch == Branch::No => {
                return ports([2, 0, 1][at]);
            }
            _ => {}
        }
        let slots = self.fused.iter().flatten();
        let mut slots = slots.filter(|slot| slot.iter().any(|n| usize::from(*n) == at));
        let Some(slot) = slots.next() else { return 0 };
        let uop = |n: u16| &self.uops[usize::from(n)];
        let computes_with = |n: u16, load: u16| {
            let of_load = |source: &Source| matches!(source.from, From::Inner(from) if from == load);
            uop(load).role == Role::Load && uop(n).role == Role::Compute && uop(n).sources.iter().any(of_load)
        };
        let at = at as u16;
        let mut others = slot.iter().filter(|n| computes_with(**n, at) || computes_with(at, **n));
        others.next().map_or(0, |n| uop(*n).ports)
    }
}

impl Uop {
    /// A uop that keeps its port for a cycle, and nothing else for longer.
    pub fn new(ports: u32, role: Role, sources: Sources, outputs: Outputs) -> Uop {
        Uop {
            ports,
            role,
            sources,
            outputs,
            port_cycles: 1,
            busy: 0,
            streamed: 0,
            split: None,
            read: None,
            vector: false,
            wide: false,
            branch: false,
            beside: 0,
        }
    }

    /// Whether it waits until a store is in the cache.
    pub fn blocked(&self) -> bool {
        self.sources.iter().any(Source::committed)
    }

    /// Whether it takes its data from a store.
    pub fn forwarded(&self) -> bool {
        let stored = |s: &Source| matches!(s.from, From::Store(..) | From::Stored(..) | From::Committed(..));
        self.sources.iter().any(stored)
    }
}

/// Uops of one instruction and how they are fused.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Uops in program order.
    pub uops: Vec<Uop>,
    /// Fused uops as the front end carries them: a list of dispatch slots, each a list of uops.
    pub fused: Vec<Vec<Vec<u16>>>,
    /// The number of fused uops from the microcode sequencer (the last ones).
    pub ms: u16,
}

/// The facts that decide which variant of an instruction is executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Case {
    /// For each load: the store that it reads from and the iterations in between.
    pub forwards: [Option<(u16, u16)>; 2],
    /// That store wrote only a part of it, so that the data come by the cache.
    pub failed: [bool; 2],
    /// Such a load waits until that store is in the cache.
    pub waits: [bool; 2],
    /// That store wrote exactly what the load reads.
    pub exact: [bool; 2],
    /// That store wrote what the load reads from its start on, and maybe more.
    pub lower: [bool; 2],
    /// The store that it reads from is predicted by earlier turns of the same code.
    pub predicted: bool,
    /// A store wrote only a part of what it loads, and no figure is known for that.
    pub overlaps: bool,
    /// The base of the load came from a load and there is no index.
    pub chased: bool,
}

impl Case {
    /// Say of all that their stores are predicted, where so many loads are no more than a core can predict.
    pub fn predict(cases: &mut [Case], loads: usize, most: u32) {
        let predicted = loads <= most as usize;
        cases.iter_mut().for_each(|case| case.predicted = predicted);
    }
}
