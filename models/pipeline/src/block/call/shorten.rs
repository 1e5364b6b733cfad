//! Long calls made shorter: whole iterations of their loops are left out, and what they take is told by the difference
//! that some of them make.

use crate::block::call::runs::{find, Run};
use crate::block::call::steps::Step;
use std::collections::BTreeMap;

/// Steps up to which a call is simulated whole.
const WHOLE: usize = 4000;
/// Steps of a loop that are kept at least.
const KEPT: usize = 800;
/// Steps of a loop by which two simulations differ at least.
const APART: usize = 1600;
/// Iterations of what is taken to be a loop, at least.
const ITERATIONS: usize = 16;
/// Loops of a call that are made shorter, at most.
const LOOPS: usize = 4;

/// A loop of the code, of whose iterations some are left out.
#[derive(Debug)]
struct Loop {
    runs: Vec<Run>,
    /// Iterations that begin at the same places of lines again.
    unit: usize,
    /// Iterations left out of each run.
    cut: Vec<usize>,
}

/// A long call, and how it is made shorter.
#[derive(Debug)]
pub struct Plan {
    loops: Vec<Loop>,
}

impl Plan {
    /// The plan for shortening a call; `None` if it is simulated whole.
    pub fn new(steps: &[Step]) -> Option<Plan> {
        if steps.len() <= WHOLE {
            return None;
        }
        let places: Vec<u32> = steps.iter().map(|s| s.at).collect();
        let mut by_code: BTreeMap<(u32, usize), Vec<Run>> = BTreeMap::new();
        for run in find(&places, ITERATIONS) {
            by_code.entry((places[run.start], run.period)).or_default().push(run);
        }
        let mut loops: Vec<Loop> = by_code.into_values().map(|runs| Loop::new(steps, runs)).collect();
        loops.retain(|l| l.left_out() > 0);
        loops.sort_by_key(|l| std::cmp::Reverse(l.left_out() * l.runs[0].period));
        loops.truncate(LOOPS);
        (!loops.is_empty()).then_some(Plan { loops })
    }

    /// The number of loops that are shortened.
    pub fn loops(&self) -> usize {
        self.loops.len()
    }

    /// Iterations left out of a loop.
    pub fn left_out(&self, n: usize) -> usize {
        self.loops[n].left_out()
    }

    /// Iterations more that a loop has where it is asked for.
    pub fn more(&self, n: usize) -> usize {
        self.loops[n].more()
    }

    /// The steps that are kept, with some iterations more of one loop.
    pub fn kept<T: Clone>(&self, steps: &[T], longer: Option<usize>) -> Vec<T> {
        let mut holes: Vec<(usize, usize)> = Vec::new();
        for (n, l) in self.loops.iter().enumerate() {
            let mut more = if longer == Some(n) { l.more() } else { 0 };
            for (run, cut) in l.runs.iter().zip(&l.cut) {
                let back = more.min(*cut);
                more -= back;
                let cut = cut - back;
                // What is left out is the middle.
                let first = (run.count - cut) / 2;
                let start = run.iteration(first).start;
                holes.push((start, start + cut * run.period));
            }
        }
        holes.sort_unstable();
        let mut kept = Vec::new();
        let mut at = 0;
        for (start, end) in holes {
            kept.extend_from_slice(&steps[at..start]);
            at = end;
        }
        kept.extend_from_slice(&steps[at..]);
        kept
    }
}

impl Loop {
    fn new(steps: &[Step], runs: Vec<Run>) -> Loop {
        let unit = unit(steps, &runs[0]);
        let keep = KEPT.div_ceil(runs[0].period).max(ITERATIONS / 2);
        let cut = |run: &Run| run.count.saturating_sub(keep) / unit * unit;
        Loop {
            cut: runs.iter().map(cut).collect(),
            runs,
            unit,
        }
    }

    fn left_out(&self) -> usize {
        self.cut.iter().sum()
    }

    /// Iterations that make a difference which can be told.
    fn more(&self) -> usize {
        let least = APART.div_ceil(self.runs[0].period).div_ceil(self.unit) * self.unit;
        least.min(self.left_out())
    }
}

/// Iterations after which a loop's accesses are at the same places of 64 bytes again, 64 at most.
fn unit(steps: &[Step], run: &Run) -> usize {
    let addresses = |step: &Step| [step.access.load, step.access.store];
    let next = |n: usize| addresses(&steps[n + run.period]);
    let strides = run
        .iteration(0)
        .flat_map(|n| addresses(&steps[n]).into_iter().zip(next(n)));
    let strides = strides.filter_map(|(a, b)| Some(b?.wrapping_sub(a?)));
    let tied = strides.map(|s| s.trailing_zeros().min(6)).min().unwrap_or(6);
    64 >> tied
}
