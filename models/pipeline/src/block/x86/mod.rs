//! From an x86 instruction's figures and operands to the uops that are executed.

pub(crate) mod absorb;
mod compute;
mod memory;
mod result_first;
pub(crate) mod traits;

use crate::block::fusion::fuse;
use crate::block::uops::{Case, Expansion, Role, Uop};
use crate::core::figures::{Figures, Shape};
use crate::core::params::Params;
use crate::isa::inst::Decoded;

/// Loads of an instruction whose results are waited for, from the last one back.
const AWAITED: usize = 4;

/// Make the uops of an instruction.
pub fn expand(d: &Decoded, figures: &Figures, case: Case, params: &Params) -> Expansion {
    let same = d.same && figures.same.is_some();
    let shape = match (&figures.same, &figures.indexed) {
        (Some(shape), _) if same => shape,
        (_, Some(shape)) if d.indexed(params.rename.index_alone) => shape,
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
    // Loads of a gather begin in order: what waits for the last of them waits for all.
    let awaited = &loads[loads.len().saturating_sub(AWAITED)..];
    let result = builder.computes(&roles.computes, awaited, drop_sources, !roles.datas.is_empty());
    builder.stores(&roles, result.or(loads.last().copied()));
    builder.set_busy();
    let uops = builder.uops;
    let fused = fuse(&uops, shape, figures.ms);
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
    // Figures of an update by an index may count more data than there are stores.
    let stores = d.mems.iter().filter(|m| m.write).count();
    let addresses = if reads {
        roles.datas.len().min(stores).min(memory.len())
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
