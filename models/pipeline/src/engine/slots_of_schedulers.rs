//! Which schedulers the uops of a cycle go to.

use smallvec::SmallVec;

/// Second slots are bits from here on.
const SECOND: u32 = 16;

/// What a cycle of rename gives to schedulers, of uops that compute; each takes one uop.
#[derive(Clone, Copy, Debug)]
pub struct Cycle {
    /// Those that take uops, one bit each.
    pub schedulers: u32,
    /// Those that take a second uop, one that not all schedulers can take.
    pub second: u32,
}

/// What a cycle of rename gives to schedulers, of loads and stores; each takes one uop.
#[derive(Clone, Copy, Debug)]
pub struct Accesses {
    /// Those that take uops, one bit each.
    pub schedulers: u32,
    /// Those that take a second uop, and any one of them does if not all can take it.
    pub second: u32,
    /// Uops at most.
    pub most: usize,
}

type Slots = SmallVec<[u32; 8]>;

/// Return the schedulers of the first uops of some, as far as a cycle takes them.
///
/// `masks` holds the schedulers that each uop can go to, in program order, and `load` the uops in each scheduler. The
/// schedulers with the fewest uops take one each, the lower numbers first, as far as the uops can go there; each uop
/// gets the lowest that leaves one for all behind it. Two uops that can go to one scheduler alone go there together.
pub fn assign(cycle: &Cycle, masks: &[u32], load: &[u32]) -> SmallVec<[usize; 8]> {
    let few = |mask: u32| mask != cycle.schedulers;
    let slots_of = |mask: u32| mask | if few(mask) { (mask & cycle.second) << SECOND } else { 0 };
    let all = cycle.schedulers | cycle.second << SECOND;
    let mut taken: Slots = Slots::new();
    let mut extra: SmallVec<[usize; 4]> = SmallVec::new();
    for (n, mask) in masks.iter().enumerate() {
        let own = mask & cycle.schedulers;
        taken.push(slots_of(own));
        if fits(&taken, all) {
            continue;
        }
        taken.pop();
        let twice = own.count_ones() == 1 && masks[..n].iter().filter(|m| **m == own).count() == 1;
        if !twice {
            break;
        }
        extra.push(n);
    }
    let count = taken.len() + extra.len();
    let mut order = by_load(cycle.schedulers, load);
    order.extend(ascending(cycle.second << SECOND));
    let used = least(&taken, &order);
    let mut left = used;
    let mut fixed: SmallVec<[Option<u32>; 8]> = taken.iter().map(|_| None).collect();
    if let Some((n, slot, others)) = doubled(&taken, used) {
        left &= !slot;
        fixed[n] = Some(slot);
        taken = others;
    }
    let mut slots: Slots = Slots::new();
    for n in 0..taken.len() {
        let slot = fixed[n].unwrap_or_else(|| {
            let behind: Slots = (n + 1..taken.len())
                .filter(|m| fixed[*m].is_none())
                .map(|m| taken[m])
                .collect();
            let free = taken[n] & left;
            let mut fitting = ascending(free).filter(|slot| placeable(&behind, left & !slot));
            fitting.next().unwrap_or(free & free.wrapping_neg())
        });
        left &= !slot;
        slots.push(slot);
    }
    let mut taking = [0; SECOND as usize];
    slots.iter().for_each(|slot| taking[scheduler(*slot)] += 1);
    let mut slots = slots.into_iter();
    let mut place = |n: usize| {
        let slot = if extra.contains(&n) { None } else { slots.next() };
        slot.map_or_else(
            || {
                let lightest = lightest(masks[n], &taking, load);
                taking[lightest] += 1;
                lightest
            },
            scheduler,
        )
    };
    (0..count).map(&mut place).collect()
}

/// Return the schedulers of the first accesses of some, as far as a cycle takes them.
///
/// `masks` and `load` are those of [`assign`]. The schedulers with the fewest uops take one each, then a second one.
pub fn assign_accesses(cycle: &Accesses, masks: &[u32], load: &[u32]) -> SmallVec<[usize; 8]> {
    let second_of = |mask: u32| {
        if mask == cycle.schedulers {
            cycle.second
        } else {
            cycle.schedulers
        }
    };
    let all = cycle.schedulers | cycle.schedulers << SECOND;
    let mut taken: Slots = Slots::new();
    for mask in masks.iter().take(cycle.most) {
        let own = mask & cycle.schedulers;
        taken.push(own | (own & second_of(own)) << SECOND);
        if !placeable(&taken, all) {
            taken.pop();
            break;
        }
    }
    let mut order = by_load(cycle.schedulers, load);
    order.extend(by_load(cycle.schedulers << SECOND, load));
    let mut left = least(&taken, &order);
    let mut chosen = SmallVec::new();
    for (n, own) in taken.iter().enumerate() {
        // First slots lie below second ones.
        let free = (0..u32::BITS).map(|n| 1 << n).filter(|slot| own & left & slot != 0);
        let mut fitting = free.filter(|slot| placeable(&taken[n + 1..], left & !slot));
        let slot = fitting.next().unwrap_or(0);
        left &= !slot;
        chosen.push(scheduler(slot));
    }
    chosen
}

/// Whether each of these uops can take a different one of some slots; two that can take a second slot go apart.
fn fits(uops: &[u32], slots: u32) -> bool {
    let second = slots >> SECOND << SECOND;
    let two = uops.iter().filter(|own| **own & second != 0).count() == 2;
    let apart = || {
        let first: Slots = uops.iter().map(|own| own & !second).collect();
        placeable(&first, slots) || doubled(uops, slots).is_some()
    };
    placeable(uops, slots) && (!two || apart())
}

/// The uop that goes to a second slot, the first of two that can, that slot, and what all can take then: the other one
/// goes to another scheduler.
fn doubled(uops: &[u32], used: u32) -> Option<(usize, u32, Slots)> {
    let second = used >> SECOND << SECOND;
    let slot = second & second.wrapping_neg();
    let some: SmallVec<[usize; 8]> = (0..uops.len()).filter(|n| uops[*n] & slot != 0).collect();
    let [first, others @ ..] = &some[..] else {
        return None;
    };
    let mut apart = Slots::from_slice(uops);
    for n in others {
        apart[*n] &= !(slot | slot >> SECOND);
    }
    apart[*first] = slot;
    (others.len() <= 1 && placeable(&apart, used)).then_some((*first, slot, apart))
}

/// The first of the schedulers that take the fewest uops in this cycle, of these one with the fewest.
fn lightest(mask: u32, taking: &[u32], load: &[u32]) -> usize {
    let numbers = ascending(mask).map(|bit| bit.trailing_zeros() as usize);
    numbers.min_by_key(|n| (taking[*n], load[*n])).unwrap_or(0)
}

/// Slots in the order of their schedulers, first slots before second ones.
fn ascending(slots: u32) -> impl Iterator<Item = u32> {
    let numbers = (0..SECOND).flat_map(|n| [1 << n, 1 << (n + SECOND)]);
    numbers.filter(move |slot| slots & slot != 0)
}

/// Slots of one kind, those of the schedulers with the fewest uops first.
fn by_load(slots: u32, load: &[u32]) -> Slots {
    let mut order: Slots = ascending(slots).collect();
    order.sort_by_key(|slot| load[scheduler(*slot)]);
    order
}

fn scheduler(slot: u32) -> usize {
    (slot.trailing_zeros() % SECOND) as usize
}

/// The slots that uops take, of some in this order.
fn least(uops: &[u32], order: &[u32]) -> u32 {
    let mut used: Slots = Slots::new();
    for &slot in order {
        if used.len() == uops.len() {
            break;
        }
        used.push(slot);
        // Each slot needs a uop of its own: uops and slots change their parts.
        let takers: Slots = used
            .iter()
            .map(|slot| {
                uops.iter()
                    .enumerate()
                    .fold(0, |all, (n, own)| all | u32::from(own & slot != 0) << n)
            })
            .collect();
        if !placeable(&takers, u32::MAX) {
            used.pop();
        }
    }
    used.iter().fold(0, |all, slot| all | slot)
}

/// Whether each of these uops can take a different one of some slots.
fn placeable(uops: &[u32], slots: u32) -> bool {
    let mut owner = [u8::MAX; 32];
    (0..uops.len()).all(|n| place(uops, n, slots, &mut owner, &mut 0))
}

/// Find a slot for a uop, where others that have one may move.
fn place(uops: &[u32], n: usize, slots: u32, owner: &mut [u8; 32], seen: &mut u32) -> bool {
    let mut left = uops[n] & slots & !*seen;
    while left != 0 {
        let slot = left.trailing_zeros() as usize;
        *seen |= 1 << slot;
        let other = owner[slot];
        if other == u8::MAX || place(uops, usize::from(other), slots, owner, seen) {
            owner[slot] = n as u8;
            return true;
        }
        left = uops[n] & slots & !*seen;
    }
    false
}
