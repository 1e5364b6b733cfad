//! Stretches of a call in which the same instructions repeat: its loops.

use std::collections::HashMap;
use std::ops::Range;

/// Iterations of a loop that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// First instruction executed.
    pub start: usize,
    /// Instructions of an iteration.
    pub period: usize,
    /// Iterations.
    pub count: usize,
}

impl Run {
    /// The instructions of an iteration.
    pub fn iteration(&self, n: usize) -> Range<usize> {
        let start = self.start + n * self.period;
        start..start + self.period
    }
}

/// Find loops of at least so many iterations in the places of the instructions executed; of loops within
/// each other the inner ones.
pub fn find(places: &[u32], least: usize) -> Vec<Run> {
    let mut last: HashMap<u32, usize> = HashMap::new();
    let mut runs = Vec::new();
    let mut at = 0;
    while at < places.len() {
        let Some(before) = last.insert(places[at], at) else {
            at += 1;
            continue;
        };
        let period = at - before;
        let same = (at..places.len())
            .take_while(|n| places[*n] == places[n - period])
            .count();
        let count = 1 + same / period;
        if count < least {
            at += 1;
            continue;
        }
        runs.push(Run {
            start: before,
            period,
            count,
        });
        at = before + count * period;
        last.clear();
    }
    runs
}
