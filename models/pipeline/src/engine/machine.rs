//! The machine: all state of a simulation and the order of its units within a cycle.

use crate::block::cache_plan::CachePlan;
use crate::block::{Block, Notion, Slot};
use crate::core::params::{Assign, FetchKind, Params};
use crate::engine::events::{Event, Observer};
use crate::engine::flight::*;
use crate::error::Error;
use crate::isa::inst::REGS;
use std::collections::VecDeque;

/// Choices among the parameters that are needed in every cycle.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// The front end is ideal.
    pub ideal: bool,
    /// Instructions are predecoded.
    pub predecoded: bool,
    /// Only computing uops advance the issue slot.
    pub computing: bool,
    /// Bits of an address within a block of the predecoder.
    pub block_shift: u32,
}

impl Mode {
    fn new(params: &Params) -> Mode {
        Mode {
            ideal: params.front_end.mode == "ideal",
            predecoded: params.fetch_kind() == Ok(FetchKind::Predecoded),
            computing: params.ports.position == "computing",
            block_shift: params.predecode.block_bytes.trailing_zeros(),
        }
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
    pub predecode: crate::engine::front::predecode::State,
    /// Decoders.
    pub decode: crate::engine::front::decode::State,
    /// What of the block the uop cache holds.
    pub plan: CachePlan,
    /// Uop cache.
    pub cache: crate::engine::front::uop_cache::State,
    /// Loop buffer.
    pub lsd: crate::engine::front::loop_buffer::State,
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
    pub links: Box<[u32; UOP_SIZE * SOURCES]>,
    /// Additional cycles of each waiting input.
    pub extra: Box<[u16; UOP_SIZE * SOURCES]>,
    /// Uops in flight.
    pub flights: Box<[Flight; UOP_SIZE]>,
    /// Number of the next uop.
    pub next_flight: u32,
    /// No uop before this number waits.
    pub oldest_flight: u32,
    /// Reorder buffer.
    pub rob: Box<[RobEntry; ROB_SIZE]>,
    /// Number of the oldest entry.
    pub rob_head: u32,
    /// Number of the next entry.
    pub rob_tail: u32,
    /// Schedulers and ports.
    pub sched: crate::engine::schedule::State,
    /// Rename.
    pub rename: crate::engine::rename::State,
    /// Store data in flight: per store, the values of the last iterations.
    pub stores: Vec<[Held; 8]>,
    /// What the stores store: per store, the values of the last iterations.
    pub stored: Vec<[Held; 8]>,
    /// Stores between rename and the cache.
    pub commit: crate::engine::memory::State,
    /// Retirement.
    pub retire: crate::engine::retire::State,
    /// Uops executed per port since the start, and by uop of the block.
    pub port_uses: [u64; 24],
    /// For each instruction, the one whose result it waited for last.
    pub critical: Vec<u16>,
    /// Which instruction waited for which; filled only if asked for.
    pub edges: Option<crate::observe::chains::Edges>,
    /// Limits that are lifted.
    pub relief: crate::observe::ideal::Relief,
    /// Uses by uop and port; filled only if asked for.
    pub usage: Option<crate::observe::usage::Usage>,
}

impl<'a> Machine<'a> {
    /// An empty machine about to run `block`.
    ///
    /// # Errors
    /// A parameter is not understood.
    pub fn new(block: &'a Block, params: &'a Params) -> Result<Machine<'a>, Error> {
        let plan = CachePlan::new(block, params)?;
        let lsd = crate::engine::front::loop_buffer::State::new(block, params, &plan);
        let source = if lsd.active {
            Source::LoopBuffer
        } else if plan.starts_cached() {
            Source::UopCache
        } else {
            Source::Predecode
        };
        let assign = params.assign()?;
        let scratch = crate::engine::scratch::SCRATCH.take().unwrap_or_default();
        let stores = if block.forwards { block.stores } else { 0 };
        Ok(Machine {
            assign,
            mode: Mode::new(params),
            now: 0,
            predecode: crate::engine::front::predecode::State::default(),
            decode: crate::engine::front::decode::State::default(),
            cache: crate::engine::front::uop_cache::State::default(),
            plan,
            lsd,
            queue: scratch.queue,
            idq: scratch.idq,
            source,
            held: [Held::Since(0, 0); REGS],
            added: [0; REGS],
            values: scratch.values,
            free_values: scratch.free_values,
            links: scratch.links,
            extra: scratch.extra,
            flights: scratch.flights,
            next_flight: 0,
            oldest_flight: 0,
            rob: scratch.rob,
            rob_head: 0,
            rob_tail: 0,
            sched: crate::engine::schedule::State::new(block, params, assign, scratch.ready),
            rename: crate::engine::rename::State::default(),
            stores: vec![[Held::Since(0, 0); 8]; stores],
            stored: vec![[Held::Since(0, 0); 8]; stores],
            commit: crate::engine::memory::State::new(block.places.len()),
            retire: crate::engine::retire::State::default(),
            port_uses: [0; 24],
            critical: (0..block.insts.len() as u16).collect(),
            edges: None,
            relief: crate::observe::ideal::Relief::default(),
            usage: None,
            block,
            params,
        })
    }

    /// One cycle: the last unit of the pipeline first, so that nothing moves
    /// through two units at once.
    pub fn cycle<O: Observer>(&mut self, observer: &mut O) {
        observer.on(self.now, Event::Cycle);
        self.commit_cycle();
        self.retire_cycle(observer);
        self.dispatch_cycle(observer);
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
            self.loop_buffer_cycle(observer);
            return;
        }
        self.uop_cache_cycle(observer);
        if self.mode.predecoded {
            // It sees the queue as it is before this cycle's decoding.
            self.predecode_cycle(observer);
            self.decode_cycle(observer);
        } else {
            self.decode_cycle(observer);
            self.fetch_cycle(observer);
        }
    }

    /// Keep the queue in front of rename full.
    fn ideal_cycle(&mut self) {
        while self.idq.len() < self.params.rename.queue as usize {
            let next = self.lsd.next;
            self.idq.push_back(Waiting {
                fused: next.inst,
                iteration: next.iteration,
                wraps: false,
            });
            self.lsd.next = if next.inst as usize + 1 == self.block.fused.len() {
                Position {
                    iteration: next.iteration + 1,
                    inst: 0,
                }
            } else {
                Position {
                    inst: next.inst + 1,
                    ..next
                }
            };
        }
    }

    /// Address of an instruction mod 2^32, the block being laid out at its code offset.
    pub fn address(&self, at: Position) -> u32 {
        let copies = if self.block.notion == Notion::Unrolled {
            at.iteration
        } else {
            0
        };
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
            Position {
                iteration: at.iteration + 1,
                inst: 0,
            }
        } else {
            Position {
                inst: at.inst + 1,
                ..at
            }
        }
    }

    /// Slot of a reorder buffer entry.
    pub fn slot_of(&self, entry: &RobEntry) -> &'a Slot {
        &self.block.slots[entry.slot as usize]
    }
}
