//! The microcode sequencer, which the decoders or the uop cache hand over to.

use crate::core::params::{decode, uop_cache, Params};
use crate::engine::events::Observer;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Source;
use crate::engine::front::sink::Sink;

/// Uops that are still to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Routine {
    /// Next fused uop of the block.
    pub next: u32,
    /// One past the last.
    pub end: u32,
    /// Iteration.
    pub iteration: u32,
}

/// Its action in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// Nothing: the decoders may work.
    Nothing,
    /// A switch to it or back from it was under way.
    Switched,
    /// It had the queue.
    Sent,
}

/// The sequencer.
#[derive(Debug)]
pub struct Microcode<'a> {
    decode: &'a decode,
    cache: &'a uop_cache,
    routine: Option<Routine>,
    stall: u32,
}

impl<'a> Microcode<'a> {
    /// With nothing to do.
    pub fn new(params: &'a Params) -> Microcode<'a> {
        Microcode {
            decode: &params.decode,
            cache: &params.uop_cache,
            routine: None,
            stall: 0,
        }
    }

    /// Cycles of a switch to it and back.
    fn switch(&self, cached: bool) -> u32 {
        if cached {
            self.cache.microcode_stall
        } else {
            self.decode.microcode_cycles
        }
    }

    /// Start, for the uop cache or for the decoders.
    pub fn start(&mut self, routine: Routine, cached: bool) {
        self.routine = Some(routine);
        self.stall = self.switch(cached).div_ceil(2);
    }

    /// Whether it has uops to send.
    pub fn busy(&self) -> bool {
        self.routine.is_some()
    }

    /// Send uops for a cycle; after it goes on the uop cache, or the decoders.
    pub fn cycle<O: Observer>(&mut self, cached: bool, sink: &mut Sink<'_, O>) -> Did {
        if self.stall > 0 {
            self.stall -= 1;
            return Did::Switched;
        }
        let Some(mut routine) = self.routine else {
            return Did::Nothing;
        };
        let mut sent = 0;
        while routine.next < routine.end && sent < self.decode.microcode_width && sink.fits(1) {
            sink.put(routine.next, routine.iteration, Source::Microcode);
            routine.next += 1;
            sent += 1;
        }
        self.routine = Some(routine).filter(|r| r.next < r.end);
        if self.routine.is_none() {
            self.stall = self.switch(cached) / 2;
        }
        Did::Sent
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, into: &mut Fingerprint) {
        let routine = self
            .routine
            .map_or(0xffff_ffff, |r| u64::from(r.next) << 16 | into.near(r.iteration));
        into.add(u64::from(self.stall) << 32 | routine);
    }
}
