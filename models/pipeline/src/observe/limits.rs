//! The limits that a block can have, and their names.

use crate::block::uops::{Role, Uop};
use crate::block::{Block, Notion};
use crate::core::choice::{CacheRule, FetchKind, Mode};
use crate::core::params::Params;
use crate::engine::flight::Source;
use crate::engine::machine::Machine;
use crate::observe::chains::{self, Edges};
use crate::observe::lift::Limit;
use crate::observe::watch::Watch;

/// The observations of a simulation of a block.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The dependencies that instructions waited for.
    pub edges: Edges,
    /// Instructions that waited for each other last, in a cycle.
    pub critical: Vec<u16>,
    /// The loop buffer held it.
    buffered: bool,
    /// Some of it was decoded each time.
    decoded: bool,
    /// Some of it came from the op cache.
    cached: bool,
    /// Slots that each unit left empty, by [`Source`].
    starved_by: [u64; 5],
}

impl Observed {
    /// Of a simulation that has ended.
    pub fn new(machine: &Machine, watch: &Watch) -> Observed {
        let (insts, front) = (&machine.block().insts, machine.front());
        let heads = || (0..insts.len() as u32).filter(|i| !insts[*i as usize].tail);
        Observed {
            edges: watch.edges.clone(),
            critical: chains::critical(&watch.waited),
            buffered: front.buffered(),
            decoded: heads().any(|i| front.decodes(i)),
            cached: heads().any(|i| !front.decodes(i)),
            starved_by: machine.rename().starved_by(),
        }
    }

    /// Limits that the block can have, the likeliest first.
    pub fn limits(&self, block: &Block, params: &Params) -> Vec<Limit> {
        let mut out = Vec::new();
        let mut add = |limit, there: bool| out.extend(there.then_some(limit));
        add(Limit::Serial, block.slots.iter().any(|s| s.serial.is_some()));
        add(Limit::Divider, block.uops.iter().any(|u| u.busy > 1));
        add(Limit::BlockedLoads, block.uops.iter().any(Uop::blocked));
        let mut numbers = vec![0; block.insts.len()];
        for (n, members) in chains::of(&self.edges, numbers.len()).iter().enumerate() {
            members.iter().for_each(|m| numbers[usize::from(*m)] = n as u16 + 1);
        }
        let chained = numbers.iter().any(|n| *n > 0);
        add(Limit::Chains(numbers), chained);
        let ports = block.uops.iter().fold(0, |all, u| all | u.ports);
        add(Limit::Ports(ports), ports != 0);
        add(Limit::FrontEnd, params.front_end.mode != Mode::Ideal);
        add(Limit::Dispatch, true);
        add(Limit::Splits, block.uops.iter().any(|u| u.split.is_some()));
        let stores = params.memory.commit_bytes != 0 && block.stores > 0;
        add(Limit::Commit, stores);
        let streams = block.uops.iter().any(|u| u.streamed > 0);
        add(Limit::Lines, streams && params.memory.stream_line_cycles > 0.0);
        add(Limit::StoreQueue, stores);
        add(Limit::Scheduler, true);
        add(Limit::ReorderBuffer, true);
        add(Limit::Retire, true);
        out
    }

    /// The parts of the front end that the block uses.
    pub fn front_end(&self, block: &Block, params: &Params) -> Vec<Limit> {
        let mut out = Vec::new();
        let mut add = |limit, there: bool| out.extend(there.then_some(limit));
        let (cached, decoded) = (self.cached && !self.buffered, self.decoded && !self.buffered);
        add(Limit::LoopBuffer, self.buffered);
        add(
            Limit::UopCache,
            cached || decoded && params.uop_cache.rule != CacheRule::None,
        );
        add(Limit::Predecode, decoded);
        add(Limit::Decode, decoded);
        add(Limit::Microcode, block.insts.iter().any(|i| i.ms > 0));
        add(Limit::TakenBranch, block.notion == Notion::Loop && !self.buffered);
        out
    }

    /// The unit that left most slots empty.
    fn starving(&self) -> &'static str {
        let units = [
            (Source::Predecode, "predecode"),
            (Source::Decode, "decoders"),
            (Source::Microcode, "microcode"),
            (Source::UopCache, "op cache"),
            (Source::LoopBuffer, "loop buffer"),
        ];
        let most = units.iter().max_by_key(|(unit, _)| self.starved_by[*unit as usize]);
        most.map_or("front end", |m| m.1)
    }
}

/// Limits in words.
pub fn name_all(limits: &[Limit], block: &Block, params: &Params, seen: &Observed) -> String {
    let (mut parts, mut chained) = (Vec::new(), Vec::new());
    for limit in limits {
        match limit {
            Limit::Ports(ports) => {
                let names: Vec<String> = list(*ports, params);
                if limits.len() == 1 && names.len() > 1 {
                    parts.push(format!("ports {}", join(&names)));
                } else {
                    parts.extend(names.iter().map(|n| format!("port {n}")));
                }
            }
            Limit::Chains(numbers) => chained.extend(members(numbers)),
            _ => parts.push(word(limit, block, params, seen)),
        }
    }
    if !chained.is_empty() {
        parts.insert(0, chain(chained, limits));
    }
    if parts.is_empty() {
        return "unknown".into();
    }
    join(&parts)
}

/// The name of a limit without ports and chain.
pub fn word(limit: &Limit, block: &Block, params: &Params, seen: &Observed) -> String {
    match limit {
        Limit::Divider => divider(block, params),
        Limit::Serial if block.transitions => "AVX-SSE transition".into(),
        Limit::Serial => "serialising instruction".into(),
        Limit::Dispatch => "dispatch".into(),
        Limit::BlockedLoads => "failed store-to-load forwarding".into(),
        Limit::Splits => "accesses across a boundary".into(),
        Limit::Commit | Limit::Lines => "stores into the cache".into(),
        Limit::StoreQueue => "store queue".into(),
        Limit::Scheduler => "scheduler".into(),
        Limit::ReorderBuffer => "reorder buffer".into(),
        Limit::Retire => "retire".into(),
        Limit::Predecode if params.front_end.fetch == FetchKind::Blocks => "fetch".into(),
        Limit::Predecode => "predecode".into(),
        Limit::Decode => "decoders".into(),
        Limit::Microcode => "microcode".into(),
        Limit::UopCache => "op cache".into(),
        Limit::LoopBuffer => "loop buffer".into(),
        Limit::TakenBranch => "branches".into(),
        _ => seen.starving().into(),
    }
}

/// Names of ports.
fn list(ports: u32, params: &Params) -> Vec<String> {
    let names = params.ports.names.chars().enumerate();
    let there = names.filter(|(n, _)| ports & 1 << n != 0);
    there.map(|(_, name)| name.to_string()).collect()
}

/// Words with commas between them, and an `and` before the last.
fn join(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The ports of units that stay busy.
fn divider(block: &Block, params: &Params) -> String {
    let busy = || block.uops.iter().filter(|u| u.busy > 1);
    if busy().all(|u| u.role == Role::StoreData) {
        return "locked access".into();
    }
    let mut ports = busy().map(|u| list(u.ports, params)).collect::<Vec<_>>().concat();
    ports.sort();
    ports.dedup();
    let word = if ports.len() > 1 { "ports" } else { "port" };
    format!("divider on {word} {}", join(&ports))
}

fn members(numbers: &[u16]) -> impl Iterator<Item = usize> + '_ {
    (0..numbers.len()).filter(|n| numbers[*n] > 0)
}

/// The instructions of chains.
fn chain(mut members: Vec<usize>, limits: &[Limit]) -> String {
    let count = limits.iter().filter(|l| matches!(l, Limit::Chains(_))).count();
    members.sort_unstable();
    members.dedup();
    let runs = members.chunk_by(|a, b| a + 1 == *b);
    let words: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run[0].to_string(),
        })
        .collect();
    let chains = if count > 1 { "chains" } else { "chain" };
    let plural = if members.len() > 1 {
        "instructions"
    } else {
        "instruction"
    };
    format!("dependency {chains} through {plural} {}", join(&words))
}
