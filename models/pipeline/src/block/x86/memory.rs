//! Memory: uops of loads and stores, their latencies and forwarding between them.

use crate::block::uops::{Case, From, Output, Regs, Role, Source, Sources, Uop};
use crate::block::x86::{Builder, Roles};
use crate::core::choice::{Renames, Updates};
use crate::isa::inst::{Mem, NO_REG};
use crate::isa::label::FLAGS;
use crate::isa::x86::registers::RSP;
use smallvec::smallvec;

impl Builder<'_> {
    pub(crate) fn address_sources(mem: &Mem) -> Sources {
        [mem.base, mem.index]
            .iter()
            .filter(|r| **r != NO_REG)
            .map(|r| Source {
                from: From::Reg(*r),
                extra: 0,
            })
            .collect()
    }

    pub(crate) fn load_latency(&self, mem: &Mem) -> u32 {
        let m = &self.params.memory;
        match (self.d.vector(), mem.bytes > 16) {
            (_, true) => m.load_256_cycles,
            (true, _) => m.load_vector_cycles,
            _ => m.load_cycles,
        }
    }

    /// Cycles that an access keeps its port.
    fn port_cycles(&self, mem: &Mem) -> u16 {
        let m = &self.params.memory;
        (match mem.bytes {
            0..=16 => 1,
            17..=32 => m.port_cycles_256,
            _ => m.port_cycles_256.max(m.port_cycles_512),
        }) as u16
    }

    pub(crate) fn loads(&mut self, ports: &[u32], case: Case) -> Vec<u16> {
        let read: Vec<Mem> = self.d.mems.iter().filter(|m| m.read).copied().collect();
        let mut out = Vec::new();
        for (n, &mask) in ports.iter().enumerate() {
            let n = if n < read.len() { n } else { 0 }; // further loads read parts of the first operand
            let Some(mem) = read.get(n) else {
                continue;
            };
            let mut sources = Self::address_sources(mem);
            let mut latency = self.load_latency(mem);
            if self.pure_load() {
                if let Some(listed) = self.figures.address.first() {
                    latency = listed.1.max(1);
                }
            }
            let indexed = mem.index != NO_REG;
            if indexed && (mem.scale > 1 || mem.base != NO_REG && mem.disp != 0) {
                latency += self.params.memory.complex_address_cycles;
            }
            if case.chased {
                latency = latency.saturating_sub(self.params.memory.pointer_chase_gain).max(1);
            }
            let whole = case.forwards.get(n).copied().flatten().filter(|_| !case.failed[n]);
            let known = |_: &(u16, u16)| case.exact[n] || self.params.memory.renamed_parts && case.lower[n];
            if let Some((store, back)) = self.renamed(mem, whole.filter(known), case.predicted) {
                sources = smallvec![Source {
                    from: From::Stored(store, back),
                    extra: 0,
                }];
                latency = self.params.memory.renamed_forward_cycles;
            } else if let Some(Some((store, back))) = case.forwards.get(n) {
                let m = &self.params.memory;
                sources.push(Source {
                    from: if case.waits[n] {
                        From::Committed(*store, *back)
                    } else {
                        From::Store(*store, *back)
                    },
                    extra: 1,
                });
                latency = m.forwarded(&case, n, self.d.vector(), mem.write) - 1;
            } else {
                latency += self.params.memory.miss_cycles;
            }
            let port_cycles = self.port_cycles(mem);
            let outputs = smallvec![Output {
                latency,
                regs: Regs::new(),
            }];
            let id = self.push(Uop {
                port_cycles,
                ..Uop::new(mask, Role::Load, sources, outputs)
            });
            out.push(id);
        }
        out
    }

    /// The store that a load is renamed to, on cores that do so.
    fn renamed(&self, mem: &Mem, forward: Option<(u16, u16)>, predicted: bool) -> Option<(u16, u16)> {
        let m = &self.params.memory;
        let known = match m.renames {
            Renames::None => false,
            Renames::Any => true,
            _ if predicted => true,
            Renames::Stack => mem.base == RSP && mem.index == NO_REG,
            Renames::Base => mem.index == NO_REG,
        };
        let alike = !mem.write || m.renamed_updates == Updates::Any || self.stored_registers(mem).is_empty();
        let near = m.renamed_reach == 0 || (0..=i64::from(m.renamed_reach)).contains(&mem.disp);
        let whole = mem.disp % i64::from(m.renamed_step) == 0 && u32::from(mem.bytes) >= m.renamed_bytes;
        let sized = m.renamed_words || mem.bytes != 2;
        forward.filter(|_| known && alike && near && whole && sized && !self.d.vector())
    }

    /// Whether the result comes straight from the load ports.
    pub(crate) fn pure_load(&self) -> bool {
        let load = self.params.mask(&self.params.ports.load).unwrap_or(0);
        let shape = self.figures.shape.ports.iter().all(|p| p & !load == 0);
        shape && !self.figures.shape.ports.is_empty()
    }

    /// Without computing uops the loads write the registers.
    pub(crate) fn load_results(&mut self, loads: &[u16]) {
        let regs: Regs = self.d.writes.iter().map(|w| w.1).collect();
        if let (Some(&id), false) = (loads.last(), regs.is_empty()) {
            self.uops[usize::from(id)].outputs[0].regs = regs;
        }
    }

    pub(crate) fn stores(&mut self, roles: &Roles, result: Option<u16>) {
        let written: Vec<Mem> = self.d.mems.iter().filter(|m| m.write).copied().collect();
        for n in 0..roles.addresses.len().max(roles.datas.len()) {
            let Some(mem) = written.get(n).or(written.first()) else {
                continue;
            };
            let port_cycles = self.port_cycles(mem);
            if let Some(&ports) = roles.addresses.get(n) {
                let sources = Self::address_sources(mem);
                let outputs = smallvec![Output {
                    latency: 1,
                    regs: Regs::new(),
                }];
                self.push(Uop::new(ports, Role::StoreAddress, sources, outputs));
            }
            let Some(&ports) = roles.datas.get(n) else { continue };
            let mut sources = match result {
                Some(id) => smallvec![Source {
                    from: From::Inner(id),
                    extra: 0,
                }],
                None => self.stored_registers(mem),
            };
            if roles.addresses.is_empty() {
                sources.extend(Self::address_sources(mem));
            }
            // A load that reads it starts a cycle later at the earliest.
            let outputs = smallvec![Output {
                latency: 0,
                regs: Regs::new(),
            }];
            self.push(Uop {
                port_cycles,
                ..Uop::new(ports, Role::StoreData, sources, outputs)
            });
        }
    }

    pub(crate) fn stored_registers(&self, mem: &Mem) -> Sources {
        self.d
            .reads
            .iter()
            .filter(|r| r.1 != mem.base && r.1 != mem.index || r.0 < FLAGS)
            .map(|r| Source {
                from: From::Reg(r.1),
                extra: 0,
            })
            .collect()
    }
}
