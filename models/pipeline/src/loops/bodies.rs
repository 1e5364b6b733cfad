//! Heads of loops, and the blocks of those that hold no other loop.

use crate::loops::blocks::Graph;
use crate::loops::dominators::dominates;
use crate::loops::reach::Reach;
use std::collections::{BTreeMap, HashSet};

/// Each head of a loop with the blocks that branch back to it.
pub(crate) type Heads = BTreeMap<u32, Vec<u32>>;

pub(crate) fn heads(graph: &Graph, reach: &Reach, idom: &[u32]) -> Heads {
    let mut heads = Heads::default();
    for to in 0..graph.blocks.len() as u32 {
        for &from in graph.before(to) {
            let back = reach.place[to as usize] <= reach.place[from as usize] && reach.same(from, to);
            if back && dominates(idom, reach, to, from) {
                heads.entry(to).or_default().push(from);
            }
        }
    }
    // What can be entered at several places has no head that dominates it: it is where it was
    // reached first (Havlak, Nesting of Reducible and Irreducible Loops, 1997).
    for &(from, to) in reach.back.iter().filter(|(from, to)| reach.same(*from, *to)) {
        if !dominates(idom, reach, to, from) {
            heads.entry(to).or_default().push(from);
        }
    }
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
            if self.heads.contains_key(&block) {
                return None;
            }
            let before = self.graph.before(block).iter().copied();
            todo.extend(before.filter(|b| self.reach.by_way_of(head, *b)));
        }
        Some(body)
    }
}
