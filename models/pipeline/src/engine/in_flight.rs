//! The uops in flight, in a ring.

use crate::block::uops::OUTPUTS;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Held, LATER, NONE, UOP_SIZE};

/// A uop in flight.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// Uop of the block.
    pub uop: u32,
    /// Number in the reorder buffer.
    pub rob: u32,
    /// Iteration.
    pub iteration: u32,
    /// Port chosen, or 255.
    pub port: u8,
    /// Inputs not known yet.
    pub pending: u8,
    /// Earliest start as far as known.
    pub ready: i32,
    /// Cycle from which on its operands are looked at.
    pub earliest: i32,
    /// Cycle at which the last operand known so far comes.
    pub operand: i32,
    /// Instruction whose result came last.
    pub critical: u16,
    /// Values of its outputs.
    pub values: [u32; OUTPUTS],
    /// Cycle at which its first result is known, [`LATER`] until it starts.
    pub result: i32,
}

/// The ring.
#[derive(Debug)]
pub struct InFlight {
    /// Written before they are read.
    flights: Box<[Flight; UOP_SIZE]>,
    /// Number of the next uop.
    next: u32,
    /// No uop before this number waits.
    oldest: u32,
}

impl Default for InFlight {
    fn default() -> Self {
        let flight = Flight {
            uop: NONE,
            rob: 0,
            iteration: 0,
            port: 255,
            pending: 0,
            ready: 0,
            earliest: 0,
            operand: 0,
            critical: 0,
            values: [NONE; OUTPUTS],
            result: LATER,
        };
        InFlight {
            flights: Box::new([flight; UOP_SIZE]),
            next: 0,
            oldest: 0,
        }
    }
}

impl InFlight {
    /// Start over; keeps the memory it has.
    pub fn clear(&mut self) {
        (self.next, self.oldest) = (0, 0);
    }

    /// Place of the next uop.
    pub fn next_place(&self) -> usize {
        self.next as usize % UOP_SIZE
    }

    /// A uop enters; its number.
    #[inline]
    pub fn push(&mut self, flight: Flight) -> u32 {
        let number = self.next;
        self.flights[number as usize % UOP_SIZE] = flight;
        self.next = number.wrapping_add(1);
        number
    }

    /// The uop at a place.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut Flight {
        &mut self.flights[place]
    }

    /// The uop of a number.
    #[inline]
    pub fn get(&mut self, number: u32) -> &mut Flight {
        &mut self.flights[number as usize % UOP_SIZE]
    }

    /// Number of the uop at a place.
    pub fn number_of(&self, place: usize) -> u32 {
        let last = self.next.wrapping_sub(1);
        let back = (last as usize % UOP_SIZE + UOP_SIZE - place) % UOP_SIZE;
        last.wrapping_sub(back as u32)
    }

    /// Result of the uop `wanted` of the block for the next one, `at`, of the same instruction instance.
    #[inline]
    pub fn inner(&self, at: u32, wanted: u32) -> Held {
        let distance = at.wrapping_sub(wanted);
        let flight = &self.flights[self.next.wrapping_sub(distance) as usize % UOP_SIZE];
        if flight.uop != wanted {
            return Held::Since(0, 0);
        }
        if flight.result != LATER || flight.values[0] == NONE {
            return Held::Since(if flight.result == LATER { 0 } else { flight.result }, 0);
        }
        Held::Value(flight.values[0])
    }

    /// Whether so many uops more fit.
    #[inline]
    pub fn fits(&mut self, uops: u32) -> bool {
        if self.next.wrapping_sub(self.oldest) > UOP_SIZE as u32 / 2 {
            self.forget_started();
        }
        self.next.wrapping_sub(self.oldest) + uops <= UOP_SIZE as u32
    }

    /// Move the mark below which every uop has started.
    fn forget_started(&mut self) {
        while self.oldest != self.next && self.get(self.oldest).result != LATER {
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&mut self, whole: &mut Fingerprint) {
        // A copy stays in a register.
        let mut into = *whole;
        self.forget_started();
        let mut id = self.oldest;
        while id != self.next {
            let f = &self.flights[id as usize % UOP_SIZE];
            if f.result == LATER {
                let inputs = u64::from(f.pending) << 40 | into.until(f.operand) << 20 | into.until(f.ready);
                into.add(u64::from(f.uop) << 44 | inputs);
                into.add_ports(u64::from(f.port));
            }
            id = id.wrapping_add(1);
        }
        *whole = into;
    }
}
