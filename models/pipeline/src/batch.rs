//! Many blocks in one call, in parallel.

use crate::block::{Notion, StringUse};
use crate::core::Core;
use crate::error::Error;
use crate::predict::{predict, Prediction, Request};
use rayon::prelude::*;

/// One block to predict, owning its code.
#[derive(Clone, Debug)]
pub struct Job {
    /// Machine code.
    pub code: Vec<u8>,
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
            offset: 0,
            notion: Notion::Loop,
            strings: StringUse::default(),
            bottleneck: true,
            ports: false,
            timeline: 0,
        }
    }
}

/// Predict all blocks, in the order given. `threads` 0 means one per processor.
pub fn run(core: &Core, jobs: &[Job], threads: usize) -> Vec<Result<Prediction, Error>> {
    let one = |job: &Job| {
        predict(
            core,
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
    };
    if threads == 1 || jobs.len() < 2 {
        return jobs.iter().map(one).collect();
    }
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| jobs.par_iter().map(one).collect()),
        Err(_) => jobs.iter().map(one).collect(),
    }
}
