//! A fingerprint of the state of all units, to notice when it repeats.

use crate::engine::flight::LATER;

/// Mixes numbers into one.
#[derive(Clone, Copy, Debug)]
struct Mixer(u64);

impl Mixer {
    #[inline]
    fn add(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The state that decides all further events, relative to a cycle and the completed iterations.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint {
    rest: Mixer,
    ports: Mixer,
    iterations: u32,
    now: i32,
}

impl Fingerprint {
    /// Of a state after so many iterations, which differ in their place within a period.
    pub fn new(iterations: u32, period: u32, now: i32) -> Fingerprint {
        Fingerprint {
            rest: Mixer(u64::from(iterations % period)),
            ports: Mixer(1),
            iterations,
            now,
        }
    }

    /// Add a number.
    #[inline]
    pub fn add(&mut self, n: u64) {
        self.rest.add(n);
    }

    /// Add a number that tells of the choice of ports alone.
    #[inline]
    pub fn add_ports(&mut self, n: u64) {
        self.ports.add(n);
    }

    /// Add the cycles until each of many cycles that have been most of the time.
    #[inline]
    pub fn add_rare(&mut self, cycles: impl Iterator<Item = i32>) {
        // A copy stays in a register.
        let mut mixer = self.rest;
        for cycle in cycles {
            match self.until(cycle) {
                0 => mixer.0 = mixer.0.rotate_left(1),
                n => mixer.add(n),
            }
        }
        self.rest = mixer;
    }

    /// Cycles until a cycle, 0 if it has been.
    #[inline]
    pub fn until(&self, cycle: i32) -> u64 {
        if cycle == LATER {
            0xf_ffff
        } else {
            (cycle - self.now).max(0) as u64
        }
    }

    /// Iterations that are complete.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Current cycle.
    #[inline]
    pub fn now(&self) -> i32 {
        self.now
    }

    /// Distance of an iteration from those that are complete.
    #[inline]
    pub fn ahead(&self, iteration: u32) -> u64 {
        u64::from(iteration.wrapping_sub(self.iterations))
    }

    /// The same mod 2^16.
    #[inline]
    pub fn near(&self, iteration: u32) -> u64 {
        self.ahead(iteration) & 0xffff
    }

    /// The fingerprint of everything, and the one without the choices of ports.
    pub fn finish(mut self) -> (u64, u64) {
        self.ports.add(self.rest.0);
        (self.ports.0, self.rest.0)
    }
}
