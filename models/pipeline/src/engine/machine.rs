//! The machine: its units, and their order within a cycle.

use crate::block::cut::Cut;
use crate::block::stream::Stream;
use crate::block::Block;
use crate::core::params::Params;
use crate::engine::ablation::Ablation;
use crate::engine::backend::Backend;
use crate::engine::events::{Event, Observer};
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Queued, Waiting};
use crate::engine::front::unit::FrontEnd;
use crate::engine::in_flight::InFlight;
use crate::engine::memory::Memory;
use crate::engine::ready::Ready;
use crate::engine::rename::Rename;
use crate::engine::results::Results;
use crate::engine::retire::{Entries, Retire};
use crate::engine::schedule::Schedule;
use crate::error::Error;
use std::cell::Cell;
use std::collections::VecDeque;

/// Large arrays that simulations on a thread use one after the other.
#[derive(Default)]
struct Scratch {
    results: Results,
    flights: InFlight,
    ready: Ready,
    entries: Entries,
    queue: VecDeque<Queued>,
    uops: VecDeque<Waiting>,
}

thread_local! {
    static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// Cycles after which an undecided simulation is evaluated as it is.
const CYCLES: i32 = 500;
/// The same where rename fills schedulers evenly: such loops take longer until they settle.
const EVEN_CYCLES: i32 = 1000;

/// A core at work on a block.
#[derive(Debug)]
pub struct Machine<'a> {
    block: &'a Block,
    now: i32,
    undecided: i32,
    front: FrontEnd<'a>,
    /// Fused uops in front of rename.
    uops: VecDeque<Waiting>,
    rename: Rename<'a>,
    backend: Backend<'a>,
}

impl<'a> Machine<'a> {
    /// A machine without some limits, about to run `block`, whose code it cuts as `cut` says.
    ///
    /// # Errors
    /// The block has no uops.
    pub fn new(block: &'a Block, cut: &'a Cut, params: &'a Params, ablation: &Ablation) -> Result<Machine<'a>, Error> {
        if block.slots.is_empty() {
            return Err(Error::Block("no uops".into()));
        }
        let mut scratch = SCRATCH.take().unwrap_or_default();
        scratch.results.clear();
        scratch.queue.clear();
        scratch.uops.clear();
        Ok(Machine {
            block,
            now: 0,
            undecided: if params.ports.balanced.is_empty() {
                CYCLES
            } else {
                EVEN_CYCLES
            },
            front: FrontEnd::new(Stream { block, cut }, params, ablation, scratch.queue),
            uops: scratch.uops,
            rename: Rename::new(block, params, ablation),
            backend: Backend {
                block,
                results: scratch.results,
                schedule: Schedule::new(block, params, ablation, scratch.flights, scratch.ready),
                memory: Memory::new(block, params),
                retire: Retire::new(block, params, scratch.entries),
            },
        })
    }

    /// One cycle: the last unit of the pipeline first, so that nothing moves
    /// through two units at once.
    pub fn cycle<O: Observer>(&mut self, observer: &mut O) {
        let now = self.now;
        observer.on(now, Event::Cycle);
        let Backend {
            results,
            schedule,
            memory,
            retire,
            ..
        } = &mut self.backend;
        memory.cycle(now, |value| schedule.wake(now, value, now, results));
        retire.cycle(now, observer, |store, iteration| memory.retire(store, iteration));
        schedule.cycle(now, results, retire, observer);
        let feeding = self.front.feeding();
        self.rename
            .cycle(now, &mut self.uops, feeding, &mut self.backend, observer);
        if self.rename.resumes() {
            self.front.resume();
        }
        self.front.cycle(now, &mut self.uops, observer);
        self.now += 1;
    }

    /// Block that it runs.
    pub fn block(&self) -> &'a Block {
        self.block
    }

    /// Cycles since the start.
    pub fn now(&self) -> i32 {
        self.now
    }

    /// Cycles after which an undecided simulation is evaluated as it is.
    pub fn undecided(&self) -> i32 {
        self.undecided
    }

    /// Front end.
    pub fn front(&self) -> &FrontEnd<'a> {
        &self.front
    }

    /// Rename.
    pub fn rename(&self) -> &Rename<'a> {
        &self.rename
    }

    /// Stores in flight.
    pub fn memory(&self) -> &Memory<'a> {
        &self.backend.memory
    }

    /// Reorder buffer.
    pub fn retire(&self) -> &Retire<'a> {
        &self.backend.retire
    }

    /// Fingerprint of everything that decides what happens next, relative to the
    /// current cycle and to the number of completed iterations; and another one
    /// without the choices of ports.
    pub fn fingerprint(&mut self) -> (u64, u64) {
        let iterations = self.backend.retire.completed().len() as u32;
        let mut into = Fingerprint::new(iterations, self.block.split_period, self.now);
        // Uops follow each other in program order: the first one tells the others.
        into.add(self.uops.len() as u64);
        if let Some(w) = self.uops.front() {
            let place = into.ahead(w.iteration) << 1 | u64::from(w.wraps);
            into.add(u64::from(w.fused) << 32 | place);
        }
        self.front.fingerprint(&mut into);
        self.rename.fingerprint(&self.backend.results, &mut into);
        self.backend.retire.fingerprint(&mut into);
        let first = self.backend.retire.retired();
        self.backend.schedule.fingerprint(first, &mut into);
        self.backend.memory.fingerprint(&self.backend.results, &mut into);
        into.finish()
    }

    /// Leave the arrays to the next simulation on this thread.
    pub fn recycle(self) {
        let (flights, ready) = self.backend.schedule.into_parts();
        SCRATCH.set(Some(Scratch {
            results: self.backend.results,
            flights,
            ready,
            entries: self.backend.retire.into_entries(),
            queue: self.front.into_queue(),
            uops: self.uops,
        }));
    }
}
