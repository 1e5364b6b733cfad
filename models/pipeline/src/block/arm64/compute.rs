//! Uops of AArch64 instructions that compute: how their latencies are shared out.

use crate::block::arm64::{now, Builder};
use crate::block::uops::{From, Output, Outputs, Regs, Role, Source, Sources, Uop};
use crate::isa::inst::Branch;
use crate::isa::label::{Label, MEM};
use smallvec::smallvec;

impl Builder<'_> {
    /// Cycles from an input to the results; `None`: independent.
    fn latency(&self, from: Label) -> Option<u32> {
        let to = self.d.writes.first().map_or(MEM, |w| w.0);
        match self.figures.between(from, to) {
            Some(0) => None,
            Some(cycles) => Some(cycles),
            None => Some(self.figures.longest()),
        }
    }

    pub(crate) fn computes(&mut self) {
        let ports = &self.figures.shape.ports;
        let inputs: Vec<(Source, u32)> = self
            .d
            .reads
            .iter()
            .filter_map(|r| Some((now(From::Reg(r.1)), self.latency(r.0)?)))
            .collect();
        let regs: Regs = self.d.writes.iter().map(|w| w.1).collect();
        let (Some(&last), count) = (ports.last(), ports.len()) else {
            return;
        };
        if self.d.branch != Branch::No {
            // The link register is written by the uop that is no branch, if there is one.
            let link = if count == 1 {
                smallvec![Output {
                    latency: 1,
                    regs: regs.clone(),
                }]
            } else {
                Outputs::new()
            };
            self.push(Uop::new(
                ports[0],
                Role::Compute,
                inputs.iter().map(|i| i.0).collect(),
                link,
            ));
            for &other in &ports[1..] {
                self.push(Uop::new(
                    other,
                    Role::Compute,
                    Sources::new(),
                    smallvec![Output {
                        latency: 1,
                        regs: regs.clone(),
                    }],
                ));
            }
            return;
        }
        let least = inputs
            .iter()
            .map(|i| i.1)
            .min()
            .unwrap_or_else(|| self.figures.longest());
        let later = |uop: &[(Source, u32)], by: u32| {
            uop.iter()
                .map(|(s, cycles)| Source {
                    from: s.from,
                    extra: cycles.saturating_sub(by) as u16,
                })
                .collect::<Sources>()
        };
        if count == 1 {
            self.push(Uop::new(
                last,
                Role::Compute,
                later(&inputs, least),
                smallvec![Output { latency: least, regs }],
            ));
            return;
        }
        // What the result needs last, as the sum that products are added to, goes to the last uop.
        let most = inputs.iter().map(|i| i.1).max().unwrap_or(least);
        let (early, late): (Vec<_>, Vec<_>) = inputs.iter().partition(|i| i.1 == most && most > least);
        let (early, late, end) = if early.is_empty() {
            (late, Vec::new(), 1)
        } else {
            (early, late, least)
        };
        let first = self.push(Uop::new(
            ports[0],
            Role::Compute,
            later(&early, most),
            smallvec![Output {
                latency: most.saturating_sub(end).max(1),
                regs: Regs::new(),
            }],
        ));
        for &middle in &ports[1..count - 1] {
            self.push(Uop::new(middle, Role::Compute, later(&early, most), Outputs::new()));
        }
        let mut sources = later(&late, end);
        sources.push(now(From::Inner(first)));
        self.push(Uop::new(
            last,
            Role::Compute,
            sources,
            smallvec![Output { latency: end, regs }],
        ));
    }
}
