//! The uops in flight, in a ring.

use crate::block::uops::OUTPUTS;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Held, LATER, NONE, UOP_SIZE};
use crate::engine::uop_set_hash::UopSetHash;

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
    /// It keeps its port for a cycle more.
    pub again: bool,
    /// Scheduler whose entry it shares, of a store, or 255.
    pub entry: u8,
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

impl Flight {
    /// A number for the port, how long it keeps it, and its entry.
    fn held(&self) -> u8 {
        self.port ^ u8::from(self.again) << 6 ^ self.entry.rotate_left(3)
    }
}

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// The ring.
#[derive(Debug)]
pub struct InFlight {
    /// Written before they are read.
    flights: Box<[Flight; UOP_SIZE]>,
    /// A bit for each place whose uop has not started.
    waiting: Box<[u64; UOP_SIZE / WORD]>,
    /// One for each of them that may know of a cycle which is to come.
    timed: Box<[u64; UOP_SIZE / WORD]>,
    /// All that have not started, and what each of them counts.
    uop_set: UopSetHash,
    counts: Box<[u64; UOP_SIZE]>,
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
            again: false,
            entry: 255,
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
            waiting: Box::new([0; UOP_SIZE / WORD]),
            timed: Box::new([0; UOP_SIZE / WORD]),
            uop_set: UopSetHash::default(),
            counts: Box::new([0; UOP_SIZE]),
            next: 0,
            oldest: 0,
        }
    }
}

impl InFlight {
    /// Start over; keeps the memory it has.
    pub fn clear(&mut self) {
        (self.next, self.oldest) = (0, 0);
        self.waiting.fill(0);
        self.timed.fill(0);
        self.uop_set = UopSetHash::default();
    }

    /// Location of the next uop.
    pub fn next_place(&self) -> usize {
        self.next as usize % UOP_SIZE
    }

    /// A uop enters; its number.
    #[inline]
    pub fn push(&mut self, flight: Flight) -> u32 {
        let number = self.next;
        let place = number as usize % UOP_SIZE;
        self.counts[place] = self.uop_set.count(flight.uop, flight.iteration);
        self.uop_set.enter(self.counts[place], flight.held());
        self.flights[place] = flight;
        self.waiting[place / WORD] |= 1 << (place % WORD);
        self.timed[place / WORD] |= 1 << (place % WORD);
        self.next = number.wrapping_add(1);
        number
    }

    /// A uop starts, whose first result is known at a cycle; what it was.
    #[inline]
    pub fn start(&mut self, number: u32, result: i32) -> Flight {
        let place = number as usize % UOP_SIZE;
        self.waiting[place / WORD] &= !(1 << (place % WORD));
        let flight = &mut self.flights[place];
        flight.result = result;
        self.uop_set.leave(self.counts[place], flight.held());
        *flight
    }

    /// The uop of a number, whose first cycle is found.
    #[inline]
    pub fn of(&mut self, number: u32) -> &mut Flight {
        &mut self.flights[number as usize % UOP_SIZE]
    }

    /// The uop at a place, to be told of a cycle.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut Flight {
        self.timed[place / WORD] |= 1 << (place % WORD);
        &mut self.flights[place]
    }

    /// The uop of a number.
    #[inline]
    pub fn get(&self, number: u32) -> &Flight {
        &self.flights[number as usize % UOP_SIZE]
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
        while self.oldest != self.next {
            let place = self.oldest as usize % UOP_SIZE;
            let bits = self.waiting[place / WORD] >> (place % WORD);
            let started = bits.trailing_zeros().min((WORD - place % WORD) as u32);
            if started == 0 {
                return;
            }
            self.oldest += started.min(self.next - self.oldest);
        }
    }

    /// Tell what the future depends on, places in the reorder buffer being counted from its first.
    pub fn fingerprint(&mut self, first: u32, into: &mut Fingerprint) {
        self.forget_started();
        let (uops, ports) = self.uop_set.since(into.iterations());
        into.add(uops);
        into.add_ports(ports);
        // How many inputs a uop waits for follows from which uops wait.
        let words = self.oldest as usize / WORD..(self.next as usize).div_ceil(WORD);
        for word in words.map(|n| n % (UOP_SIZE / WORD)) {
            let mut bits = self.timed[word] & self.waiting[word];
            self.timed[word] = bits;
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                bits ^= bit;
                let f = &self.flights[word * WORD + bit.trailing_zeros() as usize];
                if f.operand.max(f.ready) <= into.now() {
                    self.timed[word] ^= bit;
                    continue;
                }
                let inputs = u64::from(f.pending) << 40 | into.until(f.operand) << 20 | into.until(f.ready);
                into.add(u64::from(f.rob - first) << 44 | inputs);
                into.add(u64::from(f.uop));
            }
        }
    }
}
