//! Banks of the cache, each of which a few loads of a cycle can read.

use crate::block::Block;
use crate::core::params::Params;
use crate::core::value::UNLIMITED;
use crate::engine::flight::NONE;
use crate::engine::in_flight::{Flight, InFlight};
use crate::engine::ready::Ready;

/// The banks that the loads of a cycle read, and the loads that wait for them.
#[derive(Debug)]
pub struct Banks<'a> {
    block: &'a Block,
    /// Loads of a cycle that can read the same bank.
    most: usize,
    /// Bytes of a bank, and of a line.
    bytes: [u32; 2],
    /// Places and iterations of the loads that start in this cycle.
    started: Vec<(u16, u32)>,
    /// Loads that cannot, and the queues that they came from.
    held: Vec<(usize, u32)>,
}

impl<'a> Banks<'a> {
    /// Those of a core; `None` if its loads never meet in one.
    pub fn new(block: &'a Block, params: &Params) -> Option<Banks<'a>> {
        let most = params.memory.bank_loads;
        (most != UNLIMITED).then(|| Banks {
            block,
            most: most as usize,
            bytes: [params.memory.bank_bytes, params.memory.line_bytes],
            started: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Whether a uop, at the head of a queue, has to wait for the next cycle; else it starts in this one.
    pub fn holds(&mut self, queue: usize, id: u32, flight: &Flight) -> bool {
        let starts = self.take(flight);
        if !starts {
            self.held.push((queue, id));
        }
        !starts
    }

    /// Whether a uop can start in this cycle; what it reads is taken from then on.
    fn take(&mut self, flight: &Flight) -> bool {
        let Some(read) = self.block.uops[flight.uop as usize].read else {
            return true;
        };
        let place = |read: u16| &self.block.reads[usize::from(read)];
        let [bank, line] = self.bytes;
        let mine = place(read).banks(flight.iteration, bank, line);
        let met = self.started.iter().filter_map(|&(other, then)| {
            let known = place(read).comparable(flight.iteration, place(other), then);
            known.then(|| mine & place(other).banks(then, bank, line))
        });
        let met: Vec<u64> = met.collect();
        let loads = |bank: u32| met.iter().filter(|banks| **banks >> bank & 1 != 0).count();
        let free = (0..u64::BITS).all(|bank| loads(bank) < self.most);
        if free {
            self.started.push((read, flight.iteration));
        }
        free
    }

    /// Leave at the heads of the ports' queues only uops that can start together, the oldest first.
    pub fn arbitrate(&mut self, now: i32, port_free: &[i32], ready: &mut Ready, flights: &InFlight) {
        let mut ports: u32 = (0..port_free.len()).fold(0, |free, p| free | u32::from(port_free[p] <= now) << p);
        loop {
            let open = (0..port_free.len()).filter(|p| ports >> p & 1 != 0);
            let heads = open.map(|p| (ready.queues[2 * p].oldest(), p));
            let Some((id, port)) = heads.min().filter(|(id, _)| *id != NONE) else {
                break;
            };
            if self.holds(2 * port, id, flights.get(id)) {
                ready.queues[2 * port].pop();
            } else {
                ports &= !(1 << port);
            }
        }
    }

    /// The cycle is over: what was held is in its queue again.
    pub fn release(&mut self, ready: &mut Ready) {
        self.started.clear();
        for (queue, id) in self.held.drain(..) {
            ready.queues[queue].put(id);
        }
    }
}
