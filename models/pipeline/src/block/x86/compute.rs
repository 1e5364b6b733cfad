//! Uops that compute: their number and ports are measured, and so are the latencies
//! between operands; the dependencies between the uops are made up to match them.

use crate::block::uops::{From, Output, Outputs, Regs, Role, Source, Sources, Uop};
use crate::block::x86::Builder;
use crate::isa::inst::{Reg, NO_REG};
use crate::isa::label::{fixed, Label, ANY, FLAGS, INDEX, MEM};
use crate::isa::x86::registers::{RDI, RSI};
use smallvec::smallvec;

/// A set of outputs with the same latency from every input.
pub(crate) struct Profile {
    pub(crate) outputs: Vec<(Label, Reg)>,
    pub(crate) from: Vec<(Source, u32)>,
    /// Outputs of the same uop that come some cycles later.
    later: Vec<(u32, Regs)>,
}

impl Builder<'_> {
    /// Inputs of the computation: label and source.
    pub(crate) fn inputs(&self, loads: &[u16], drop: bool) -> Vec<(Label, Source)> {
        let mut inputs: Vec<(Label, Source)> = Vec::new();
        if !drop {
            for &(label, reg) in &self.d.reads {
                inputs.push((
                    label,
                    Source {
                        from: From::Reg(reg),
                        extra: self.high_byte_cycles(label, reg),
                    },
                ));
            }
        }
        for &(label, reg) in self.d.writes.iter().filter(|w| !drop && self.waits_for_result(**w)) {
            inputs.push((
                label,
                Source {
                    from: From::Reg(reg),
                    extra: 0,
                },
            ));
        }
        for &id in loads {
            let direct = self.uops[usize::from(id)].sources.first().map(|s| s.from);
            let from = match direct {
                Some(stored @ From::Stored(..)) => stored,
                _ => From::Inner(id),
            };
            inputs.push((MEM, Source { from, extra: 0 }));
        }
        inputs
    }

    /// Extra cycles of a read of a high byte that is not apart from its register.
    fn high_byte_cycles(&self, label: Label, reg: Reg) -> u16 {
        let high = self
            .d
            .high
            .iter()
            .any(|byte| byte.read && (byte.label, byte.reg) == (label, reg));
        u16::from(high) * self.params.rename.high_byte_read_cycles as u16
    }

    /// Whether an instruction waits for the old value of a register that it only writes: the figures
    /// list cycles from there.
    fn waits_for_result(&self, (label, reg): (Label, Reg)) -> bool {
        let known = self.d.reads.iter().any(|r| r.1 == reg);
        !known && label < FLAGS && self.figures.latency.iter().any(|l| l.0 == label && l.2 > 0)
    }

    /// Whether a register is the pointer of a string instruction, which moves on whatever is loaded.
    fn moves_on(&self, (label, reg): (Label, Reg)) -> bool {
        label == fixed(reg) && [RSI, RDI].contains(&reg) && self.d.mems.iter().any(|m| m.base == reg)
    }

    /// Let the load of a string instruction write its register, where its one uop that computes moves
    /// the pointer on.
    fn loads_beside_pointers(&mut self, load: u16, profiles: &mut Vec<Profile>) {
        let moves = |p: &Profile| p.outputs.iter().any(|o| self.moves_on(*o));
        if !profiles.iter().any(moves) {
            return;
        }
        let (kept, loaded): (Vec<_>, Vec<_>) = std::mem::take(profiles).into_iter().partition(moves);
        *profiles = kept;
        self.uops[usize::from(load)].outputs[0].regs = loaded.iter().flat_map(|p| &p.outputs).map(|o| o.1).collect();
    }

    /// Latency from an input to an output; `None`: independent.
    pub(crate) fn latency(&self, from: Label, to: Label) -> Option<u32> {
        let figures = self.figures;
        if let (true, Some(cycles)) = (self.d.same, figures.same_latency.filter(|_| figures.same.is_some())) {
            return Some(cycles);
        }
        if from == INDEX {
            if let Some(cycles) = figures.from_index(to).or(figures.from_address(to)) {
                return Some(cycles.max(1));
            }
        }
        if from == MEM {
            if let Some(total) = figures.from_address(to) {
                if self.d.mems.is_empty() {
                    return Some(total.max(1));
                }
                // Of what rename forwards to itself nothing is left of the way through memory.
                if total == 0 {
                    return (to == MEM).then_some(1);
                }
                let load = self.d.mems.iter().find(|m| m.read).map_or(0, |m| self.load_latency(m));
                return Some(total.saturating_sub(load).max(1));
            }
        }
        match figures.between(from, to) {
            Some(0) => None,
            Some(cycles) => Some(cycles),
            None => Some(self.default_latency(to)),
        }
    }

    pub(crate) fn default_latency(&self, to: Label) -> u32 {
        let listed = self
            .figures
            .latency
            .iter()
            .filter(|l| l.1 == to || l.1 == ANY)
            .map(|l| l.2)
            .max();
        if to == MEM {
            return 1;
        }
        listed.unwrap_or_else(|| self.figures.longest()).max(1)
    }

    pub(crate) fn profiles(&self, inputs: &[(Label, Source)], to_memory: bool) -> Vec<Profile> {
        let mut profiles: Vec<Profile> = Vec::new();
        let mut targets: Vec<(Label, Reg)> = self.d.writes.clone();
        if to_memory {
            targets.push((MEM, NO_REG));
        }
        for (label, reg) in targets {
            let alone = self.moves_on((label, reg));
            let from: Vec<(Source, u32)> = inputs
                .iter()
                .filter(|(l, _)| *l == label || !alone)
                .filter_map(|(l, s)| Some((*s, self.latency(*l, label)? + u32::from(s.extra))))
                .collect();
            let alike = |p: &Profile| {
                p.from.len() == from.len()
                    && p.from
                        .iter()
                        .zip(&from)
                        .all(|(a, b)| a.1 == b.1 && a.0.from == b.0.from)
            };
            match profiles.iter_mut().find(|p| alike(p)) {
                Some(profile) => profile.outputs.push((label, reg)),
                None => profiles.push(Profile {
                    outputs: vec![(label, reg)],
                    from,
                    later: Vec::new(),
                }),
            }
        }
        profiles.sort_by_key(|p| p.from.iter().map(|f| f.1).max().unwrap_or(0));
        profiles
    }

    /// Make the computing uops; returns the one whose result a store takes.
    pub(crate) fn computes(&mut self, ports: &[u32], loads: &[u16], drop: bool, to_memory: bool) -> Option<u16> {
        if ports.is_empty() {
            self.load_results(loads);
            return None;
        }
        let stores_result = to_memory && (self.d.mems.iter().any(|m| m.read && m.write) || self.d.writes.is_empty());
        let inputs = self.inputs(loads, drop);
        let mut profiles = self.profiles(&inputs, stores_result);
        if self.params.rename.result_first {
            if let Some(result) = self.result_first(ports, &inputs, &profiles) {
                return Some(result);
            }
        }
        if let (Some(&load), true) = (loads.last(), profiles.len() > ports.len()) {
            self.loads_beside_pointers(load, &mut profiles);
        }
        let mut masks = ports.to_vec();
        let slow = profiles.iter().flat_map(|p| &p.from).any(|f| f.1 >= 3);
        masks.sort_by_key(|m| {
            if slow {
                m.count_ones() as i32
            } else {
                -(m.count_ones() as i32)
            }
        });
        while profiles.len() > masks.len() {
            let Some(extra) = profiles.pop() else { break };
            let Some(last) = profiles.last_mut() else { break };
            if let Some(lag) = lag(last, &extra) {
                let regs = extra.outputs.iter().map(|o| o.1).collect();
                last.later = extra.later.into_iter().map(|l| (l.0 + lag, l.1)).collect();
                last.later.push((lag, regs));
                continue;
            }
            last.outputs.extend(extra.outputs);
            for (source, latency) in extra.from {
                match last.from.iter_mut().find(|f| f.0.from == source.from) {
                    Some(known) => known.1 = known.1.max(latency),
                    None => last.from.push((source, latency)),
                }
            }
        }
        let mut spare = masks.len() - profiles.len();
        let mut masks = masks.into_iter();
        let mut memory_uop = None;
        let mut previous: Option<(u16, Vec<(Source, u32)>)> = None;
        for profile in profiles {
            let least = profile.from.iter().map(|f| f.1).min().unwrap_or(1);
            let most = profile.from.iter().map(|f| f.1).max().unwrap_or(1);
            let mut sources = Sources::new();
            let mut latency = least;
            let mut rest = profile.from.clone();
            if let Some((before, inner)) = chain_step(previous.as_ref(), &profile.from) {
                sources.push(Source {
                    from: From::Inner(before),
                    extra: 0,
                });
                rest.retain(|f| !inner.contains(&f.0.from));
                latency = chain_latency(previous.as_ref(), &profile.from)
                    .unwrap_or(latency)
                    .min(latency)
                    .max(1);
            } else if spare > 0 && most >= 2 && !rest.is_empty() {
                spare -= 1;
                let (early_latency, late_latency) = if most > least {
                    (most - least, least)
                } else {
                    (most - 1, 1)
                };
                let (early, late): (Vec<_>, Vec<_>) = rest.iter().copied().partition(|f| f.1 == most);
                let mask = masks.next().unwrap_or(ports[0]);
                let early = early.iter().map(|f| f.0).collect();
                let id = self.push(Uop::new(
                    mask,
                    Role::Compute,
                    early,
                    smallvec![Output {
                        latency: early_latency,
                        regs: Regs::new(),
                    }],
                ));
                sources.push(Source {
                    from: From::Inner(id),
                    extra: 0,
                });
                rest = late;
                latency = late_latency.max(1);
            }
            for (source, cycles) in &rest {
                sources.push(Source {
                    from: source.from,
                    extra: cycles.saturating_sub(latency) as u16,
                });
            }
            if sources.is_empty() && profile.outputs.iter().all(|o| o.0 == MEM) {
                // The constant of a store goes behind its address.
                let written = self.d.mems.iter().find(|m| m.write);
                sources = written.map(Self::address_sources).unwrap_or_default();
            }
            let regs = profile.outputs.iter().map(|o| o.1).filter(|r| *r != NO_REG).collect();
            let mask = masks.next().unwrap_or(ports[0]);
            let mut outputs: Outputs = smallvec![Output { latency, regs }];
            outputs.extend(profile.later.into_iter().map(|(lag, regs)| Output {
                latency: latency + lag,
                regs,
            }));
            let id = self.push(Uop::new(mask, Role::Compute, sources, outputs));
            if profile.outputs.iter().any(|o| o.0 == MEM) {
                memory_uop = Some(id);
            }
            previous = Some((id, profile.from));
        }
        let all: Sources = inputs.iter().map(|i| i.1).collect();
        for mask in masks {
            self.push(Uop::new(mask, Role::Compute, all.clone(), Outputs::new()));
        }
        memory_uop
    }
}

/// Cycles that all outputs of the second profile come later than those of the first, whatever the
/// input; the data of a store is always the first output.
fn lag(first: &Profile, second: &Profile) -> Option<u32> {
    let whole = first.from.len() == second.from.len() && second.outputs.iter().all(|o| o.0 != MEM);
    let constant = |difference: &u32| {
        let alike = |f: &(Source, u32)| {
            let late = second.from.iter().find(|s| s.0.from == f.0.from);
            late.is_some_and(|s| s.1.checked_sub(f.1) == Some(*difference))
        };
        first.from.iter().all(alike)
    };
    let (early, late) = (first.from.first()?, second.from.first()?);
    late.1.checked_sub(early.1).filter(|d| whole && constant(d))
}

/// If every latency is that of the previous profile plus the same number of cycles:
/// the uop to depend on and the inputs that it covers.
pub(crate) fn chain_step(
    previous: Option<&(u16, Vec<(Source, u32)>)>,
    from: &[(Source, u32)],
) -> Option<(u16, Vec<From>)> {
    chain_latency(previous, from)?;
    let (id, before) = previous?;
    Some((*id, before.iter().map(|f| f.0.from).collect()))
}

fn chain_latency(previous: Option<&(u16, Vec<(Source, u32)>)>, from: &[(Source, u32)]) -> Option<u32> {
    let (_, before) = previous?;
    let mut step = None;
    for (source, cycles) in before {
        let later = from.iter().find(|f| f.0.from == source.from)?.1;
        let difference = later.checked_sub(*cycles).filter(|d| *d > 0)?;
        if *step.get_or_insert(difference) != difference {
            return None;
        }
    }
    step
}
