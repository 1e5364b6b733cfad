//! Branches of a call that a predictor cannot know from the branches before them.
//!
//! It is taken to be ideal but for its memory: the address of a branch and the branches taken last, so many of them,
//! tell where it goes, as all calls are alike. Where they tell both ways it is wrong about the rarer one, as at the
//! end of a loop that is longer than the memory.

use crate::block::call::code::Code;
use crate::block::call::steps::Step;
use crate::error::Error;
use crate::isa::inst::Branch;
use std::collections::HashMap;

/// Odd, so that no power of it vanishes mod 2^64.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes of all windows of so many taken branches, calls following each other.
struct Windows {
    length: usize,
    /// Hash of all that comes before each taken branch.
    before: Vec<u64>,
    power: u64,
    /// Taken branches of the calls before the last one.
    earlier: usize,
}

impl Windows {
    fn new(taken: &[u64], length: usize) -> Windows {
        let earlier = taken.len() * length.div_ceil(taken.len().max(1));
        let mut before = vec![0u64];
        let all = taken.iter().cycle().take(earlier + taken.len());
        for branch in all {
            let hash = before.last().copied().unwrap_or(0);
            before.push(hash.wrapping_mul(BASE).wrapping_add(*branch));
        }
        let power = (0..length).fold(1u64, |power, _| power.wrapping_mul(BASE));
        Windows {
            length,
            before,
            power,
            earlier,
        }
    }

    /// Hash of the branches taken last where so many of the call were taken.
    fn at(&self, taken: usize) -> u64 {
        let end = self.earlier + taken;
        let start = self.before.get(end.wrapping_sub(self.length)).copied().unwrap_or(0);
        self.before[end].wrapping_sub(start.wrapping_mul(self.power))
    }
}

/// The question to a predictor at a step.
struct Question {
    conditional: bool,
    /// Branches of the call taken before it.
    before: usize,
    taken: bool,
}

/// Mark the steps that are branches which a memory of so many taken branches does not know, and those that leave
/// loops of so many turns and more.
///
/// # Errors
/// A step is at no instruction.
pub fn mark(code: &Code<'_>, steps: &mut [Step], length: u32, turns: u32) -> Result<(), Error> {
    let mut asked: Vec<Question> = Vec::with_capacity(steps.len());
    let mut jumps: Vec<u64> = Vec::new();
    // Which way each branch went last, and how often in a row.
    let mut before: HashMap<u32, (bool, u32)> = HashMap::new();
    for n in 0..steps.len() {
        let step = steps[n];
        let known = code.at(step.at)?;
        let to = steps[(n + 1) % steps.len()].at;
        let taken = known.jumps(to);
        asked.push(Question {
            conditional: matches!(known.d.branch, Branch::Conditional(_)),
            before: jumps.len(),
            taken,
        });
        let (way, times) = before.entry(step.at).or_default();
        steps[n].late = taken != *way && *times + 1 >= turns;
        *times = if taken == *way { *times + 1 } else { 1 };
        *way = taken;
        if taken {
            jumps.push((u64::from(step.at) << 32 | u64::from(to)).wrapping_mul(BASE) | 1);
        }
    }
    let windows = Windows::new(&jumps, length as usize);
    let mut outcomes: HashMap<(u32, u64), [u32; 2]> = HashMap::new();
    for (q, step) in asked.iter().zip(&*steps).filter(|(q, _)| q.conditional) {
        let key = (step.at, windows.at(q.before));
        outcomes.entry(key).or_default()[usize::from(q.taken)] += 1;
    }
    for (q, step) in asked.iter().zip(steps).filter(|(q, _)| q.conditional) {
        let [not, yes] = outcomes[&(step.at, windows.at(q.before))];
        step.mispredicted = if q.taken { yes < not } else { yes > 0 && not <= yes };
    }
    Ok(())
}
