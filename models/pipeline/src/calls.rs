//! Whole calls on one core: from the steps of each to cycles a call.

use crate::block::call::build::check;
use crate::block::call::code::Code;
use crate::block::call::history::mark;
use crate::block::call::shorten::Plan;
use crate::block::call::steps::{parse, Step};
use crate::block::cut::Cut;
use crate::block::Block;
use crate::core::Core;
use crate::engine::ablation::Ablation;
use crate::engine::events::Nobody;
use crate::engine::machine::Machine;
use crate::engine::steady::settle;
use crate::error::Error;
use crate::parallel;
use std::collections::HashMap;

/// A call to predict.
#[derive(Clone, Debug)]
pub struct Request {
    /// Machine code of the routine and its caller.
    pub code: Vec<u8>,
    /// Its address mod 4096.
    pub offset: u32,
    /// The steps, in the format of [`parse`].
    pub steps: Vec<u8>,
}

/// The cost of a call.
#[derive(Clone, Debug)]
pub struct CallCost {
    /// Cycles a call where calls like it follow each other, all branches predicted.
    pub cycles: f64,
    /// The same, branches mispredicted that a history of the core's length cannot know.
    pub mispredicted: f64,
    /// Cycles of one call alone, from its first fetch to its last retirement, everything warm.
    pub alone: f64,
    /// Instructions executed.
    pub instructions: usize,
    /// Whether the state of the machine repeated.
    pub steady: bool,
    /// The parts that are not simulated, in sentences.
    pub caveats: Vec<String>,
}

/// Predict calls, in the order given. `threads` 0 means one per processor.
pub fn run_all(core: &Core, requests: &[Request], threads: usize) -> Vec<Result<CallCost, Error>> {
    let steps: Vec<Result<Vec<Step>, Error>> = requests.iter().map(|r| parse(&r.steps)).collect();
    let mut of_code: HashMap<&[u8], Vec<&Step>> = HashMap::new();
    for (request, steps) in requests.iter().zip(&steps) {
        let all = of_code.entry(&request.code).or_default();
        all.extend(steps.iter().flatten());
    }
    let codes: HashMap<&[u8], Code<'_>> = of_code
        .into_iter()
        .map(|(code, steps)| (code, Code::new(code, steps.into_iter(), &core.params, &core.table)))
        .collect();
    let both: Vec<_> = requests.iter().zip(&steps).collect();
    parallel::each(&both, threads, |(request, steps)| match steps {
        Ok(steps) => cost(core, &codes[request.code.as_slice()], request.offset, steps),
        Err(error) => Err(error.clone()),
    })
}

fn cost(core: &Core, code: &Code<'_>, offset: u32, steps: &[Step]) -> Result<CallCost, Error> {
    check(code, steps)?;
    let mut steps = steps.to_vec();
    let (history, turns) = (core.params.mispredict.history, core.params.taken_branch.exit_turns);
    mark(code, &mut steps, history, turns)?;
    let times = |steps: &[Step]| times(core, code, offset, steps);
    let Some(plan) = Plan::new(&steps) else {
        return times(&steps).map(|found| found.of(steps.len()));
    };
    let mut found = times(&plan.kept(&steps, None))?;
    let short = found.clone();
    let mut left_out = 0;
    for n in 0..plan.loops() {
        let longer = times(&plan.kept(&steps, Some(n)))?;
        let times = plan.left_out(n) as f64 / plan.more(n) as f64;
        // What a loop takes by itself is the same for all three.
        for sum in &mut found.cycles {
            *sum += times * (longer.cycles[0] - short.cycles[0]);
        }
        found.steady &= longer.steady;
        left_out += plan.left_out(n);
    }
    found.caveats.push(format!(
        "{left_out} iterations of loops are not simulated: they are taken to take as long as others of their loop"
    ));
    Ok(found.of(steps.len()))
}

/// Cycles of the steps of a call.
#[derive(Clone, Debug)]
struct Times {
    /// Predicted, mispredicted, alone.
    cycles: [f64; 3],
    steady: bool,
    caveats: Vec<String>,
}

impl Times {
    fn of(self, instructions: usize) -> CallCost {
        let [cycles, mispredicted, alone] = self.cycles;
        CallCost {
            cycles,
            mispredicted,
            alone,
            instructions,
            steady: self.steady,
            caveats: self.caveats,
        }
    }
}

fn times(core: &Core, code: &Code<'_>, offset: u32, steps: &[Step]) -> Result<Times, Error> {
    let block = Block::of_call(code, offset, steps, &core.params, &core.table)?;
    let cut = Cut::new(&block, &core.params);
    let simulate = |mispredicts: bool| -> Result<(f64, bool, f64), Error> {
        let ablation = Ablation {
            mispredicts: !mispredicts,
            ..Ablation::default()
        };
        let mut machine = Machine::new(&block, &cut, &core.params, &ablation)?;
        let (cycles, steady) = settle(&mut machine, &mut Nobody)?;
        let first = machine.retire().completed().first().copied();
        machine.recycle();
        Ok((cycles, steady, f64::from(first.unwrap_or_default())))
    };
    let (cycles, mut steady, alone) = simulate(false)?;
    let mut mispredicted = cycles;
    if steps.iter().any(|s| s.mispredicted) {
        let with = simulate(true)?;
        (mispredicted, steady) = (with.0, steady && with.1);
    }
    Ok(Times {
        cycles: [cycles, mispredicted, alone],
        steady,
        caveats: block.caveats,
    })
}
