//! From an AArch64 instruction's figures to the uops that are executed.
//!
//! Figures list what is executed in order; which part a uop plays follows from its
//! ports. Where one pipe takes a store's address and data in one uop, the same
//! ports are listed for both in `core.toml`.

use crate::arm64::BASE;
use crate::figures::{Figures, Label, MEM};
use crate::inst::{Branch, Decoded, Mem, Reg, NO_REG, VECTOR};
use crate::params::Params;
use crate::uops::{Case, Expansion, From, Output, Role, Source, Uop};

struct Builder<'a> {
    d: &'a Decoded,
    figures: &'a Figures,
    params: &'a Params,
    uops: Vec<Uop>,
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
    if figures.busy > 1 {
        if let Some(uop) = builder.uops.iter_mut().min_by_key(|u| u.ports.count_ones()) {
            uop.busy = figures.busy;
        }
    }
    let uops = builder.uops;
    Expansion {
        fused: slots(uops.len(), usize::from(figures.shape.issue.max(1))),
        ms: 0,
        uops,
    }
}

/// Give uops to issue slots in order, as evenly as it goes.
fn slots(uops: usize, count: usize) -> Vec<Vec<Vec<u16>>> {
    (0..count)
        .map(|n| vec![(n * uops / count..(n + 1) * uops / count).map(|u| u as u16).collect()])
        .collect()
}

fn uop(ports: u32, role: Role, sources: Vec<Source>, outputs: Vec<Output>) -> Uop {
    Uop {
        ports,
        role,
        sources,
        outputs,
        port_cycles: 1,
        busy: 0,
        streamed: 0,
        split: None,
    }
}

fn now(from: From) -> Source {
    Source { from, extra: 0 }
}

impl Builder<'_> {
    fn push(&mut self, uop: Uop) -> u16 {
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
        let mut place: Vec<Source> = [mem.base, mem.index]
            .iter()
            .filter(|r| **r != NO_REG)
            .map(|r| now(From::Reg(*r)))
            .collect();
        let moved_on = self.d.writes.iter().find(|w| w.0 == BASE).map(|w| w.1);
        let mut before = 0;
        if mem.index != NO_REG && moved_on.is_none() && !others.is_empty() {
            let ports = others.remove(0);
            let id = self.push(uop(
                ports,
                Role::Compute,
                place,
                vec![Output {
                    latency: 1,
                    regs: Vec::new(),
                }],
            ));
            place = vec![now(From::Inner(id))];
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
                .filter(|r| r.0 == BASE || r.0 == crate::arm64::INDEX)
                .map(|r| now(From::Reg(r.1)));
            let outputs = vec![Output {
                latency: 1,
                regs: vec![base],
            }];
            let step = step.collect();
            self.push(uop(ports, Role::Compute, step, outputs));
        }
        for ports in others {
            self.push(uop(ports, Role::Compute, place.clone(), Vec::new()));
        }
    }

    /// Registers that an access loads or stores.
    fn loaded(&self) -> Vec<Reg> {
        self.d.writes.iter().filter(|w| w.0 != BASE).map(|w| w.1).collect()
    }

    fn loads(&mut self, ports: &[u32], mem: &Mem, place: &[Source], case: Case, before: u16) {
        let regs = self.loaded();
        let m = &self.params.memory;
        let vector = regs.first().is_some_and(|r| (VECTOR..VECTOR + 32).contains(r));
        let usual = if vector { m.load_vector_cycles } else { m.load_cycles } as u16;
        let mut latency = self
            .figures
            .address
            .first()
            .map_or(usual, |a| a.1)
            .saturating_sub(before)
            .max(1);
        let mut sources = place.to_vec();
        if let (Some((store, back)), true) = (case.forwards[0], mem.read) {
            sources.push(Source {
                from: From::Store(store, back),
                extra: 1,
            });
            latency = (m.forward_cycles as u16).saturating_sub(1).max(1);
        }
        let count = ports.len().max(1);
        for (n, &ports) in ports.iter().enumerate() {
            // The registers are spread over the uops in order.
            let part = regs[n * regs.len() / count..(n + 1) * regs.len() / count].to_vec();
            self.push(uop(
                ports,
                Role::Load,
                sources.clone(),
                vec![Output { latency, regs: part }],
            ));
        }
    }

    /// The first data uop passes all of the data on to later loads.
    fn stores(&mut self, addresses: &[u32], datas: &[u32], place: &[Source]) {
        for (n, &ports) in addresses.iter().enumerate() {
            let role = if n == 0 { Role::StoreAddress } else { Role::Compute };
            self.push(uop(
                ports,
                role,
                place.to_vec(),
                vec![Output {
                    latency: 1,
                    regs: Vec::new(),
                }],
            ));
        }
        let mut sources: Vec<Source> = self
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
            self.push(uop(
                ports,
                Role::StoreData,
                sources.clone(),
                vec![Output {
                    latency: 0,
                    regs: Vec::new(),
                }],
            ));
        }
    }

    /// Cycles from an input to the results; `None`: independent.
    fn latency(&self, from: Label) -> Option<u16> {
        let to = self.d.writes.first().map_or(MEM, |w| w.0);
        match self.figures.between(from, to) {
            Some(0) => None,
            Some(cycles) => Some(cycles),
            None => Some(self.figures.longest()),
        }
    }

    fn computes(&mut self) {
        let ports = &self.figures.shape.ports;
        let inputs: Vec<(Source, u16)> = self
            .d
            .reads
            .iter()
            .filter_map(|r| Some((now(From::Reg(r.1)), self.latency(r.0)?)))
            .collect();
        let regs: Vec<Reg> = self.d.writes.iter().map(|w| w.1).collect();
        let (Some(&last), count) = (ports.last(), ports.len()) else {
            return;
        };
        if self.d.branch != Branch::No {
            // The link register is written by the uop that is no branch, if there is one.
            let link = if count == 1 {
                vec![Output {
                    latency: 1,
                    regs: regs.clone(),
                }]
            } else {
                Vec::new()
            };
            self.push(uop(ports[0], Role::Compute, inputs.iter().map(|i| i.0).collect(), link));
            for &other in &ports[1..] {
                self.push(uop(
                    other,
                    Role::Compute,
                    Vec::new(),
                    vec![Output {
                        latency: 1,
                        regs: regs.clone(),
                    }],
                ));
            }
            return;
        }
        let total = self.figures.longest();
        if count == 1 {
            let least = inputs.iter().map(|i| i.1).min().unwrap_or(total);
            let sources = inputs
                .iter()
                .map(|(s, cycles)| Source {
                    from: s.from,
                    extra: cycles - least,
                })
                .collect();
            self.push(uop(last, Role::Compute, sources, vec![Output { latency: least, regs }]));
            return;
        }
        let all: Vec<Source> = inputs.iter().map(|i| i.0).collect();
        let early = vec![Output {
            latency: total.saturating_sub(1).max(1),
            regs: Vec::new(),
        }];
        let first = self.push(uop(ports[0], Role::Compute, all.clone(), early));
        for &middle in &ports[1..count - 1] {
            self.push(uop(middle, Role::Compute, all.clone(), Vec::new()));
        }
        self.push(uop(
            last,
            Role::Compute,
            vec![now(From::Inner(first))],
            vec![Output { latency: 1, regs }],
        ));
    }
}
