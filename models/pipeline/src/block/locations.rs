//! The locations of a loop's stores and loads, as far as they can be distinguished.
//!
//! Registers are taken to start at aligned addresses; what they point to otherwise is not known.

use crate::block::address::{Abstract, Key};
use crate::block::position::period;

/// Bytes of a page.
const PAGE: u32 = 4096;

/// The addresses of a store or of a load, by iteration.
#[derive(Clone, Copy, Debug)]
pub struct Location {
    first: Key,
    last: Key,
    step: i64,
    /// The address of an iteration has nothing to do with that of another.
    fresh: bool,
    seen: u32,
    /// The address is known, not what it is relative to a register alone.
    exact: bool,
    /// Bytes stored or loaded.
    bytes: u16,
    /// A load waits until it is in the cache.
    pub awaited: bool,
}

/// Note the address of an access in the next iteration.
pub(crate) fn note(places: &mut Vec<Location>, number: usize, at: Key, bytes: u16) {
    if let Some(place) = places.get_mut(number) {
        let step = at.constant().wrapping_sub(place.last.constant());
        if place.seen == 1 {
            place.fresh = !place.first.alike(&at);
            place.step = step;
        } else if place.seen == 2 && place.fresh && place.last.alike(&at) {
            // A register that a move of the iteration before set: of one value from then on.
            place.first = place.last;
            place.first.disp = place.last.disp.wrapping_sub(step);
            (place.step, place.fresh) = (step, false);
        }
        place.seen += 1;
        place.last = at;
        return;
    }
    places.push(Location::once(at, bytes));
}

impl Location {
    /// A store that writes at the same known address each time.
    pub(crate) fn known(address: i64, bytes: u16) -> Location {
        let nothing = Abstract {
            root: u32::MAX,
            offset: 0,
        };
        let at = Key {
            base: nothing,
            index: nothing,
            scale: 1,
            disp: address,
        };
        Location {
            exact: true,
            ..Location::once(at, bytes)
        }
    }

    /// An access that was seen at one address, once.
    fn once(at: Key, bytes: u16) -> Location {
        Location {
            first: at,
            last: at,
            step: 0,
            fresh: false,
            seen: 1,
            exact: false,
            bytes,
            awaited: false,
        }
    }

    fn address(&self, iteration: u32) -> i64 {
        let moved = if self.fresh {
            0
        } else {
            self.step.wrapping_mul(i64::from(iteration))
        };
        self.first.constant().wrapping_add(moved)
    }

    /// Whether it crosses a multiple of so many bytes in an iteration.
    pub fn crosses(&self, iteration: u32, within: u32) -> bool {
        self.address(iteration).rem_euclid(i64::from(within)) + i64::from(self.bytes) > i64::from(within)
    }

    /// Whether it is known to cross the end of a page.
    pub fn leaves_page(&self, iteration: u32) -> bool {
        self.exact && self.crosses(iteration, PAGE)
    }

    /// Whether it accesses fewer bytes than so many.
    pub fn narrower(&self, bytes: u16) -> bool {
        self.bytes < bytes
    }

    /// Whether its address differs from that of another access, each in an iteration, by what is known.
    pub fn comparable(&self, iteration: u32, other: &Location, then: u32) -> bool {
        let fixed = !self.fresh && !other.fresh;
        (fixed || iteration == then && self.fresh == other.fresh) && self.first.alike(&other.first)
    }

    /// Whether it and another access, each in an iteration, lie in the same aligned bytes.
    pub fn meets(&self, iteration: u32, other: &Location, then: u32, within: u32) -> bool {
        self.meets_part(iteration, 0, other, then, within)
    }

    /// The same of what it accesses so many bytes behind its first one.
    pub fn meets_part(&self, iteration: u32, behind: i64, other: &Location, then: u32, within: u32) -> bool {
        let block = |place: &Location, i, behind| (place.address(i).wrapping_add(behind)).div_euclid(i64::from(within));
        self.comparable(iteration, other, then) && block(self, iteration, behind) == block(other, then, 0)
    }

    /// The aligned bytes, so many each, that it touches in an iteration.
    pub fn parts(&self, iteration: u32, within: u32) -> u32 {
        let first = self.address(iteration).rem_euclid(i64::from(within)) as u32;
        (first + u32::from(self.bytes.max(1))).div_ceil(within)
    }

    /// The banks of so many bytes that it touches in lines of so many, both powers of two; one bit each.
    pub fn banks(&self, iteration: u32, bytes: u32, line: u32) -> u64 {
        let count = (line / bytes).max(1);
        let first = self.address(iteration).div_euclid(i64::from(bytes));
        let last = (self.address(iteration) + i64::from(self.bytes.max(1)) - 1).div_euclid(i64::from(bytes));
        let touched = (last - first + 1).min(i64::from(count));
        (0..touched).fold(0, |banks, n| banks | 1 << (first + n).rem_euclid(i64::from(count)))
    }

    /// Iterations after which it lies at the same place of such bytes again.
    pub fn period(&self, within: u32) -> u32 {
        if self.fresh {
            return 1;
        }
        period(self.step, within)
    }
}
