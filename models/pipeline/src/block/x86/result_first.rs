//! Several computing uops of an instruction, of which the one for the ports listed first makes the results.

use crate::block::uops::{From, Output, Outputs, Regs, Role, Source, Sources, Uop};
use crate::block::x86::compute::{chain_step, Profile};
use crate::block::x86::Builder;
use crate::isa::inst::NO_REG;
use crate::isa::label::{Label, FLAGS, MEM};
use smallvec::smallvec;

impl Builder<'_> {
    /// Make such uops for these ports; returns the one whose result a store takes, or `None` if these results
    /// need other uops: some of them do not wait for all inputs.
    pub(crate) fn result_first(
        &mut self,
        ports: &[u32],
        inputs: &[(Label, Source)],
        profiles: &[Profile],
    ) -> Option<u16> {
        if ports.len() < 2 || profiles.is_empty() {
            return None;
        }
        if profiles.iter().any(|p| p.from.len() != inputs.len()) {
            return self.result_then_flags(ports, inputs, profiles);
        }
        // Inputs by the cycles that they need at most, those of the fewest first; flags count where nothing else does.
        let flags = |p: &&Profile| p.outputs.iter().all(|o| o.0 == FLAGS);
        let others = profiles.iter().any(|p| !flags(&p));
        let counted: Vec<&Profile> = profiles.iter().filter(|p| !others || !flags(p)).collect();
        let most = |n: usize| counted.iter().map(|p| p.from[n].1).max().unwrap_or(1);
        let mut levels: Vec<(u32, Sources)> = Vec::new();
        for (n, (_, source)) in inputs.iter().enumerate() {
            match levels.iter_mut().find(|level| level.0 == most(n)) {
                Some(level) => level.1.push(Source { extra: 0, ..*source }),
                None => levels.push((most(n), smallvec![Source { extra: 0, ..*source }])),
            }
        }
        levels.sort_by_key(|level| level.0);
        let least = levels.first().map_or(1, |level| level.0);
        let soonest = |profile: &Profile| {
            let first = (0..inputs.len()).filter(|n| most(*n) == least);
            first.map(|n| profile.from[n].1).max().unwrap_or(1)
        };
        // Flags that are measured to come sooner than these uops would make them need others.
        let flags_listed = |p: &&Profile| {
            p.outputs
                .iter()
                .any(|o| self.figures.latency.iter().any(|l| l.1 == o.0))
        };
        let sooner = |p: &Profile| (0..inputs.len()).any(|n| p.from[n].1 < soonest(p) + most(n) - least);
        if profiles.iter().filter(|p| flags(p) && flags_listed(p)).any(sooner) {
            return None;
        }
        let mut outputs: Outputs = Outputs::new();
        for profile in profiles {
            let latency = soonest(profile);
            let regs: Regs = profile.outputs.iter().map(|o| o.1).filter(|r| *r != NO_REG).collect();
            let stored = profile.outputs.iter().any(|o| o.0 == MEM);
            match outputs.iter_mut().find(|o| o.latency == latency) {
                Some(output) if !stored => output.regs.extend(regs),
                _ => outputs.insert(if stored { 0 } else { outputs.len() }, Output { latency, regs }),
            }
        }
        let mut sources = levels.first().map(|level| level.1.clone()).unwrap_or_default();
        let apart = (levels.len().max(1) - 1).min(ports.len() - 1);
        for (&mask, (cycles, late)) in ports[1..].iter().zip(&levels[1.min(levels.len())..]).rev() {
            let id = self.compute(mask, late.clone(), smallvec![inner(cycles - least)]);
            sources.push(result_of(id));
        }
        for (cycles, late) in levels.iter().skip(1 + apart) {
            sources.extend(late.iter().map(|s| Source {
                extra: (cycles - least) as u16,
                ..*s
            }));
        }
        let result = self.compute(ports[0], sources, outputs);
        let all: Sources = inputs.iter().map(|i| i.1).collect();
        for &mask in &ports[1 + apart..] {
            self.compute(mask, all.clone(), Outputs::new());
        }
        Some(result)
    }

    /// Three uops, where the flags follow from the result and from the flags before: shifts by `cl`.
    fn result_then_flags(&mut self, ports: &[u32], inputs: &[(Label, Source)], profiles: &[Profile]) -> Option<u16> {
        let ([first, second], [result_ports, old_ports, flag_ports]) = (profiles, ports) else {
            return None;
        };
        let (_, covered) = chain_step(Some(&(0, first.from.clone())), &second.from)?;
        let is_old = |f: &&(Source, u32)| !covered.contains(&f.0.from);
        let old: Sources = second.from.iter().filter(is_old).map(|f| f.0).collect();
        if old.is_empty() || inputs.iter().any(|i| i.0 == MEM) {
            return None;
        }
        let cycles = |p: &Profile| p.from.iter().map(|f| f.1).max().unwrap_or(1);
        let regs = |p: &Profile| p.outputs.iter().map(|o| o.1).collect::<Regs>();
        let sources = first.from.iter().map(|f| f.0).collect();
        let result = self.compute(
            *result_ports,
            sources,
            smallvec![Output {
                latency: cycles(first),
                regs: regs(first)
            }],
        );
        let step = cycles(second) - cycles(first);
        let before = self.compute(*old_ports, old, smallvec![inner(cycles(second).saturating_sub(step))]);
        let outputs = smallvec![Output {
            latency: step,
            regs: regs(second)
        }];
        self.compute(*flag_ports, smallvec![result_of(result), result_of(before)], outputs);
        Some(result)
    }

    fn compute(&mut self, ports: u32, sources: Sources, outputs: Outputs) -> u16 {
        self.push(Uop::new(ports, Role::Compute, sources, outputs))
    }
}

/// A result that other uops of the instruction alone read.
fn inner(cycles: u32) -> Output {
    Output {
        latency: cycles.max(1),
        regs: Regs::new(),
    }
}

/// The first result of a uop of the instruction.
fn result_of(uop: u16) -> Source {
    Source {
        from: From::Inner(uop),
        extra: 0,
    }
}
