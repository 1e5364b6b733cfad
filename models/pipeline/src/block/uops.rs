//! From an instruction's figures and operands to the uops that are executed.

use crate::block::split::Split;
use crate::core::figures::{Figures, Shape};
use crate::core::params::Params;
use crate::isa::inst::{Decoded, Reg};

/// Where a uop's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A register.
    Reg(Reg),
    /// An output of an earlier uop of the same instruction.
    Inner(u16),
    /// The data of a store: store number in the block, iterations back.
    Store(u16, u16),
    /// What a store stores, known to rename: store number, iterations back.
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

/// An output; several registers may carry the same value.
#[derive(Clone, Debug)]
pub struct Output {
    /// Cycles from start to result.
    pub latency: u32,
    /// Registers written.
    pub regs: Vec<Reg>,
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
    pub sources: Vec<Source>,
    /// Outputs.
    pub outputs: Vec<Output>,
    /// Cycles that its port stays taken.
    pub port_cycles: u16,
    /// Cycles that its unit stays busy (dividers).
    pub busy: u32,
    /// Bytes that it writes to ever new addresses of a loop.
    pub streamed: u16,
    /// Its access, if that may cross a boundary that costs cycles.
    pub split: Option<Split>,
}

/// Uops of one instruction and how they are fused.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    /// Uops in program order.
    pub uops: Vec<Uop>,
    /// Fused uops as the front end carries them: a list of issue slots, each a list of uops.
    pub fused: Vec<Vec<Vec<u16>>>,
    /// How many of the fused uops come from the microcode sequencer (the last ones).
    pub ms: u16,
}

/// What decides which variant of an instruction is executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Case {
    /// For each load: the store that it reads from and the iterations in between.
    pub forwards: [Option<(u16, u16)>; 2],
    /// That store wrote only a part of it, so that the data come by the cache.
    pub failed: [bool; 2],
    /// That store wrote exactly what the load reads.
    pub exact: [bool; 2],
    /// A store wrote only a part of what it loads, and no figure is known for that.
    pub overlaps: bool,
    /// The base of the load came from a load and there is no index.
    pub chased: bool,
}

/// Make the uops of an instruction.
pub fn expand(d: &Decoded, figures: &Figures, case: Case, params: &Params) -> Expansion {
    let same = d.same && figures.same.is_some();
    let shape = match (&figures.same, &figures.indexed) {
        (Some(shape), _) if same => shape,
        (_, Some(shape)) if d.indexed() => shape,
        _ => &figures.shape,
    };
    let drop_sources = same && figures.same_latency == Some(0);
    let roles = assign_roles(shape, d, params);
    let mut builder = Builder {
        d,
        figures,
        params,
        uops: Vec::new(),
    };
    let loads = builder.loads(&roles.loads, case);
    let result = builder.computes(&roles.computes, &loads, drop_sources, !roles.datas.is_empty());
    builder.stores(&roles, result.or(loads.last().copied()));
    builder.set_busy();
    let uops = builder.uops;
    let fused = crate::block::fusion::fuse(&uops, shape, figures.ms);
    Expansion {
        fused,
        ms: figures.ms,
        uops,
    }
}

pub(crate) struct Roles {
    pub(crate) loads: Vec<u32>,
    pub(crate) computes: Vec<u32>,
    pub(crate) addresses: Vec<u32>,
    pub(crate) datas: Vec<u32>,
}

fn assign_roles(shape: &Shape, d: &Decoded, params: &Params) -> Roles {
    let load = params.mask(&params.ports.load).unwrap_or(0);
    let address = params.mask(&params.ports.store_address).unwrap_or(0);
    let data = params.mask(&params.ports.store_data).unwrap_or(0);
    let mut roles = Roles {
        loads: Vec::new(),
        computes: Vec::new(),
        addresses: Vec::new(),
        datas: Vec::new(),
    };
    let reads = d.mems.iter().any(|m| m.read);
    let writes = d.mems.iter().any(|m| m.write);
    let mut memory = Vec::new();
    for &ports in &shape.ports {
        if writes && ports & !data == 0 {
            roles.datas.push(ports);
        } else if ports & !(load | address) == 0 && (reads || writes) {
            memory.push(ports);
        } else {
            roles.computes.push(ports);
        }
    }
    // Address uops are the ones that can use a port that does not load.
    memory.sort_by_key(|p| (p & !load != 0, *p));
    let addresses = if reads {
        roles.datas.len().min(memory.len())
    } else {
        memory.len()
    };
    roles.addresses = memory.split_off(memory.len() - addresses);
    roles.loads = memory;
    roles
}

pub(crate) struct Builder<'a> {
    pub(crate) d: &'a Decoded,
    pub(crate) figures: &'a Figures,
    pub(crate) params: &'a Params,
    pub(crate) uops: Vec<Uop>,
}

impl Builder<'_> {
    pub(crate) fn push(&mut self, uop: Uop) -> u16 {
        self.uops.push(uop);
        (self.uops.len() - 1) as u16
    }

    fn set_busy(&mut self) {
        for uop in self.uops.iter_mut().filter(|u| u.role == Role::Compute) {
            uop.port_cycles = uop.port_cycles.max(self.figures.hold);
        }
        if self.figures.busy > 1 {
            let role = if self.d.locked { Role::StoreData } else { Role::Compute };
            let narrow = self
                .uops
                .iter_mut()
                .filter(|u| u.role == role)
                .min_by_key(|u| u.ports.count_ones());
            if let Some(uop) = narrow {
                uop.busy = self.figures.busy;
            }
        }
    }
}

pub(crate) fn compute(ports: u32, sources: Vec<Source>, outputs: Vec<Output>) -> Uop {
    Uop {
        ports,
        role: Role::Compute,
        sources,
        outputs,
        port_cycles: 1,
        busy: 0,
        streamed: 0,
        split: None,
    }
}
