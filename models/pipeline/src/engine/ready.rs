//! Uops with all inputs known: each waits for its cycle, then in a queue for a port.

use crate::block::uops::Uop;
use crate::engine::flight::NONE;
use std::collections::VecDeque;

/// Cycles that are looked ahead; what comes later is looked at again then.
const HORIZON: usize = 128;

/// A uop whose first possible cycle has not come.
#[derive(Clone, Copy, Debug)]
struct Coming {
    id: u32,
    at: i32,
    queue: u16,
}

/// Uops that could start now, for the same ports; the oldest is first.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Ports that can execute them.
    pub ports: u32,
    /// They need a unit that stays busy.
    pub slow: bool,
    /// The oldest, [`NONE`] if there is none.
    oldest: u32,
    /// The others, by age.
    others: VecDeque<u32>,
}

impl Queue {
    /// Number of the oldest uop, [`NONE`] if nothing waits.
    #[inline]
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// All uops, the oldest first.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        let oldest = Some(self.oldest).filter(|id| *id != NONE);
        oldest.into_iter().chain(self.others.iter().copied())
    }

    /// Put a uop in.
    #[inline]
    pub fn put(&mut self, id: u32) {
        if self.oldest == NONE {
            self.oldest = id;
        } else if id < self.oldest {
            self.others.push_front(std::mem::replace(&mut self.oldest, id));
        } else if self.others.back().is_none_or(|youngest| *youngest < id) {
            self.others.push_back(id);
        } else {
            let place = self.others.partition_point(|other| *other < id);
            self.others.insert(place, id);
        }
    }

    /// Take the oldest uop out.
    #[inline]
    pub fn pop(&mut self) {
        self.oldest = self.others.pop_front().unwrap_or(NONE);
    }
}

/// All uops with known inputs.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// By cycle mod [`HORIZON`].
    coming: Vec<Vec<Coming>>,
    /// The queues in use.
    pub queues: Vec<Queue>,
}

impl Ready {
    /// Forget all uops and make queues for these ports; keeps the memory it has.
    pub fn reset(&mut self, kinds: impl Iterator<Item = (u32, bool)>) {
        self.coming.resize_with(HORIZON, Vec::new);
        self.coming.iter_mut().for_each(Vec::clear);
        let mut count = 0;
        for (ports, slow) in kinds {
            if count == self.queues.len() {
                self.queues.push(Queue::default());
            }
            let queue = &mut self.queues[count];
            (queue.ports, queue.slow) = (ports, slow);
            queue.oldest = NONE;
            queue.others.clear();
            count += 1;
        }
        self.queues.truncate(count);
    }

    /// Forget all uops and make a queue for each kind of uop of a block, by ports and units, and two for each
    /// of the ports that some are `bound` to; the queue of each uop.
    pub fn reset_by_kind(&mut self, uops: &[Uop], bound: u32) -> Vec<u16> {
        let mut kinds: Vec<(u32, bool)> = Vec::new();
        let mut queue_of = Vec::with_capacity(uops.len());
        for uop in uops {
            let kind = (uop.ports, uop.busy > 1);
            let known = kinds.iter().position(|k| *k == kind);
            queue_of.push(known.unwrap_or(kinds.len()) as u16);
            if known.is_none() {
                kinds.push(kind);
            }
        }
        let ports = (0..u32::BITS).map(|n| 1 << n).filter(|port| bound & port != 0);
        for kind in ports.flat_map(|port| [(port, false), (port, true)]) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        self.reset(kinds.into_iter());
        queue_of
    }

    /// Of the two queues of a port that of uops that need its busy unit, if that is idle and some wait, else that of
    /// all others; `None` if nothing waits. A unit that waited for the port would not reach its throughput.
    pub fn of_port(&self, port: usize, idle: bool) -> Option<usize> {
        let waits = |queue: &usize| self.queues[*queue].oldest() != NONE;
        let (quick, slow) = (2 * port, 2 * port + 1);
        Some(slow)
            .filter(|queue| idle && waits(queue))
            .or(Some(quick).filter(waits))
    }

    /// The oldest uop that some port can take, and its queue: ports for uops that need no busy unit, and for
    /// those that do.
    #[inline]
    pub fn oldest_for(&self, ports: [u32; 2]) -> Option<(u32, usize)> {
        let (mut id, mut n) = (NONE, 0);
        for (at, queue) in self.queues.iter().enumerate() {
            if queue.oldest < id && queue.ports & ports[usize::from(queue.slow)] != 0 {
                (id, n) = (queue.oldest, at);
            }
        }
        (id != NONE).then_some((id, n))
    }

    /// A uop may start at a cycle, from the next one on.
    pub fn push(&mut self, now: i32, id: u32, at: i32, queue: u16) {
        let cycle = at.clamp(now + 1, now + HORIZON as i32 - 1);
        self.coming[cycle as usize % HORIZON].push(Coming { id, at, queue });
    }

    /// Move the uops whose cycle has come to their queues; to be called in every cycle.
    pub fn arrive(&mut self, now: i32) {
        let due = now as usize % HORIZON;
        for n in 0..self.coming[due].len() {
            let uop = self.coming[due][n];
            if uop.at > now {
                // That is for another cycle of the horizon.
                self.push(now, uop.id, uop.at, uop.queue);
            } else {
                self.queues[usize::from(uop.queue)].put(uop.id);
            }
        }
        self.coming[due].clear();
    }
}
