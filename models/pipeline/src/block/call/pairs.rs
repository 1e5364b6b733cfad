//! Taken branches whose targets a predictor finds two at a time.
//!
//! A jump that is always taken is found together with the branch taken before it, if that always leads to it: the
//! entry of a branch target buffer has room for such a second branch. A call or a return is no second one, nor is the
//! branch of a loop, which falls through once.

use crate::block::call::code::Known;
use crate::block::call::steps::Step;
use crate::isa::flow::Next;
use crate::isa::inst::Branch;
use std::collections::{HashMap, HashSet};

/// Whether the target of the branch at each step is found with that of the branch taken before it.
pub(super) fn seconds(steps: &[Step], known: &[&Known<'_>], taken: &[bool]) -> Vec<bool> {
    let jumps: Vec<usize> = (0..steps.len()).filter(|n| taken[*n]).collect();
    let falls: HashSet<u32> = (0..steps.len()).filter(|n| !taken[*n]).map(|n| steps[n].at).collect();
    let to = |n: usize| steps[(n + 1) % steps.len()].at;
    let mut led: HashMap<(u32, u32), Option<u32>> = HashMap::new();
    for (place, n) in jumps.iter().enumerate() {
        let next = steps[jumps[(place + 1) % jumps.len()]].at;
        let known = led.entry((steps[*n].at, to(*n))).or_insert(Some(next));
        *known = known.filter(|one| *one == next);
    }
    let always = |n: usize| match known[n].d.branch {
        Branch::Always => known[n].d.stack == 0 && known[n].next != Next::Anywhere,
        Branch::Conditional(_) => !falls.contains(&steps[n].at) && to(n) > steps[n].at,
        Branch::No => false,
    };
    let mut second = vec![false; steps.len()];
    for pair in jumps.windows(2) {
        let [before, n] = [pair[0], pair[1]];
        let leads = led[&(steps[before].at, to(before))] == Some(steps[n].at);
        second[n] = !second[before] && leads && always(n);
    }
    second
}
