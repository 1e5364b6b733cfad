//! The machine: all state of a simulation and the order of its units within a cycle.

use crate::block::{Block, Notion, Slot};
use crate::error::Error;
use crate::events::{Event, Observer};
use crate::inst::REGS;
use crate::params::{Assign, CacheRule, FetchKind, Params};
use crate::uop_cache::CachePlan;
use std::collections::VecDeque;

/// Fused uops in flight at most; a power of two.
pub const ROB_SIZE: usize = 4096;
/// Uops in flight at most; a power of two.
pub const UOP_SIZE: usize = 8192;
/// Sources of a uop that are tracked.
pub const SOURCES: usize = 8;
/// No index.
pub const NONE: u32 = u32::MAX;
/// Not known yet.
pub const LATER: i32 = i32::MAX;

/// A result in flight.
#[derive(Clone, Copy)]
pub struct Value {
    /// Cycle at which it is known.
    pub ready: i32,
    /// Registers that hold it.
    pub uses: u16,
    /// First waiting input, as uop slot times [`SOURCES`] plus input.
    pub waiting: u32,
    /// Instruction that makes it.
    pub inst: u16,
}

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Known since a cycle; instruction that made it.
    Since(i32, u16),
    /// Result in flight.
    Value(u32),
}

/// A uop in flight.
#[derive(Clone, Copy)]
pub struct Flight {
    /// Uop of the block.
    pub uop: u32,
    /// Reorder buffer entry.
    pub rob: u32,
    /// Iteration.
    pub iteration: u32,
    /// Port chosen, or 255.
    pub port: u8,
    /// Inputs not known yet.
    pub pending: u8,
    /// Earliest start as far as known.
    pub ready: i32,
    /// Instruction whose result came last.
    pub critical: u16,
    /// Values of its outputs.
    pub values: [u32; 4],
    /// Cycle at which its first result is known, [`LATER`] until it starts.
    pub result: i32,
}

/// A fused uop in flight.
#[derive(Clone, Copy)]
pub struct RobEntry {
    /// Slot of the block.
    pub slot: u32,
    /// Iteration.
    pub iteration: u32,
    /// Uops still to start.
    pub left: u8,
    /// Cycle at which all started uops are done.
    pub done: i32,
}

/// An instruction between fetch and decode.
#[derive(Clone, Copy)]
pub struct Queued {
    /// Instruction of the block.
    pub inst: u32,
    /// Iteration.
    pub iteration: u32,
    /// First cycle at which it can be decoded.
    pub ready: i32,
}

/// A fused uop in front of rename.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Fused uop of the block.
    pub fused: u32,
    /// Iteration.
    pub iteration: u32,
    /// Last before the loop buffer starts over.
    pub wraps: bool,
}

/// Why the front end delivered nothing, for naming the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Predecoder or fetch.
    Predecode,
    /// Decoders.
    Decode,
    /// Microcode sequencer.
    Microcode,
    /// Uop cache.
    UopCache,
    /// Loop buffer.
    LoopBuffer,
}

/// Position in the endless stream of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position {
    /// Iteration.
    pub iteration: u32,
    /// Instruction of the block.
    pub inst: u32,
}

/// State of a simulation.
pub struct Machine<'a> {
    /// Block.
    pub block: &'a Block,
    /// Parameters.
    pub params: &'a Params,
    /// Port assignment.
    pub assign: Assign,
    /// Rename sees the counts from before this cycle's dispatch.
    pub stale_counts: bool,
    /// Current cycle.
    pub now: i32,
    /// Predecoder.
    pub predecode: crate::predecode::State,
    /// Decoders.
    pub decode: crate::decode::State,
    /// What of the block the uop cache holds.
    pub plan: CachePlan,
    /// Uop cache.
    pub cache: crate::uop_cache::State,
    /// Loop buffer.
    pub lsd: crate::loop_buffer::State,
    /// Instructions between predecode and decode.
    pub queue: VecDeque<Queued>,
    /// Fused uops in front of rename.
    pub idq: VecDeque<Waiting>,
    /// Unit that feeds rename now.
    pub source: Source,
    /// Register contents.
    pub held: [Held; REGS],
    /// Constant added at rename.
    pub added: [i32; REGS],
    /// Results.
    pub values: Vec<Value>,
    /// Unused entries of `values`.
    pub free_values: Vec<u32>,
    /// Links between waiting inputs.
    pub links: Vec<u32>,
    /// Additional cycles of each waiting input.
    pub extra: Vec<u16>,
    /// Uops in flight.
    pub flights: Vec<Flight>,
    /// Number of the next uop.
    pub next_flight: u32,
    /// No uop before this number waits.
    pub oldest_flight: u32,
    /// Reorder buffer.
    pub rob: Vec<RobEntry>,
    /// Number of the oldest entry.
    pub rob_head: u32,
    /// Number of the next entry.
    pub rob_tail: u32,
    /// Schedulers and ports.
    pub sched: crate::scheduler::State,
    /// Rename.
    pub rename: crate::rename::State,
    /// Store data in flight: per store, the values of the last iterations.
    pub stores: Vec<[Held; 8]>,
    /// What the stores store: per store, the values of the last iterations.
    pub stored: Vec<[Held; 8]>,
    /// Retirement.
    pub retire: crate::retire::State,
    /// Uops executed per port since the start, and by uop of the block.
    pub port_uses: [u64; 24],
    /// Uses by uop and port; filled only if asked for.
    pub usage: Option<Vec<[u32; 24]>>,
}

impl<'a> Machine<'a> {
    /// An empty machine about to run `block`.
    ///
    /// # Errors
    /// A parameter is not understood.
    pub fn new(block: &'a Block, params: &'a Params) -> Result<Machine<'a>, Error> {
        let plan = CachePlan::new(block, params)?;
        let lsd = crate::loop_buffer::State::new(block, params, &plan);
        let source = if lsd.active {
            Source::LoopBuffer
        } else if plan.starts_cached() {
            Source::UopCache
        } else {
            Source::Predecode
        };
        let stores = block.store_number.iter().flatten().count();
        Ok(Machine {
            assign: params.assign()?,
            stale_counts: params.ports.counts == "stale",
            now: 0,
            predecode: crate::predecode::State::default(),
            decode: crate::decode::State::default(),
            cache: crate::uop_cache::State::default(),
            plan,
            lsd,
            queue: VecDeque::with_capacity(64),
            idq: VecDeque::with_capacity(256),
            source,
            held: [Held::Since(0, 0); REGS],
            added: [0; REGS],
            values: Vec::with_capacity(256),
            free_values: Vec::new(),
            links: vec![NONE; UOP_SIZE * SOURCES],
            extra: vec![0; UOP_SIZE * SOURCES],
            flights: vec![
                Flight {
                    uop: 0,
                    rob: 0,
                    iteration: 0,
                    port: 255,
                    pending: 0,
                    ready: 0,
                    critical: 0,
                    values: [NONE; 4],
                    result: LATER,
                };
                UOP_SIZE
            ],
            next_flight: 0,
            oldest_flight: 0,
            rob: vec![RobEntry { slot: 0, iteration: 0, left: 0, done: 0 }; ROB_SIZE],
            rob_head: 0,
            rob_tail: 0,
            sched: crate::scheduler::State::new(params),
            rename: crate::rename::State::default(),
            stores: vec![[Held::Since(0, 0); 8]; stores],
            stored: vec![[Held::Since(0, 0); 8]; stores],
            retire: crate::retire::State::default(),
            port_uses: [0; 24],
            usage: None,
            block,
            params,
        })
    }

    /// One cycle: the last unit of the pipeline first, so that nothing moves
    /// through two units at once.
    pub fn cycle<O: Observer>(&mut self, observer: &mut O) {
        observer.on(self.now, Event::Cycle);
        self.retire_cycle(observer);
        if self.stale_counts {
            self.sched.snapshot();
        }
        self.dispatch_cycle(observer);
        if !self.stale_counts {
            self.sched.snapshot();
        }
        self.rename_cycle(observer);
        self.front_end_cycle(observer);
        self.now += 1;
    }

    fn front_end_cycle<O: Observer>(&mut self, observer: &mut O) {
        if self.params.front_end.mode == "ideal" {
            self.ideal_cycle();
            return;
        }
        if self.lsd.active {
            self.loop_buffer_cycle();
            return;
        }
        self.uop_cache_cycle(observer);
        self.decode_cycle(observer);
        if self.predecoded() {
            self.predecode_cycle(observer);
        } else {
            self.fetch_cycle(observer);
        }
    }

    fn predecoded(&self) -> bool {
        self.params.front_end.fetch == "predecoded"
    }

    /// Keep the queue in front of rename full.
    fn ideal_cycle(&mut self) {
        while self.idq.len() < self.params.rename.queue as usize {
            let next = self.lsd.next;
            self.idq.push_back(Waiting { fused: next.inst, iteration: next.iteration, wraps: false });
            self.lsd.next = if next.inst as usize + 1 == self.block.fused.len() {
                Position { iteration: next.iteration + 1, inst: 0 }
            } else {
                Position { inst: next.inst + 1, ..next }
            };
        }
    }

    /// Address of an instruction mod 2^32, the block being laid out at its code offset.
    pub fn address(&self, at: Position) -> u32 {
        let copies = if self.block.notion == Notion::Unrolled { at.iteration } else { 0 };
        self.block
            .code_offset
            .wrapping_add(copies.wrapping_mul(self.block.len))
            .wrapping_add(self.block.insts[at.inst as usize].offset)
    }

    /// The instruction after this one in program order.
    pub fn after(&self, at: Position) -> Position {
        if at.inst as usize + 1 == self.block.insts.len() {
            Position { iteration: at.iteration + 1, inst: 0 }
        } else {
            Position { inst: at.inst + 1, ..at }
        }
    }

    /// Slot of a reorder buffer entry.
    pub fn slot_of(&self, entry: &RobEntry) -> &'a Slot {
        &self.block.slots[entry.slot as usize]
    }

    /// Whether the core has no cache of decoded uops.
    pub fn uncached(params: &Params) -> bool {
        params.cache_rule() == Ok(CacheRule::None)
    }

    /// Whether instructions are predecoded.
    pub fn has_predecoder(params: &Params) -> bool {
        params.fetch_kind() == Ok(FetchKind::Predecoded)
    }
}
