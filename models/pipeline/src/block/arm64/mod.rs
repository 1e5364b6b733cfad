//! From an AArch64 instruction's figures to the uops that are executed.
//!
//! Figures list what is executed in order; which part a uop plays follows from its
//! ports. Where one pipe takes a store's address and data in one uop, the same
//! ports are listed for both in `core.toml`.

mod compute;

use crate::block::uops::{Case, Expansion, From, Output, Outputs, Regs, Role, Source, Sources, Uop};
use crate::core::figures::Figures;
use crate::core::params::Params;
use crate::isa::arm64::work::BASE;
use crate::isa::inst::{Decoded, Mem, Reg, NO_REG, VECTOR};
use smallvec::smallvec;

pub(crate) struct Builder<'a> {
    pub(crate) d: &'a Decoded,
    pub(crate) figures: &'a Figures,
    pub(crate) params: &'a Params,
    pub(crate) uops: Vec<Uop>,
}

/// Make the uops of an instruction.
pub fn expand(d: &Decoded, figures: &Figures, case: Case, params: &Params) -> Expansion {
    let mut builder = Builder {
        d,
        figures,
        params,
        uops: Vec::new(),
    };
    match d.mems.first() {
        Some(mem) => builder.memory(mem, case),
        None => builder.computes(),
    }
    for uop in builder.uops.iter_mut().filter(|u| u.role == Role::Compute) {
        uop.port_cycles = uop.port_cycles.max(figures.hold);
    }
    if figures.busy > 1 {
        if let Some(uop) = builder.uops.iter_mut().min_by_key(|u| u.ports.count_ones()) {
            uop.busy = figures.busy;
        }
    }
    let uops = builder.uops;
    Expansion {
        fused: slots(uops.len(), usize::from(figures.shape.slots.max(1))),
        ms: 0,
        uops,
    }
}

/// Give uops to dispatch slots in order, as evenly as it goes.
fn slots(uops: usize, count: usize) -> Vec<Vec<Vec<u16>>> {
    (0..count)
        .map(|n| vec![(n * uops / count..(n + 1) * uops / count).map(|u| u as u16).collect()])
        .collect()
}

pub(crate) fn now(from: From) -> Source {
    Source { from, extra: 0 }
}

impl Builder<'_> {
    pub(crate) fn push(&mut self, uop: Uop) -> u16 {
        self.uops.push(uop);
        (self.uops.len() - 1) as u16
    }

    fn mask(&self, list: &str) -> u32 {
        self.params.mask(list).unwrap_or(0)
    }

    fn memory(&mut self, mem: &Mem, case: Case) {
        let ports = &self.params.ports;
        let (load, address, data) = (
            self.mask(&ports.load),
            self.mask(&ports.store_address),
            self.mask(&ports.store_data),
        );
        let (mut loads, mut addresses, mut datas, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for &p in &self.figures.shape.ports {
            match p {
                _ if mem.write && p & !data == 0 => datas.push(p),
                _ if mem.write && p & !address == 0 => addresses.push(p),
                _ if mem.read && p & !load == 0 => loads.push(p),
                _ => others.push(p),
            }
        }
        let mut place: Sources = [mem.base, mem.index]
            .iter()
            .filter(|r| **r != NO_REG)
            .map(|r| now(From::Reg(*r)))
            .collect();
        let moved_on = self.d.writes.iter().find(|w| w.0 == BASE).map(|w| w.1);
        let mut before = 0;
        if mem.index != NO_REG && moved_on.is_none() && !others.is_empty() {
            let ports = others.remove(0);
            let id = self.push(Uop::new(
                ports,
                Role::Compute,
                place,
                smallvec![Output {
                    latency: 1,
                    regs: Regs::new(),
                }],
            ));
            place = smallvec![now(From::Inner(id))];
            before = 1;
        }
        if mem.read {
            self.loads(&loads, mem, &place, case, before);
        } else {
            self.stores(&addresses, &datas, &place);
        }
        if let Some(base) = moved_on {
            let ports = others.pop().unwrap_or_else(|| self.mask(&self.params.ports.alu));
            let step = self
                .d
                .reads
                .iter()
                .filter(|r| r.0 == BASE || r.0 == crate::isa::arm64::work::INDEX)
                .map(|r| now(From::Reg(r.1)));
            let outputs = smallvec![Output {
                latency: 1,
                regs: smallvec![base],
            }];
            let step = step.collect();
            self.push(Uop::new(ports, Role::Compute, step, outputs));
        }
        self.merges(&mut others);
        for ports in others {
            self.push(Uop::new(ports, Role::Compute, place.clone(), Outputs::new()));
        }
    }

    /// A load into one element: what was loaded is put into the register by a uop of its own.
    fn merges(&mut self, others: &mut Vec<u32>) {
        let kept = self.d.reads.iter().find(|r| r.0 < BASE).map(|r| r.1);
        let Some(load) = self
            .uops
            .iter()
            .position(|u| u.role == Role::Load && !u.outputs[0].regs.is_empty())
        else {
            return;
        };
        if let (Some(kept), false) = (kept, others.is_empty()) {
            let merge = self.params.memory.element_cycles;
            let total = self.uops[load].outputs[0].latency;
            let regs = std::mem::take(&mut self.uops[load].outputs[0].regs);
            self.uops[load].outputs[0].latency = total.saturating_sub(merge).max(1);
            let sources = smallvec![now(From::Inner(load as u16)), now(From::Reg(kept))];
            let ports = others.remove(0);
            self.push(Uop::new(
                ports,
                Role::Compute,
                sources,
                smallvec![Output { latency: merge, regs }],
            ));
        }
    }

    /// Registers that an access loads or stores.
    fn loaded(&self) -> Vec<Reg> {
        self.d.writes.iter().filter(|w| w.0 != BASE).map(|w| w.1).collect()
    }

    fn loads(&mut self, ports: &[u32], mem: &Mem, place: &[Source], case: Case, before: u32) {
        let regs = self.loaded();
        let m = &self.params.memory;
        let vector = regs.first().is_some_and(|r| (VECTOR..VECTOR + 32).contains(r));
        let usual = if vector { m.load_vector_cycles } else { m.load_cycles };
        let mut latency = self
            .figures
            .address
            .first()
            .map_or(usual, |a| a.1)
            .saturating_sub(before)
            .max(1)
            + m.miss_cycles;
        let mut sources = Sources::from(place);
        if let (Some((store, back)), true) = (case.forwards[0], mem.read) {
            sources.push(Source {
                from: From::Store(store, back),
                extra: 1,
            });
            latency = m.forwarded(&case, 0, vector, false) - 1;
        }
        let count = ports.len().max(1);
        for (n, &ports) in ports.iter().enumerate() {
            // The registers are spread over the uops in order.
            let part = Regs::from(&regs[n * regs.len() / count..(n + 1) * regs.len() / count]);
            self.push(Uop::new(
                ports,
                Role::Load,
                sources.clone(),
                smallvec![Output { latency, regs: part }],
            ));
        }
    }

    /// The first data uop passes all of the data on to later loads.
    fn stores(&mut self, addresses: &[u32], datas: &[u32], place: &[Source]) {
        for (n, &ports) in addresses.iter().enumerate() {
            let role = if n == 0 { Role::StoreAddress } else { Role::Compute };
            self.push(Uop::new(
                ports,
                role,
                place.into(),
                smallvec![Output {
                    latency: 1,
                    regs: Regs::new(),
                }],
            ));
        }
        let mut sources: Sources = self
            .d
            .reads
            .iter()
            .filter(|r| r.0 < BASE)
            .map(|r| now(From::Reg(r.1)))
            .collect();
        if addresses.is_empty() {
            sources.extend_from_slice(place);
        }
        let usual = [self.mask(&self.params.ports.store_data)];
        let datas = if datas.is_empty() { &usual[..] } else { datas };
        for &ports in datas {
            // A load that reads it starts a cycle later at the earliest.
            self.push(Uop::new(
                ports,
                Role::StoreData,
                sources.clone(),
                smallvec![Output {
                    latency: 0,
                    regs: Regs::new(),
                }],
            ));
        }
    }
}
