//! Loads that read the data of an earlier store of the loop.
//!
//! Addresses are followed as a register's unknown value plus a constant, so that
//! the same expression with an advanced pointer is not taken for the same address.

use crate::block::address::{Abstract, Key};
use crate::block::locations::{self, Location};
use crate::block::uops::Case;
use crate::core::params::memory;
use crate::core::value::UNLIMITED;
use crate::isa::inst::{Decoded, Effect, Mem, Reg, NO_REG, REGS};

/// Iterations that are followed; a store further back is not found.
const ITERATIONS: usize = 4;
/// Stores that are looked back over.
const STORES: usize = 64;

const NOTHING: Abstract = Abstract {
    root: u32::MAX,
    offset: 0,
};

fn key(values: &[Abstract; REGS], mem: &Mem, stack: i64) -> Key {
    let value = |r: Reg| if r == NO_REG { NOTHING } else { values[usize::from(r)] };
    let mut base = value(mem.base);
    let disp = mem
        .disp
        .wrapping_add(base.offset)
        .wrapping_add(if mem.stack { stack } else { 0 });
    base.offset = 0;
    let index = value(mem.index);
    let scale = if mem.index == NO_REG { 1 } else { mem.scale };
    Key {
        base,
        index,
        scale,
        disp,
    }
}

/// The known facts of a block's accesses.
#[derive(Debug)]
pub struct Accesses {
    /// For each instruction, where its loads take their data from.
    pub cases: Vec<Case>,
    /// The location of each store.
    pub stored: Vec<Location>,
    /// The location of each memory operand that is read; none if nothing depends on it.
    pub loaded: Vec<Location>,
}

/// Values that were loaded are numbered from here.
const LOADED: u32 = 1 << 30;

/// Address, number in the block, iteration, bytes.
type Store = (Key, u16, usize, u16);

/// Whether a store writes any of what a load reads.
fn reaches(store: &Store, load: Key, loaded: u16) -> bool {
    let within = load.disp.wrapping_sub(store.0.disp);
    let same = Key {
        disp: load.disp,
        ..store.0
    } == load;
    same && within < i64::from(store.3) && within > -i64::from(loaded)
}

/// Values of loads whose data no store of the code changes: the same for the same address.
#[derive(Debug, Default)]
struct Loads<'a> {
    known: Vec<(Key, &'a str, Abstract)>,
}

impl<'a> Loads<'a> {
    /// The value that an instruction loads that does nothing else; `None` if a store wrote any of it.
    fn value(&mut self, d: &'a Decoded, at: Key, bytes: u16, stores: &[Store]) -> Option<Abstract> {
        if stores.iter().rev().take(STORES).any(|s| reaches(s, at, bytes)) {
            return None;
        }
        if let Some(known) = self.known.iter().find(|k| k.0 == at && k.1 == d.form) {
            return Some(known.2);
        }
        let value = Abstract {
            root: LOADED + self.known.len() as u32,
            offset: 0,
        };
        self.known.push((at, &d.form, value));
        Some(value)
    }
}

/// Whether a store writes all that a load reads.
fn covers(store: Key, stored: u16, load: Key, loaded: u16) -> bool {
    let within = load.disp.wrapping_sub(store.disp);
    Key {
        disp: load.disp,
        ..store
    } == load
        && within >= 0
        && within.saturating_add(i64::from(loaded)) <= i64::from(stored)
}

/// For each instruction, where its loads take their data from and whether the
/// base register came from a load; where stores write, and loads read if that matters.
pub fn analyse(code: &[Decoded], moves: bool, p: &memory, pointer_load: impl Fn(usize) -> bool) -> Accesses {
    let mut values = [NOTHING; REGS];
    for (n, v) in values.iter_mut().enumerate() {
        *v = Abstract {
            root: n as u32,
            offset: 0,
        };
    }
    let mut fresh = REGS as u32;
    let mut from_load = [false; REGS];
    let mut stores: Vec<Store> = Vec::new();
    let mut cases = vec![Case::default(); code.len()];
    let any_store = code.iter().any(|d| d.mems.iter().any(|m| m.write));
    let banked = p.bank_loads != UNLIMITED;
    let (mut stored, mut loaded) = (Vec::new(), Vec::new());
    let mut loads = Loads::default();
    for iteration in 0..ITERATIONS {
        let mut number: u16 = 0;
        let mut reads = 0;
        for (at, d) in code.iter().enumerate() {
            let mut case = Case::default();
            for (n, mem) in d.mems.iter().filter(|m| m.read).enumerate().take(2) {
                case.chased |= mem.base != NO_REG
                    && mem.index == NO_REG
                    && (0..i64::from(p.pointer_chase_reach)).contains(&mem.disp)
                    && from_load[usize::from(mem.base)];
                if !any_store || d.locked {
                    continue;
                }
                let wanted = key(&values, mem, 0);
                let meets = |s: &Store| reaches(s, wanted, mem.bytes) && !covers(s.0, s.3, wanted, mem.bytes);
                let partial = |s: &Store| p.failed_forward_cycles > 0 && meets(s);
                let exact = |s: &Store| s.0 == wanted && s.3 == mem.bytes;
                let whole = |s: &Store| s.0 == wanted || p.forward_parts && covers(s.0, s.3, wanted, mem.bytes);
                let newest = stores.iter().rev().take(STORES);
                case.overlaps |= newest
                    .clone()
                    .find(|s| meets(s) || whole(s))
                    .is_some_and(|s| meets(s) && !partial(s));
                let found = newest.clone().find(|s| partial(s) || whole(s));
                case.forwards[n] = found.map(|s| (s.1, (iteration - s.2) as u16));
                case.failed[n] = found.is_some_and(partial);
                case.waits[n] = found.filter(|s| partial(s)).is_some_and(|s| {
                    let rest = Key {
                        disp: wanted.disp + i64::from(s.3),
                        ..wanted
                    };
                    let others = newest.clone().any(|o| reaches(o, rest, mem.bytes.saturating_sub(s.3)));
                    p.waits(s.0 == wanted, others)
                });
                case.exact[n] = found.is_some_and(exact);
                case.lower[n] = found.is_some_and(|s| s.0 == wanted && mem.bytes <= s.3);
            }
            for mem in d.mems.iter().filter(|m| m.read && banked) {
                locations::note(&mut loaded, reads, key(&values, mem, 0), mem.bytes);
                reads += 1;
            }
            for mem in d.mems.iter().filter(|m| m.write) {
                let at = key(&values, mem, 0);
                locations::note(&mut stored, usize::from(number), at, mem.bytes);
                if !d.locked {
                    stores.push((at, number, iteration, mem.bytes));
                }
                number = number.saturating_add(1);
            }
            cases[at] = case;
            if any_store || banked {
                let value = match (&d.mems[..], &d.writes[..]) {
                    ([mem], [to]) if mem.read && !mem.write && !d.locked && pointer_load(at) => {
                        let value = loads.value(d, key(&values, mem, 0), mem.bytes, &stores);
                        value.map(|value| (usize::from(to.1), value))
                    }
                    _ => None,
                };
                step(d, &mut values, &mut fresh);
                if let Some((to, value)) = value {
                    values[to] = value;
                }
            }
            let moved = d.effects.iter().find_map(|e| match *e {
                Effect::Offset { from, add: 0, .. } => Some(from_load[usize::from(from)]),
                _ => None,
            });
            let pointer = pointer_load(at) || moves && moved.unwrap_or(false);
            for w in &d.writes {
                from_load[usize::from(w.1)] = pointer;
            }
        }
    }
    for case in cases.iter().flat_map(|c| c.forwards.iter().zip(c.waits)) {
        if let (Some((store, _)), true) = case {
            stored[usize::from(*store)].awaited = true;
        }
    }
    Accesses { cases, stored, loaded }
}

fn step(d: &Decoded, values: &mut [Abstract; REGS], fresh: &mut u32) {
    let mut moved = [(0, NOTHING); 4];
    let mut count = 0;
    for (effect, place) in d.effects.iter().zip(&mut moved) {
        *place = match *effect {
            Effect::Offset { to, from, add } => {
                let mut value = values[usize::from(from)];
                value.offset = value.offset.wrapping_add(add);
                (to, value)
            }
            Effect::Zero { to } => (to, NOTHING),
        };
        count += 1;
    }
    for w in &d.writes {
        *fresh += 1;
        values[usize::from(w.1)] = Abstract {
            root: *fresh,
            offset: 0,
        };
    }
    for (to, value) in &moved[..count] {
        values[usize::from(*to)] = *value;
    }
    if d.stack != 0 {
        let sp = &mut values[usize::from(crate::isa::x86::registers::RSP)];
        sp.offset = sp.offset.wrapping_add(d.stack);
    }
}
