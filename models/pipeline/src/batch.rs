//! Many blocks in one call, in parallel; those of the same code are made ready once.

use crate::block::path::{Path, Stretch};
use crate::block::{Notion, StringUse};
use crate::block_offsets::BlockOffsets;
use crate::core::Core;
use crate::error::Error;
use crate::parallel;
use crate::predict::{along, Prediction, Request};
use std::collections::HashMap;

/// One block to predict, owning its code.
#[derive(Clone, Debug)]
pub struct Job {
    /// Machine code.
    pub code: Vec<u8>,
    /// Stretches of it that an iteration of a loop executes, in order; `None`: all of it.
    pub path: Option<Vec<Stretch>>,
    /// Code offset mod 64.
    pub offset: u32,
    /// Notion.
    pub notion: Notion,
    /// Use of string instructions.
    pub strings: StringUse,
    /// Also name what limits it.
    pub bottleneck: bool,
    /// Also count uses of ports by instruction.
    pub ports: bool,
    /// Also keep the events of that many iterations.
    pub timeline: u32,
}

impl Default for Job {
    fn default() -> Self {
        Job {
            code: Vec::new(),
            path: None,
            offset: 0,
            notion: Notion::Loop,
            strings: StringUse::default(),
            bottleneck: true,
            ports: false,
            timeline: 0,
        }
    }
}

impl Job {
    /// Whether cycles are all that is asked for.
    fn brief(&self) -> bool {
        !self.bottleneck && !self.ports && self.timeline == 0
    }

    fn path(&self, core: &Core) -> Result<Path, Error> {
        Path::given(core.params.isa, &self.code, self.path.as_deref(), self.notion)
    }
}

/// Predict all blocks, in the order given. `threads` 0 means one per processor.
pub fn run(core: &Core, jobs: &[Job], threads: usize) -> Vec<Result<Prediction, Error>> {
    let groups = groups(jobs);
    let found = parallel::each(&groups, threads, |numbers| group(core, jobs, numbers));
    let numbered = groups.into_iter().flatten().zip(found.into_iter().flatten());
    let mut numbered: Vec<(usize, _)> = numbered.collect();
    numbered.sort_unstable_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, result)| result).collect()
}

/// The key of requests that share their preparation.
type Alike<'a> = (&'a [u8], Option<&'a [Stretch]>, Notion, StringUse);

/// Numbers of the jobs that are done together: of those of which cycles are asked for alone, those of the same code.
fn groups(jobs: &[Job]) -> Vec<Vec<usize>> {
    let mut known: HashMap<Alike, usize> = HashMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let new = groups.len();
        let group = match job.brief() {
            true => *known
                .entry((&job.code, job.path.as_deref(), job.notion, job.strings))
                .or_insert(new),
            false => new,
        };
        if group == new {
            groups.push(Vec::new());
        }
        groups[group].push(number);
    }
    groups
}

fn group(core: &Core, jobs: &[Job], numbers: &[usize]) -> Vec<Result<Prediction, Error>> {
    let first = &jobs[numbers[0]];
    if !first.brief() {
        return numbers.iter().map(|n| one(core, &jobs[*n])).collect();
    }
    let placed = first
        .path(core)
        .and_then(|path| BlockOffsets::new(core, path, first.code.len(), first.notion, first.strings));
    let mut placed = match placed {
        Ok(placed) => placed,
        Err(error) => return numbers.iter().map(|_| Err(error.clone())).collect(),
    };
    let at = |n: &usize| placed.at(jobs[*n].offset).map(|outcome| placed.prediction(outcome));
    numbers.iter().map(at).collect()
}

fn one(core: &Core, job: &Job) -> Result<Prediction, Error> {
    along(
        core,
        job.path(core)?,
        &Request {
            code: &job.code,
            offset: job.offset,
            notion: job.notion,
            strings: job.strings,
            bottleneck: job.bottleneck,
            ports: job.ports,
            timeline: job.timeline,
        },
    )
}
