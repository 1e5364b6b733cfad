//! Loops of a call that the loop buffer replays from the queue in front of rename.

use crate::block::call::runs::{find, Run};
use crate::block::{Block, Notion};
use crate::core::params::Params;
use std::ops::Range;

/// Iterations of a loop until it is replayed; an assumption.
const UNTIL: usize = 4;

/// Iterations of a loop that are replayed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replay {
    /// Their fused uops.
    pub fused: Range<u32>,
    /// Fused uops after which it starts over.
    pub uops: u32,
}

/// The parts of a call that the loop buffer replays; some instructions are decoded each time and others are in
/// regions of code.
pub(crate) fn of(block: &Block, params: &Params, decoded: &[bool], region: impl Fn(usize) -> u32) -> Vec<Replay> {
    let p = &params.loop_buffer;
    if !p.enabled || block.notion != Notion::Call {
        return Vec::new();
    }
    let places: Vec<u32> = block.insts.iter().map(|i| i.offset).collect();
    let fused = |of: Range<usize>| block.insts[of.start].fused.start..block.insts[of.end - 1].fused.end;
    let held = |run: &Run| {
        let body = run.iteration(0);
        let uops = fused(body.clone()).len() as u32;
        let insts = &block.insts[body.clone()];
        let regions = body.clone().map(&region);
        let apart = regions.clone().max().unwrap_or(0) - regions.min().unwrap_or(0);
        (1..=p.uops).contains(&uops)
            && (uops <= p.crossing_uops || apart == 0)
            && insts.iter().all(|i| i.ms == 0)
            && !decoded[body].contains(&true)
            && block.balanced(run.iteration(0))
    };
    let runs = find(&places, UNTIL + 1).into_iter().filter(held);
    runs.map(|run| {
        let body = fused(run.iteration(0)).len() as u32;
        let unroll = p.unroll.iter().find(|r| (r[0]..=r[1]).contains(&body));
        Replay {
            fused: fused(run.iteration(UNTIL).start..run.iteration(run.count - 1).end),
            uops: body * unroll.map_or(1, |r| r[2].max(1)),
        }
    })
    .collect()
}
