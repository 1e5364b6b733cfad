//! Calls that control does not come back from, such as that of `__stack_chk_fail`: what stands
//! behind them belongs to something else.

use crate::loops::steps::{Flow, Text};
use std::collections::{HashMap, HashSet};

/// Offsets where routines begin or end, and which of these do not come back.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    pub(crate) edges: HashSet<u32>,
    never: HashSet<u32>,
}

impl Returns {
    /// A routine does not come back if one call of it in four is the last that stands before the
    /// edge of another one.
    pub(crate) fn new(text: &Text, edges: HashSet<u32>) -> Returns {
        let mut known = Returns {
            edges,
            never: HashSet::new(),
        };
        let mut calls: HashMap<u32, (u32, u32)> = HashMap::new();
        for (n, step) in text.steps.iter().enumerate().filter(|(_, s)| s.flow == Flow::Call) {
            if let Some(target) = step.target.filter(|t| *t != step.end()) {
                let (all, last) = calls.entry(target).or_default();
                *all += 1;
                *last += u32::from(known.ends(text, n));
            }
        }
        known.never = calls
            .into_iter()
            .filter(|(_, (all, last))| 4 * last >= *all)
            .map(|(target, _)| target)
            .collect();
        known
    }

    /// Whether a routine ends behind an instruction and the padding that follows it.
    fn ends(&self, text: &Text, step: usize) -> bool {
        let behind = text.steps[step + 1..].iter();
        let mut at = text.steps[step].end();
        for next in behind.take(16) {
            if next.at != at || self.edges.contains(&at) {
                return self.edges.contains(&at);
            }
            if !next.pads {
                return false;
            }
            at = next.end();
        }
        false
    }

    /// Whether control goes on behind a call.
    pub(crate) fn falls(&self, text: &Text, step: usize) -> bool {
        let never = text.steps[step].target.is_some_and(|t| self.never.contains(&t));
        !never && !self.ends(text, step)
    }
}
