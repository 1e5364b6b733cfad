//! Heads of loops, and the blocks of those that hold no other loop.

use crate::loops::blocks::Graph;
use crate::loops::dominators::dominates;
use crate::loops::reach::Reach;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Where loops begin.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Each head with the blocks that branch back to it.
    pub(crate) loops: BTreeMap<u32, Vec<u32>>,
    /// Blocks that are branched back to and that do not dominate what does so.
    pub(crate) irreducible: BTreeSet<u32>,
}

pub(crate) fn heads(graph: &Graph, reach: &Reach, idom: &[u32]) -> Heads {
    let mut heads = Heads::default();
    for &(from, to) in reach.back.iter().filter(|(from, to)| reach.same(*from, *to)) {
        if !dominates(idom, reach, to, from) {
            heads.irreducible.insert(to);
        }
    }
    // A branch back need not be one in this order of reaching: dominance alone decides.
    for to in 0..graph.blocks.len() as u32 {
        for &from in graph.before(to) {
            let back = reach.place[to as usize] <= reach.place[from as usize] && reach.same(from, to);
            if back && dominates(idom, reach, to, from) {
                heads.loops.entry(to).or_default().push(from);
            }
        }
    }
    heads.irreducible.retain(|h| !heads.loops.contains_key(h));
    heads
}

/// Collects the blocks of loops.
pub(crate) struct Bodies<'a> {
    graph: &'a Graph,
    reach: &'a Reach,
    heads: &'a Heads,
}

impl<'a> Bodies<'a> {
    pub(crate) fn new(graph: &'a Graph, reach: &'a Reach, heads: &'a Heads) -> Self {
        Bodies { graph, reach, heads }
    }

    /// The blocks from which control gets to those that branch back, without passing the head; none
    /// if another loop begins at one of them.
    pub(crate) fn innermost(&self, head: u32, back: &[u32]) -> Option<HashSet<u32>> {
        let mut body = HashSet::from([head]);
        let mut todo: Vec<u32> = back.to_vec();
        while let Some(block) = todo.pop() {
            if !body.insert(block) {
                continue;
            }
            if self.heads.loops.contains_key(&block) || self.heads.irreducible.contains(&block) {
                return None;
            }
            let before = self.graph.before(block).iter().copied();
            todo.extend(before.filter(|b| self.reach.same(*b, block)));
        }
        Some(body)
    }
}
