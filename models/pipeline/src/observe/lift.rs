//! The cycles of a block on a core with an ideal part, which has no limit.

use crate::block::cut::Cut;
use crate::block::Block;
use crate::core::choice::{Joins, Mode};
use crate::core::params::Params;
use crate::core::value::UNLIMITED;
use crate::engine::ablation::Ablation;
use crate::engine::events::Nobody;
use crate::engine::machine::Machine;
use crate::engine::steady::run;

/// A part of a core, or of what a block asks of it, that may limit a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Instructions that wait at what serialises.
    Serial,
    /// Units that stay busy for many cycles.
    Divider,
    /// Dependencies among instructions that wait for each other: a number for each, 0 for none.
    Chains(Vec<u16>),
    /// Ports, one bit each.
    Ports(u32),
    /// All of the front end.
    FrontEnd,
    /// Dispatch slots a cycle.
    Dispatch,
    /// Loads that wait until stores are in the cache.
    BlockedLoads,
    /// Accesses that cross a boundary.
    Splits,
    /// Stores on their way into the cache.
    Commit,
    /// Lines written to new addresses.
    Lines,
    /// Uops in flight.
    ReorderBuffer,
    /// Uops that wait for execution.
    Scheduler,
    /// Stores in flight.
    StoreQueue,
    /// Uops that retire a cycle.
    Retire,
    /// Finding instructions in blocks of code, or fetching them.
    Predecode,
    /// Decoders.
    Decode,
    /// The microcode sequencer.
    Microcode,
    /// The cache of decoded uops.
    UopCache,
    /// The loop buffer.
    LoopBuffer,
    /// Iterations that a taken branch keeps apart.
    TakenBranch,
}

/// More than any unit handles a cycle.
const WIDE: u32 = 64;
/// Room for what ideal units hand over.
const ROOM: u32 = 256;

/// Cycles per iteration with some limits lifted; `None` where the pipeline does not move.
pub fn cycles(block: &Block, params: &Params, lifted: &[Limit]) -> Option<f64> {
    let (block, params, ablation) = relieved(block, params, lifted);
    let cut = Cut::new(&block, &params);
    let mut machine = Machine::new(&block, &cut, &params, &ablation).ok()?;
    let found = run(&mut machine, &mut Nobody, 0).ok();
    machine.recycle();
    found.map(|(cycles, _)| cycles)
}

/// A block and a core without some limits.
pub fn relieved(block: &Block, params: &Params, lifted: &[Limit]) -> (Block, Params, Ablation) {
    let (mut block, mut params, mut ablation) = (block.clone(), params.clone(), Ablation::default());
    for limit in lifted {
        lift(limit, &mut block, &mut params, &mut ablation);
    }
    (block, params, ablation)
}

fn lift(limit: &Limit, block: &mut Block, params: &mut Params, ablation: &mut Ablation) {
    match limit {
        Limit::Serial => {
            block.slots.iter_mut().for_each(|s| s.serial = None);
            block.fused.iter_mut().for_each(|f| f.serial = None);
        }
        Limit::Divider => block.uops.iter_mut().for_each(|u| u.busy = 0),
        Limit::Chains(numbers) => {
            ablation.chains.resize(numbers.len(), 0);
            let before = ablation.chains.iter().max().copied().unwrap_or(0);
            for (chain, number) in ablation.chains.iter_mut().zip(numbers).filter(|n| *n.1 > 0) {
                *chain = before + number;
            }
        }
        Limit::Ports(ports) => {
            ablation.ports |= ports;
            params.ports.balanced.clear();
        }
        Limit::BlockedLoads => block.uops.iter_mut().for_each(|u| u.sources.retain(|s| !s.committed())),
        Limit::Splits => block.uops.iter_mut().for_each(|u| u.split = None),
        Limit::Commit => params.memory.commit_bytes = 0,
        Limit::Lines => params.memory.stream_line_cycles = 0.0,
        Limit::ReorderBuffer => params.retire.reorder_buffer = 1024,
        Limit::StoreQueue => params.memory.store_queue = 1024,
        Limit::Retire => params.retire.width = 1024,
        Limit::Dispatch => {
            params.rename.width = WIDE;
            params.rename.instructions = UNLIMITED;
            params.rename.alu_uops = UNLIMITED;
            params.rename.branches = UNLIMITED;
            params.rename.apart = UNLIMITED;
            params.rename.apart_places = 0;
            params.rename.whole_groups = false;
            params.rename.queue = params.rename.queue.max(WIDE);
        }
        Limit::Scheduler => {
            params.scheduler.entries = 4096;
            params.scheduler.pools.clear();
            params.rename.whole_groups = false;
        }
        _ => lift_front_end(limit, block, params, ablation),
    }
}

fn lift_front_end(limit: &Limit, block: &mut Block, params: &mut Params, ablation: &mut Ablation) {
    params.rename.queue = params.rename.queue.max(ROOM);
    let (cache, decode) = (&mut params.uop_cache, &mut params.decode);
    match limit {
        Limit::Predecode => {
            ablation.predecode = true;
            params.predecode.lcp_cycles = 0;
            params.predecode.cross_cycles = 0;
            params.predecode.width = WIDE;
            params.predecode.queue = ROOM;
            params.fetch.queue = ROOM;
        }
        Limit::Decode => {
            decode.width = WIDE;
            decode.fusible_last = true;
            decode.branch_ends = false;
            for inst in &mut block.insts {
                inst.complex = false;
                inst.simple_after = u32::MAX;
            }
        }
        Limit::Microcode => {
            decode.microcode_cycles = 0;
            decode.microcode_width = WIDE;
            cache.microcode_stall = 0;
        }
        Limit::UopCache => {
            ablation.uop_cache = true;
            params.loop_buffer.enabled = false;
            (cache.width, cache.line_uops) = (WIDE, WIDE);
            (cache.lines, cache.reads) = (WIDE, WIDE);
            (cache.region_uops, cache.long_constants) = (UNLIMITED, UNLIMITED);
            cache.one_region = false;
            cache.cut_branch_apart = false;
            cache.wide_ends = false;
            cache.pairs = false;
            cache.branch_erratum = false;
        }
        Limit::LoopBuffer => ablation.loop_buffer = true,
        Limit::TakenBranch => {
            ablation.taken_branch = true;
            cache.joins = Joins::All;
            decode.branch_ends = false;
            params.taken_branch.cycles = 1;
            params.fetch.taken_bubble = 0;
        }
        _ => params.front_end.mode = Mode::Ideal,
    }
}
