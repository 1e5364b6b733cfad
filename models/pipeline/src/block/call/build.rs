//! From the steps of a call to a block: one iteration is one call.

use crate::block::builder::Builder;
use crate::block::call::code::{Code, Known};
use crate::block::call::memory::{analyse, Memory};
use crate::block::call::pairs::seconds;
use crate::block::call::steps::Step;
use crate::block::caveats;
use crate::block::layout::Before;
use crate::block::uops::Case;
use crate::block::{arm64, x86};
use crate::block::{Block, Notion, StringUse};
use crate::core::figures::{FigureTable, Figures};
use crate::core::params::Params;
use crate::error::Error;
use crate::isa::Isa;
use std::borrow::Cow;
use std::collections::HashMap;

/// Steps of a call at most.
pub const MOST_STEPS: usize = 20_000;

impl Block {
    /// Prepare the steps of a call, whose code stands at an address mod 4096.
    ///
    /// # Errors
    /// A step is at no instruction, or control cannot go from one to the next; an instruction has no figures.
    pub fn of_call(
        code: &Code<'_>,
        offset: u32,
        steps: &[Step],
        params: &Params,
        table: &FigureTable,
    ) -> Result<Block, Error> {
        if steps.len() > MOST_STEPS {
            let many = steps.len();
            let why = format!("a call of {many} steps outside of long loops: at most {MOST_STEPS}");
            return Err(Error::Block(why));
        }
        let known = known(code, steps)?;
        let mut builder = Builder::new(code.len() as u32, offset, Notion::Call, params);
        builder.block.code_offset = offset % 4096;
        builder.build_call(steps, &known, table)
    }
}

fn known<'a, 't>(code: &'a Code<'t>, steps: &[Step]) -> Result<Vec<&'a Known<'t>>, Error> {
    steps.iter().map(|s| code.at(s.at)).collect()
}

/// Check that each step can follow the one before it, the first one the last.
///
/// # Errors
/// One cannot, or is at no instruction.
pub fn check(code: &Code<'_>, steps: &[Step]) -> Result<(), Error> {
    let known = known(code, steps)?;
    for (n, k) in known.iter().enumerate() {
        let to = steps[(n + 1) % steps.len()].at;
        if !k.next.reaches(to, k.behind()) {
            let (form, at) = (&k.d.form, steps[n].at);
            let what = if n + 1 == steps.len() {
                "the first step"
            } else {
                "the next step"
            };
            let why = format!("step {n}: control cannot go from {form} at byte {at} to byte {to}, {what}");
            return Err(Error::Block(why));
        }
    }
    let mut ends: Vec<(u32, u32)> = known.iter().map(|k| (k.d.offset, k.behind())).collect();
    ends.sort_unstable();
    ends.dedup();
    match ends.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some([a, b]) => {
            let why = format!(
                "a step at byte {}, within the instruction of another at byte {}",
                b.0, a.0
            );
            Err(Error::Block(why))
        }
        _ => Ok(()),
    }
}

impl Builder<'_> {
    fn build_call(mut self, steps: &[Step], known: &[&Known<'_>], table: &FigureTable) -> Result<Block, Error> {
        let taken: Vec<bool> = (0..steps.len())
            .map(|n| known[n].jumps(steps[(n + 1) % steps.len()].at))
            .collect();
        let second = seconds(steps, known, &taken);
        let mut rows: Vec<Cow<'_, Figures>> = Vec::with_capacity(steps.len());
        for (n, k) in known.iter().enumerate() {
            let row = if taken[n] { &k.taken } else { &k.row };
            rows.push(match row {
                Some(row) => Cow::Borrowed(row.as_ref()),
                None => self.figures(&k.d, table, string_use(&steps[n]))?,
            });
        }
        let Memory { cases, places } = analyse(steps, known, self.params);
        self.block.places = places;
        self.block.caveats = sentences(self.params, known, &rows, &cases);
        let moving = moving(steps);
        self.block.stacked = known.iter().map(|k| k.d.stack).collect();
        self.block.stack = known.iter().map(|k| k.d.stack).sum();
        // The state at the end of a call is the state at its start.
        for k in known {
            self.track_stack(&k.d);
            self.high_bytes(&k.d);
        }
        let mut at = 0;
        while at < steps.len() {
            let d = &known[at].d;
            let next = known.get(at + 1).filter(|_| !taken[at]);
            let pair = next.filter(|next| self.fuses(d, &rows[at], &next.d));
            let fused;
            let row: &Figures = if pair.is_some() {
                fused = self.fused(d, &rows[at], &rows[at + 1]);
                &fused
            } else {
                &rows[at]
            };
            let sync = self.track_stack(d);
            let (renamed, merges) = self.high_bytes(d);
            let expansion = match self.params.isa {
                Isa::X86 => x86::expand(&renamed, row, cases[at], self.params),
                Isa::Arm64 => arm64::expand(&renamed, row, cases[at], self.params),
            };
            self.access = Some(steps[at].access);
            self.advancing = if moving.contains_key(&steps[at].at) {
                u64::MAX
            } else {
                0
            };
            let operation = next.filter(|next| {
                let on = known.get(at + 2).filter(|_| !taken[at + 1]);
                let branches = || on.is_some_and(|on| self.fuses(&next.d, &rows[at + 1], &on.d));
                pair.is_none() && self.absorbs(&renamed, &next.d) && !branches()
            });
            let absorbed = operation.and_then(|next| {
                let second = (&next.d, rows[at + 1].as_ref(), cases[at + 1]);
                x86::absorb::fused_with((&renamed, row, cases[at]), second, self.params)
            });
            let expansion = absorbed.as_ref().unwrap_or(&expansion);
            self.instruction(&renamed, row, expansion, Before { sync, merges });
            let wrong = steps[at].mispredicted || pair.is_some() && steps[at + 1].mispredicted;
            self.block.mispredicted.push(wrong);
            let jumps = taken[at] || pair.is_some() && taken[at + 1];
            let head = self.block.insts.len() - 1;
            self.block.insts[head].taken = jumps;
            self.block.insts[head].second = second[at] || pair.is_some() && second[at + 1];
            self.block.insts[head].late = steps[at].late || pair.is_some() && steps[at + 1].late;
            if let Some(branch) = pair {
                self.pair_with(&branch.d);
                self.block.mispredicted.push(false);
                self.block.insts[head + 1].taken = jumps;
                at += 1;
            } else if let (Some(_), Some(operation)) = (&absorbed, operation) {
                self.absorb(&operation.d);
                self.block.mispredicted.push(false);
                at += 1;
            } else if let Some(nop) = next.filter(|next| self.takes_nop(&next.d)) {
                self.block.insts[head].head = true;
                self.tail(&nop.d, false);
                self.block.mispredicted.push(false);
                at += 1;
            }
            at += 1;
        }
        self.block.stores = usize::from(self.stores);
        if self.block.fused.len() > MOST_STEPS {
            return Err(Error::Block(format!("a call of more than {MOST_STEPS} uops")));
        }
        self.all_followed()?;
        self.sum_up();
        Ok(self.block)
    }
}

fn string_use(step: &Step) -> StringUse {
    StringUse {
        count: Some(step.repeats),
        destination: step.access.store.map(|a| a.rem_euclid(64) as u32),
        source: step.access.load.map(|a| a.rem_euclid(64) as u32),
    }
}

/// Places of the instructions that store to more than one address.
fn moving(steps: &[Step]) -> HashMap<u32, i64> {
    let mut first = HashMap::new();
    let mut moving = HashMap::new();
    for step in steps {
        if let Some(address) = step.access.store {
            if *first.entry(step.at).or_insert(address) != address {
                moving.insert(step.at, address);
            }
        }
    }
    moving
}

/// The parts that are not simulated; each instruction of the code is examined once.
fn sentences(core: &Params, known: &[&Known<'_>], rows: &[Cow<'_, Figures>], cases: &[Case]) -> Vec<String> {
    let mut seen: HashMap<(u32, bool), ()> = HashMap::new();
    let first = known
        .iter()
        .zip(rows)
        .zip(cases)
        .filter(|((k, _), case)| seen.insert((k.d.offset, case.overlaps), ()).is_none());
    let found: Vec<_> = first
        .filter_map(|((k, row), case)| Some((caveats::of(&k.d, row, case)?, &k.d)))
        .collect();
    caveats::sentences(core, found.into_iter())
}
