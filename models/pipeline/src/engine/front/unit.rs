//! The front end as a whole: which of its ways uops take to rename.

use crate::block::cut::Cut;
use crate::block::position::period;
use crate::block::stream::Stream;
use crate::block::{Block, Notion};
use crate::core::choice::{FetchKind, Mode};
use crate::core::params::Params;
use crate::engine::ablation::Ablation;
use crate::engine::events::Observer;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Queued, Source, Waiting};
use crate::engine::front::code::Code;
use crate::engine::front::ideal::Ideal;
use crate::engine::front::loop_buffer::LoopBuffer;
use crate::engine::front::sink::Sink;
use std::collections::VecDeque;

/// The way that uops take.
#[derive(Debug)]
enum Way<'a> {
    Ideal(Ideal),
    LoopBuffer(LoopBuffer),
    Code(Box<Code<'a>>),
}

/// The front end.
#[derive(Debug)]
pub struct FrontEnd<'a> {
    block: &'a Block,
    params: &'a Params,
    cut: &'a Cut,
    way: Way<'a>,
    feeding: Source,
    /// Instructions whose branches are mispredicted.
    mispredicted: &'a [bool],
    /// The target of a mispredicted branch is not known yet.
    waits: bool,
}

impl<'a> FrontEnd<'a> {
    /// A front end about to deliver a block; `queue` is an empty one.
    pub fn new(stream: Stream<'a>, params: &'a Params, ablation: &Ablation, queue: VecDeque<Queued>) -> FrontEnd<'a> {
        let Stream { block, cut } = stream;
        let feeding = if cut.buffered {
            Source::LoopBuffer
        } else if cut.plan.starts_cached() {
            Source::UopCache
        } else {
            Source::Predecode
        };
        let way = if params.front_end.mode == Mode::Ideal {
            Way::Ideal(Ideal::new(block.fused.len()))
        } else if cut.buffered {
            Way::LoopBuffer(LoopBuffer::new(block, params, ablation))
        } else {
            Way::Code(Box::new(Code::new(stream, params, ablation, queue)))
        };
        FrontEnd {
            block,
            params,
            cut,
            way,
            feeding,
            mispredicted: if ablation.mispredicts { &[] } else { &block.mispredicted },
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
                if let Some(unit) = code.cycle(&self.cut.plan, &mut sink) {
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

    /// The target of a mispredicted branch is known.
    pub fn resume(&mut self) {
        self.waits = false;
    }

    /// Unit that feeds rename now.
    pub fn feeding(&self) -> Source {
        self.feeding
    }

    /// Whether the loop buffer holds the block.
    pub fn buffered(&self) -> bool {
        self.cut.buffered
    }

    /// Whether an instruction is decoded each time.
    pub fn decodes(&self, inst: u32) -> bool {
        self.cut.plan.decoded(inst)
    }

    /// Iterations after which the code lies at the same place in its blocks again.
    pub fn layout_period(&self) -> u32 {
        if self.block.notion != Notion::Unrolled {
            return 1;
        }
        let plan = &self.cut.plan;
        if !plan.lines.is_empty() {
            return plan.copies;
        }
        let modulus = if plan.streams && self.params.front_end.fetch != FetchKind::Predecoded {
            self.params.uop_cache.region_bytes
        } else {
            self.cut.bytes
        };
        period(i64::from(self.block.len), modulus)
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        into.add(u64::from(self.waits));
        match &self.way {
            Way::Ideal(ideal) => ideal.fingerprint(into),
            Way::LoopBuffer(buffer) => buffer.fingerprint(into),
            Way::Code(code) => code.fingerprint(&self.cut.plan, into),
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
