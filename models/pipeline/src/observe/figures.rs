//! The cycles of a block by each limit alone, as if the core had no other.

use crate::block::cut::Cut;
use crate::block::uops::Uop;
use crate::block::Block;
use crate::core::params::Params;
use crate::engine::machine::Machine;
use crate::engine::steady::run;
use crate::observe::bottleneck::{names_microcode, port_sets};
use crate::observe::chains;
use crate::observe::lift::{cycles, relieved, Limit};
use crate::observe::limits::{word, Observed};
use crate::observe::usage::Usage;
use crate::observe::watch::Watch;

/// Two figures that differ by less say the same.
const ALIKE: f64 = 1.02;

/// One limit of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// `ports`, `dependencies`, or the words that a bottleneck has for it.
    pub limit: String,
    /// Cycles per iteration by this limit alone; `None` where that is not known.
    pub cycles: Option<f64>,
    /// Ports, one bit each.
    pub ports: u32,
    /// Cycles of those ports that an iteration takes.
    pub taken: f64,
    /// Instructions: of a chain in the order in which they wait for each other.
    pub instructions: Vec<u16>,
    /// Whether the block is faster without it, or without it and the others that are marked.
    pub binds: bool,
}

impl Figure {
    /// The names of its ports.
    pub fn port_names(&self, params: &Params) -> String {
        let names = params.ports.names.chars().enumerate();
        names
            .filter(|(n, _)| self.ports & 1 << n != 0)
            .map(|(_, name)| name)
            .collect()
    }
}

/// The limits of a block, each with its figure, and those that bind.
///
/// Ports are counted: the most of their cycles that uops take that can use no others. The rest is
/// simulated on a core where nothing else limits. Limits that then do not act are left out.
pub fn of(block: &Block, params: &Params, seen: &Observed, usage: Option<&Usage>, binding: &[Limit]) -> Vec<Figure> {
    if names_microcode(block) {
        return Vec::new();
    }
    let (limits, front) = (seen.limits(block, params), seen.front_end(block, params));
    let others = |limit: &Limit| limits.iter().filter(|l| *l != limit).cloned().collect::<Vec<_>>();
    let least = cycles(block, params, &limits).unwrap_or(0.0);
    let mut out = Vec::new();
    for limit in &limits {
        match limit {
            Limit::Ports(_) => out.push(ports(block, usage)),
            Limit::Divider => out.push(divider(block, params, seen)),
            Limit::BlockedLoads => out.push(Figure {
                instructions: owners(block, Uop::blocked),
                ..alone(block, params, seen, limit, cycles(block, params, &others(limit)))
            }),
            Limit::FrontEnd => {
                for part in &front {
                    let rest = front.iter().filter(|p| *p != part).cloned();
                    let mut lifted: Vec<Limit> = others(limit).into_iter().chain(rest).collect();
                    // It begins again with a group of its own, as wide as dispatch; without a uop cache it is none.
                    lifted.retain(|l| *part != Limit::LoopBuffer || ![Limit::Dispatch, Limit::UopCache].contains(l));
                    out.push(alone(block, params, seen, part, cycles(block, params, &lifted)));
                }
            }
            Limit::Chains(_) => out.push(chain(block, params, seen, &others(limit))),
            _ => out.push(alone(block, params, seen, limit, cycles(block, params, &others(limit)))),
        }
    }
    out.retain(|f| f.cycles.is_some_and(|c| c > least * ALIKE));
    mark(&mut out, block, params, seen, binding);
    out
}

fn alone(block: &Block, params: &Params, seen: &Observed, limit: &Limit, cycles: Option<f64>) -> Figure {
    Figure {
        limit: word(limit, block, params, seen),
        cycles,
        ports: 0,
        taken: 0.0,
        instructions: Vec::new(),
        binds: false,
    }
}

/// The ports that are the fullest, and the instructions whose uops can use no others.
fn ports(block: &Block, usage: Option<&Usage>) -> Figure {
    let load = |set: &u32| taken(block, usage, *set) / f64::from(set.count_ones());
    let mut sets = port_sets(block);
    sets.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.count_ones().cmp(&b.count_ones())));
    let set = sets.first().copied().unwrap_or(0);
    Figure {
        limit: "ports".into(),
        cycles: (set != 0).then(|| load(&set)),
        ports: set,
        taken: taken(block, usage, set),
        instructions: owners(block, |u| u.ports != 0 && u.ports & !set == 0),
        binds: false,
    }
}

/// The units that stay busy, counted: on a core without other limits nothing waits for them.
fn divider(block: &Block, params: &Params, seen: &Observed) -> Figure {
    let busy = || block.uops.iter().filter(|u| u.busy > 1);
    let ports = busy().fold(0, |all, u| all | u.ports);
    let taken: f64 = busy().map(|u| f64::from(u.busy)).sum();
    Figure {
        ports,
        taken,
        ..alone(
            block,
            params,
            seen,
            &Limit::Divider,
            Some(taken / f64::from(ports.count_ones().max(1))),
        )
    }
}

/// The instructions that have such a uop.
fn owners(block: &Block, such: impl Fn(&Uop) -> bool) -> Vec<u16> {
    let mine = block.uops.iter().zip(&block.owner);
    let mut out: Vec<u16> = mine.filter(|(u, _)| such(u)).map(|(_, inst)| *inst).collect();
    out.dedup();
    out
}

/// Cycles of ports that an iteration's uops take that can use no others.
fn taken(block: &Block, usage: Option<&Usage>, set: u32) -> f64 {
    let mut sum = 0.0;
    for (at, slot) in block.slots.iter().enumerate() {
        for uop in slot.uops.clone() {
            let one = &block.uops[uop as usize];
            if one.ports == 0 || one.ports & !set != 0 {
                continue;
            }
            let share = usage.map_or(1.0, |u| {
                let started = u.started[uop as usize].iter().sum::<u32>();
                f64::from(started) / f64::from((started + u.eliminated[at]).max(1))
            });
            sum += share * f64::from(one.port_cycles.max(1));
        }
    }
    sum
}

/// The longest chain of instructions from one iteration to the next.
fn chain(block: &Block, params: &Params, seen: &Observed, lifted: &[Limit]) -> Figure {
    let sets = chains::of(&seen.edges, block.insts.len());
    let found = (0..sets.len()).filter_map(|kept| {
        let mut numbers = vec![0; block.insts.len()];
        for (n, set) in sets.iter().enumerate().filter(|(n, _)| *n != kept) {
            set.iter().for_each(|m| numbers[usize::from(*m)] = n as u16 + 1);
        }
        let without: Vec<Limit> = lifted.iter().cloned().chain([Limit::Chains(numbers)]).collect();
        let (cycles, mut members) = kept_alone(block, params, &without, sets[kept][0])?;
        // Of the uops of an instruction the last tells what it waited for, which may be another chain.
        let whole = (0..members.len()).all(|n| {
            let producer = members[(n + 1) % members.len()];
            seen.edges.contains(&(producer, members[n]))
        });
        if !whole {
            return Some((cycles, sets[kept].clone()));
        }
        // Each waited for the one behind it in this list.
        members.reverse();
        let first = (0..members.len()).min_by_key(|n| members[*n]);
        members.rotate_left(first.unwrap_or(0));
        Some((cycles, members))
    });
    let longest = found.reduce(|best, one| if one.0 > best.0 * ALIKE { one } else { best });
    let (cycles, instructions) = longest.map_or((None, Vec::new()), |(cycles, of)| (Some(cycles), of));
    Figure {
        limit: "dependencies".into(),
        cycles,
        ports: 0,
        taken: 0.0,
        instructions,
        binds: false,
    }
}

/// Cycles per iteration without some limits, and the cycle of waiting that an instruction leads to.
fn kept_alone(block: &Block, params: &Params, lifted: &[Limit], start: u16) -> Option<(f64, Vec<u16>)> {
    let (block, params, ablation) = relieved(block, params, lifted);
    let cut = Cut::new(&block, &params);
    let mut machine = Machine::new(&block, &cut, &params, &ablation).ok()?;
    let mut watch = Watch::new(&block, None, None);
    let found = run(&mut machine, &mut watch, 0).ok();
    machine.recycle();
    Some((found?.0, chains::critical_from(&watch.waited, start)))
}

/// Mark the limits that bind; one that no figure is of is there without one.
fn mark(out: &mut Vec<Figure>, block: &Block, params: &Params, seen: &Observed, binding: &[Limit]) {
    let mut full = 0;
    for limit in binding {
        let name = match limit {
            Limit::Ports(set) => {
                full |= set;
                continue;
            }
            Limit::Chains(_) => "dependencies".into(),
            _ => word(limit, block, params, seen),
        };
        match out.iter_mut().find(|f| f.limit == name) {
            Some(known) => known.binds = true,
            None => out.push(Figure {
                binds: true,
                ..alone(block, params, seen, limit, None)
            }),
        }
    }
    let Some(known) = out.iter_mut().find(|f| f.limit == "ports") else {
        return;
    };
    known.binds = full != 0;
}
