//! Dominators of blocks, by the iterative algorithm of Cooper, Harvey and Kennedy, A Simple, Fast
//! Dominance Algorithm (2001), over all routines at once, below a root that leads to each.

use crate::loops::blocks::{Graph, NONE};
use crate::loops::reach::Reach;

/// The immediate dominator of each block; none where that is the root above all.
pub(crate) fn dominators(graph: &Graph, reach: &Reach) -> Vec<u32> {
    let mut idom = vec![NONE; graph.blocks.len()];
    let mut known = vec![false; graph.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &reach.order {
            let at = block as usize;
            let mut new = None;
            if reach.roots[at] {
                new = Some(NONE);
            } else {
                let before = graph.before(block).iter();
                for &b in before.filter(|b| known[**b as usize] && reach.same(**b, block)) {
                    new = Some(new.map_or(b, |other| meet(&idom, reach, b, other)));
                }
            }
            let Some(new) = new else { continue };
            if !known[at] || idom[at] != new {
                (known[at], idom[at]) = (true, new);
                changed = true;
            }
        }
    }
    idom
}

/// The nearest block that dominates both.
fn meet(idom: &[u32], reach: &Reach, mut a: u32, mut b: u32) -> u32 {
    while a != b {
        if a == NONE || b == NONE {
            return NONE;
        }
        if reach.place[a as usize] > reach.place[b as usize] {
            a = idom[a as usize];
        } else {
            b = idom[b as usize];
        }
    }
    a
}

/// Whether a block dominates another one.
pub(crate) fn dominates(idom: &[u32], reach: &Reach, above: u32, mut below: u32) -> bool {
    let place = reach.place[above as usize];
    while below != NONE && reach.place[below as usize] > place {
        below = idom[below as usize];
    }
    below == above
}
