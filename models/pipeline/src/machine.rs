//! The machine: all state of a simulation and the order of its units within a cycle.

use crate::block::{Block, Notion, Slot};
use crate::error::Error;
use crate::events::{Event, Observer};
use crate::inst::REGS;
use crate::params::{Assign, FetchKind, Params};
use crate::uop_cache::CachePlan;
use std::collections::VecDeque;

/// Fused uops in flight at most; a power of two.
pub const ROB_SIZE: usize = 2048;
/// Uops in flight at most; a power of two.
pub const UOP_SIZE: usize = 4096;
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

/// Choices among the parameters that are needed in every cycle.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// The front end is ideal.
    pub ideal: bool,
    /// Instructions are predecoded.
    pub predecoded: bool,
    /// Rename sees the counts from before this cycle's dispatch.
    pub stale_counts: bool,
    /// Only computing uops advance the issue slot.
    pub computing: bool,
    /// Ports of arithmetic, if rename limits it.
    pub alu: u32,
}

impl Mode {
    fn new(params: &Params) -> Mode {
        let limited = params.rename.alu_uops < 1000;
        Mode {
            ideal: params.front_end.mode == "ideal",
            predecoded: params.fetch_kind() == Ok(FetchKind::Predecoded),
            stale_counts: params.ports.counts == "stale",
            computing: params.ports.position == "computing",
            alu: if limited { params.mask(&params.ports.alu).unwrap_or(0) } else { 0 },
        }
    }
}

/// Large arrays that simulations on a thread use one after the other. Their
/// content is written before it is read.
#[derive(Clone)]
struct Scratch {
    links: Vec<u32>,
    extra: Vec<u16>,
    flights: Vec<Flight>,
    rob: Vec<RobEntry>,
    values: Vec<Value>,
}

impl Default for Scratch {
    fn default() -> Self {
        let flight = Flight {
            uop: NONE,
            rob: 0,
            iteration: 0,
            port: 255,
            pending: 0,
            ready: 0,
            critical: 0,
            values: [NONE; 4],
            result: LATER,
        };
        Scratch {
            links: vec![NONE; UOP_SIZE * SOURCES],
            extra: vec![0; UOP_SIZE * SOURCES],
            flights: vec![flight; UOP_SIZE],
            rob: vec![RobEntry { slot: 0, iteration: 0, left: 0, done: 0 }; ROB_SIZE],
            values: Vec::with_capacity(1024),
        }
    }
}

thread_local! {
    static SCRATCH: std::cell::Cell<Option<Scratch>> = const { std::cell::Cell::new(None) };
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        let scratch = Scratch {
            links: std::mem::take(&mut self.links),
            extra: std::mem::take(&mut self.extra),
            flights: std::mem::take(&mut self.flights),
            rob: std::mem::take(&mut self.rob),
            values: std::mem::take(&mut self.values),
        };
        // The thread may be ending.
        let _ = SCRATCH.try_with(|place| place.set(Some(scratch)));
    }
}

/// State of a simulation.
pub struct Machine<'a> {
    /// Block.
    pub block: &'a Block,
    /// Parameters.
    pub params: &'a Params,
    /// Port assignment.
    pub assign: Assign,
    /// Choices among the parameters, looked up once.
    pub mode: Mode,
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
    /// For each instruction, the one whose result it waited for last.
    pub critical: Vec<u16>,
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
        let mut scratch = SCRATCH.take().unwrap_or_default();
        scratch.values.clear();
        let stores = block.store_number.iter().flatten().count();
        Ok(Machine {
            assign: params.assign()?,
            mode: Mode::new(params),
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
            values: scratch.values,
            free_values: Vec::new(),
            links: scratch.links,
            extra: scratch.extra,
            flights: scratch.flights,
            next_flight: 0,
            oldest_flight: 0,
            rob: scratch.rob,
            rob_head: 0,
            rob_tail: 0,
            sched: crate::scheduler::State::new(params),
            rename: crate::rename::State::default(),
            stores: vec![[Held::Since(0, 0); 8]; stores],
            stored: vec![[Held::Since(0, 0); 8]; stores],
            retire: crate::retire::State::default(),
            port_uses: [0; 24],
            critical: (0..block.insts.len() as u16).collect(),
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
        if self.mode.stale_counts {
            self.sched.snapshot();
        }
        self.dispatch_cycle(observer);
        if !self.mode.stale_counts {
            self.sched.snapshot();
        }
        self.rename_cycle(observer);
        self.front_end_cycle(observer);
        self.now += 1;
    }

    fn front_end_cycle<O: Observer>(&mut self, observer: &mut O) {
        if self.mode.ideal {
            self.ideal_cycle();
            return;
        }
        if self.lsd.active {
            self.loop_buffer_cycle();
            return;
        }
        self.uop_cache_cycle(observer);
        self.decode_cycle(observer);
        if self.mode.predecoded {
            self.predecode_cycle(observer);
        } else {
            self.fetch_cycle(observer);
        }
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

    /// Iterations after which the code lies at the same place in its blocks again.
    pub fn layout_period(&self) -> u32 {
        if self.block.notion == Notion::Loop {
            return 1;
        }
        let modulus = if self.mode.predecoded {
            self.params.predecode.block_bytes
        } else if self.plan.streams {
            self.params.uop_cache.region_bytes
        } else {
            self.params.fetch.block_bytes
        };
        modulus >> self.block.len.trailing_zeros().min(modulus.trailing_zeros())
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
}
