//! Names what limits a block: the limits without which it is faster.
//!
//! Each limit is lifted alone; where none of them helps alone, all are lifted and put back one
//! after the other, until those are left that have to be lifted together.

use crate::block::Block;
use crate::core::params::Params;
use crate::observe::chains;
use crate::observe::lift::{cycles, Limit};
use crate::observe::limits::{name_all, Observed};

/// The least speed-up of a block for a limit to count.
const FASTER: f64 = 1.02;
/// The least speed-up of a limit over those tried before it.
const BETTER: f64 = 1.01;
/// Sets of ports that are looked at.
const SETS: usize = 48;

/// The bottleneck of a block: `port 4`, `ports 2 and 3`, `port 0 and dispatch`, `op cache`,
/// `dependency chain through instructions 0-3`; `unknown` where nothing that can be lifted helps.
pub fn name(block: &Block, params: &Params, seen: &Observed, binding: &[Limit]) -> String {
    if names_microcode(block) {
        return "microcode".into();
    }
    name_all(binding, block, params, seen)
}

/// Whether a block's time is one number, of microcode that is not simulated: a string instruction.
pub fn names_microcode(block: &Block) -> bool {
    block.names.iter().any(|form| form.ends_with(".rep"))
}

/// The limits that a block is faster without: one, or those that have to be lifted together.
pub fn binding(block: &Block, params: &Params, cycles: f64, seen: &Observed) -> Vec<Limit> {
    if names_microcode(block) {
        return Vec::new();
    }
    let search = Search {
        block,
        params,
        target: cycles / FASTER,
    };
    let limits = search.needed(&seen.limits(block, params), &[]);
    let mut found: Vec<Limit> = limits.clone();
    for limit in limits {
        let parts = search.parts(&limit, seen);
        let at = found.iter().position(|l| *l == limit).unwrap_or(0);
        let mut others = found.clone();
        others.remove(at);
        let needed = search.needed(&parts, &others);
        if !needed.is_empty() {
            found.splice(at..=at, needed);
        }
    }
    found
}

struct Search<'a> {
    block: &'a Block,
    params: &'a Params,
    /// Cycles that mean that the block is faster.
    target: f64,
}

impl Search<'_> {
    fn cycles(&self, lifted: &[Limit]) -> f64 {
        cycles(self.block, self.params, lifted).unwrap_or(f64::MAX)
    }

    /// The limits that have to be lifted beside others that are, so that the block is faster:
    /// the one that helps most, else as few as it takes; none if all of them do not help.
    fn needed(&self, limits: &[Limit], others: &[Limit]) -> Vec<Limit> {
        let with = |some: &[Limit]| self.cycles(&[others, some].concat());
        let mut best: Option<(f64, &Limit)> = None;
        for limit in limits {
            let found = with(std::slice::from_ref(limit));
            if found <= self.target && best.is_none_or(|b| found * BETTER < b.0) {
                best = Some((found, limit));
                // More ports only help more.
                if matches!(limit, Limit::Ports(_)) && limits.iter().all(|l| matches!(l, Limit::Ports(_))) {
                    break;
                }
            }
        }
        if let Some((_, limit)) = best {
            return vec![limit.clone()];
        }
        let mut left = limits.to_vec();
        if left.len() < 2 || with(&left) > self.target {
            return Vec::new();
        }
        for at in (0..left.len()).rev() {
            let mut fewer = left.clone();
            fewer.remove(at);
            if with(&fewer) <= self.target {
                left = fewer;
            }
        }
        left
    }

    /// The parts of a limit, the likeliest first.
    fn parts(&self, limit: &Limit, seen: &Observed) -> Vec<Limit> {
        match limit {
            Limit::FrontEnd => seen.front_end(self.block, self.params),
            Limit::Ports(_) => port_sets(self.block).into_iter().map(Limit::Ports).collect(),
            Limit::Chains(_) => {
                let alone = |members: &Vec<u16>| {
                    let mut numbers = vec![0; self.block.insts.len()];
                    members.iter().for_each(|m| numbers[usize::from(*m)] = 1);
                    Limit::Chains(numbers)
                };
                let sets = chains::of(&seen.edges, self.block.insts.len());
                let shortest = sets.iter().any(|s| seen.critical.iter().all(|c| s.contains(c)));
                let critical = Some(&seen.critical).filter(|_| shortest);
                critical.into_iter().chain(&sets).map(alone).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Sets of ports that some uops keep to, by how much of their time these take.
pub fn port_sets(block: &Block) -> Vec<u32> {
    let uops = || block.uops.iter().filter(|u| u.ports != 0);
    let mut sets: Vec<u32> = Vec::new();
    for ports in uops().map(|u| u.ports) {
        if !sets.contains(&ports) {
            let joined: Vec<u32> = sets.iter().map(|s| s | ports).collect();
            for set in joined.into_iter().chain([ports]) {
                if !sets.contains(&set) && sets.len() < SETS {
                    sets.push(set);
                }
            }
        }
    }
    let load = |set: &u32| {
        let inside = uops().filter(|u| u.ports & !set == 0);
        let taken: f64 = inside.map(|u| f64::from(u.port_cycles.max(1))).sum();
        taken / f64::from(set.count_ones())
    };
    sets.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.count_ones().cmp(&b.count_ones())));
    sets
}
