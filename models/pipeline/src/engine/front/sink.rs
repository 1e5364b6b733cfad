//! The queue in front of rename, as the units that fill it see it.

use crate::engine::events::{Event, Observer};
use crate::engine::flight::{Source, Waiting};
use std::collections::VecDeque;

/// The end of the queue that uops enter by, in one cycle.
pub struct Sink<'q, O> {
    /// Current cycle.
    pub now: i32,
    /// Uops that the queue can hold.
    pub places: usize,
    /// The queue.
    pub uops: &'q mut VecDeque<Waiting>,
    /// Is told of what happens.
    pub observer: &'q mut O,
}

impl<O: Observer> Sink<'_, O> {
    /// Whether so many uops more fit.
    pub fn fits(&self, count: u32) -> bool {
        self.uops.len() + count as usize <= self.places
    }

    /// Put a fused uop in.
    #[inline]
    pub fn put(&mut self, fused: u32, iteration: u32, from: Source) {
        self.put_last(fused, iteration, from, false);
    }

    /// Put a fused uop in, which may be the last before the loop buffer starts over.
    #[inline]
    pub fn put_last(&mut self, fused: u32, iteration: u32, from: Source, wraps: bool) {
        self.uops.push_back(Waiting {
            fused,
            iteration,
            wraps,
        });
        self.observer.on(self.now, Event::Queued { fused, iteration, from });
    }
}
