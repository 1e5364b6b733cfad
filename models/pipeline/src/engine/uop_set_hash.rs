//! A number for a set of uops that changes with each that enters or leaves, and not with time.
//!
//! Each member counts a number of its own times a power of the same odd number for its iteration: a
//! set that is the same some iterations later differs by such a power alone.

/// Odd; its powers tell iterations apart.
const BASE: u64 = 0xd134_2543_de82_ef95;
/// The multiplicative inverse of the base.
const INVERSE: u64 = inverse(BASE);

const fn inverse(n: u64) -> u64 {
    // Each step doubles the bits that are right, of which there are three at first.
    let mut found = n;
    let mut bits = 3;
    while bits < 64 {
        found = found.wrapping_mul(2u64.wrapping_sub(n.wrapping_mul(found)));
        bits *= 2;
    }
    found
}

/// A number that looks like chance.
#[inline]
fn scattered(n: u64) -> u64 {
    let n = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// A power of a number that is asked for at ever greater exponents.
#[derive(Clone, Copy, Debug)]
struct Power {
    of: u64,
    exponent: u32,
    value: u64,
}

impl Power {
    fn new(of: u64) -> Power {
        Power {
            of,
            exponent: 0,
            value: 1,
        }
    }

    #[inline]
    fn at(&mut self, exponent: u32) -> u64 {
        while self.exponent != exponent {
            self.value = self.value.wrapping_mul(self.of);
            self.exponent = self.exponent.wrapping_add(1);
        }
        self.value
    }
}

/// The set.
#[derive(Clone, Copy, Debug)]
pub struct UopSetHash {
    entered: Power,
    left: Power,
    uops: u64,
    ports: u64,
}

impl Default for UopSetHash {
    fn default() -> Self {
        UopSetHash {
            entered: Power::new(BASE),
            left: Power::new(INVERSE),
            uops: 0,
            ports: 0,
        }
    }
}

impl UopSetHash {
    /// The weight of a uop of an iteration; iterations come in order.
    #[inline]
    pub fn count(&mut self, uop: u32, iteration: u32) -> u64 {
        scattered(u64::from(uop)).wrapping_mul(self.entered.at(iteration))
    }

    /// One enters that has a port.
    #[inline]
    pub fn enter(&mut self, count: u64, port: u8) {
        self.uops = self.uops.wrapping_add(count);
        self.ports = self.ports.wrapping_add(count.wrapping_mul(scattered(u64::from(port))));
    }

    /// One leaves.
    #[inline]
    pub fn leave(&mut self, count: u64, port: u8) {
        self.uops = self.uops.wrapping_sub(count);
        self.ports = self.ports.wrapping_sub(count.wrapping_mul(scattered(u64::from(port))));
    }

    /// The set, and the set with its ports, iterations being counted from one that only grows.
    pub fn since(&mut self, iteration: u32) -> (u64, u64) {
        let back = self.left.at(iteration);
        (self.uops.wrapping_mul(back), self.ports.wrapping_mul(back))
    }
}
