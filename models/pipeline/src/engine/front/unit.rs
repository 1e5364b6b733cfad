//! The front end as a whole: which of its ways uops take to rename.

use crate::block::cache_plan::CachePlan;
use crate::block::stream::Stream;
use crate::block::{Block, Notion};
use crate::core::choice::{FetchKind, Mode};
use crate::core::params::Params;
use crate::engine::events::Observer;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Queued, Source, Waiting};
use crate::engine::front::code::Code;
use crate::engine::front::ideal::Ideal;
use crate::engine::front::loop_buffer::LoopBuffer;
use crate::engine::front::sink::Sink;
use crate::engine::relief::Relief;
use std::collections::VecDeque;

/// The way that uops take.
#[derive(Debug)]
enum Way<'a> {
    Ideal(Ideal),
    LoopBuffer(LoopBuffer),
    Code(Code<'a>),
}

/// The front end.
#[derive(Debug)]
pub struct FrontEnd<'a> {
    block: &'a Block,
    params: &'a Params,
    plan: CachePlan,
    way: Way<'a>,
    feeding: Source,
    buffered: bool,
    /// Instructions whose branches are mispredicted.
    mispredicted: &'a [bool],
    /// What follows a mispredicted branch is not known yet.
    waits: bool,
}

impl<'a> FrontEnd<'a> {
    /// A front end about to deliver a block; `queue` is an empty one.
    pub fn new(block: &'a Block, params: &'a Params, relief: &Relief, queue: VecDeque<Queued>) -> FrontEnd<'a> {
        let plan = CachePlan::new(block, params);
        let buffered = LoopBuffer::holds(block, params, &plan);
        let feeding = if buffered {
            Source::LoopBuffer
        } else if plan.starts_cached() {
            Source::UopCache
        } else {
            Source::Predecode
        };
        let way = if params.front_end.mode == Mode::Ideal {
            Way::Ideal(Ideal::new(block.fused.len()))
        } else if buffered {
            Way::LoopBuffer(LoopBuffer::new(block, params, relief))
        } else {
            Way::Code(Code::new(Stream { block }, params, relief, &plan, queue))
        };
        FrontEnd {
            block,
            params,
            plan,
            way,
            feeding,
            buffered,
            mispredicted: if relief.mispredicts { &[] } else { &block.mispredicted },
            waits: false,
        }
    }

    /// Fill the queue in front of rename for a cycle.
    pub fn cycle<O: Observer>(&mut self, now: i32, uops: &mut VecDeque<Waiting>, observer: &mut O) {
        if self.waits {
            return;
        }
        let before = uops.len();
        let mut sink = Sink {
            now,
            places: self.params.rename.queue as usize,
            uops,
            observer,
        };
        match &mut self.way {
            Way::Ideal(ideal) => ideal.cycle(sink.places, sink.uops),
            Way::LoopBuffer(buffer) => buffer.cycle(&mut sink),
            Way::Code(code) => {
                if let Some(unit) = code.cycle(&self.plan, &mut sink) {
                    self.feeding = unit;
                }
            }
        }
        if !self.mispredicted.is_empty() {
            let block = self.block;
            let inst = |w: &Waiting| usize::from(block.fused[w.fused as usize].inst);
            self.waits = uops.range(before..).any(|w| self.mispredicted[inst(w)]);
        }
    }

    /// What follows a mispredicted branch is known.
    pub fn resume(&mut self) {
        self.waits = false;
    }

    /// Unit that feeds rename now.
    pub fn feeding(&self) -> Source {
        self.feeding
    }

    /// Whether the loop buffer holds the block.
    pub fn buffered(&self) -> bool {
        self.buffered
    }

    /// Whether an instruction is decoded each time.
    pub fn decodes(&self, inst: u32) -> bool {
        self.plan.decoded(inst)
    }

    /// Iterations after which the code lies at the same place in its blocks again.
    pub fn layout_period(&self) -> u32 {
        if self.block.notion != Notion::Unrolled {
            return 1;
        }
        let modulus = if self.params.front_end.fetch == FetchKind::Predecoded {
            self.params.predecode.block_bytes
        } else if self.plan.streams {
            self.params.uop_cache.region_bytes
        } else {
            self.params.fetch.block_bytes
        };
        modulus >> self.block.len.trailing_zeros().min(modulus.trailing_zeros())
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.waits));
        match &self.way {
            Way::Ideal(ideal) => ideal.fingerprint(into),
            Way::LoopBuffer(buffer) => buffer.fingerprint(into),
            Way::Code(code) => code.fingerprint(&self.plan, into),
        }
    }

    /// Give the queue of instructions back, empty or not.
    pub fn into_queue(self) -> VecDeque<Queued> {
        match self.way {
            Way::Code(code) => code.into_queue(),
            _ => VecDeque::new(),
        }
    }
}
