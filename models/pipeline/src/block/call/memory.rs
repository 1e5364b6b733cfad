//! Loads of a call that read data of its stores, or of those of the call before it.

use crate::block::call::code::Known;
use crate::block::call::steps::Step;
use crate::block::locations::Location;
use crate::block::uops::Case;
use crate::core::params::Params;
use crate::isa::inst::{Effect, REGS};
use std::collections::HashSet;

/// Stores that are looked back over.
const STORES: usize = 64;
/// Calls that are looked back over.
const CALLS: usize = 3;

struct Store {
    step: usize,
    address: i64,
    bytes: u16,
    /// Number among all stores.
    number: u16,
}

/// The known facts of a call's memory accesses.
pub(crate) struct Memory {
    /// For each step where its load takes its data from.
    pub(crate) cases: Vec<Case>,
    /// The location of each store.
    pub(crate) places: Vec<Location>,
}

/// Follow loads and stores through a call.
pub(crate) fn analyse(steps: &[Step], known: &[&Known<'_>], params: &Params) -> Memory {
    let (stores, mut places) = stores(steps, known);
    let mut cases = vec![Case::default(); steps.len()];
    let mut before = 0;
    for (at, (step, k)) in steps.iter().zip(known).enumerate() {
        while stores.get(before).is_some_and(|s| s.step < at) {
            before += 1;
        }
        let load = k.d.mems.iter().find(|m| m.read).filter(|_| !k.d.locked);
        if let (Some(mem), Some(address)) = (load, step.access.load) {
            let window = Window {
                stores: &stores,
                before,
                at,
                steps: steps.len(),
            };
            window.search(address, mem.bytes, params, &mut cases[at]);
        }
    }
    chase(known, params, &mut cases);
    let taken = steps.iter().zip(&cases).filter(|(_, case)| case.forwards[0].is_some());
    let loads: HashSet<u32> = taken.map(|(step, _)| step.at).collect();
    Case::predict(&mut cases, loads.len(), params.memory.renamed_in_loops);
    for case in &cases {
        if let (Some((store, _)), true) = (case.forwards[0], case.waits[0]) {
            places[usize::from(store)].awaited = true;
        }
    }
    Memory { cases, places }
}

fn stores(steps: &[Step], known: &[&Known<'_>]) -> (Vec<Store>, Vec<Location>) {
    let (mut stores, mut places) = (Vec::new(), Vec::new());
    for (at, (step, k)) in steps.iter().zip(known).enumerate() {
        for mem in k.d.mems.iter().filter(|m| m.write) {
            let number = places.len() as u16;
            places.push(Location::known(step.access.store.unwrap_or(0), mem.bytes));
            if let (Some(address), false) = (step.access.store, k.d.locked) {
                stores.push(Store {
                    step: at,
                    address,
                    bytes: mem.bytes,
                    number,
                });
            }
        }
    }
    (stores, places)
}

/// The stores before a load.
struct Window<'a> {
    stores: &'a [Store],
    /// The number of them before it in the same call.
    before: usize,
    at: usize,
    steps: usize,
}

impl Window<'_> {
    /// Find the newest store that wrote any of what a load reads and can still be on its way.
    fn search(&self, address: i64, loaded: u16, params: &Params, case: &mut Case) {
        let p = &params.memory;
        let Some((store, calls)) = self.reaching(address, loaded, params).next() else {
            return;
        };
        let within = address.wrapping_sub(store.address);
        let covers = within >= 0 && within + i64::from(loaded) <= i64::from(store.bytes);
        let whole = covers && (within == 0 || p.forward_parts);
        let failed = !covers && p.failed_forward_cycles > 0;
        case.overlaps = !whole && !failed;
        case.forwards[0] = (whole || failed).then_some((store.number, calls as u16));
        case.failed[0] = failed;
        case.exact[0] = within == 0 && loaded == store.bytes;
        case.lower[0] = covers && within == 0;
        if failed {
            let rest = (address + i64::from(store.bytes), loaded.saturating_sub(store.bytes));
            let others = self.reaching(rest.0, rest.1, params).next().is_some();
            case.waits[0] = p.waits(within == 0, others);
        }
    }

    /// The stores that wrote any of what a load reads and can still be on their way, with the calls in
    /// between, the newest first.
    fn reaching<'a>(&'a self, address: i64, loaded: u16, params: &Params) -> impl Iterator<Item = (&'a Store, usize)> {
        let count = self.stores.len();
        let window = params.retire.reorder_buffer as usize;
        (1..=STORES.min(CALLS * count))
            .map(move |back| {
                let calls = (back + count - 1 - self.before) / count;
                (&self.stores[(self.before + calls * count) - back], calls)
            })
            .take_while(move |(s, calls)| *calls <= CALLS && self.at + calls * self.steps - s.step <= window)
            .filter(move |(s, _)| {
                let within = address.wrapping_sub(s.address);
                within < i64::from(s.bytes) && within > -i64::from(loaded)
            })
    }
}

/// Marks the loads whose address comes directly from a load.
fn chase(known: &[&Known<'_>], params: &Params, cases: &mut [Case]) {
    let reach = i64::from(params.memory.pointer_chase_reach);
    let moves = params.rename.move_slots_gpr > 0;
    let mut from_load = [false; REGS];
    // What registers hold at the end of a call they hold at the start of the next.
    for _ in 0..2 {
        for (k, case) in known.iter().zip(cases.iter_mut()) {
            let of = |reg: u8| from_load.get(usize::from(reg)).copied().unwrap_or(false);
            let read = k.d.mems.iter().filter(|m| m.read);
            case.chased = read
                .into_iter()
                .any(|m| of(m.base) && usize::from(m.index) >= REGS && (0..reach).contains(&m.disp));
            let moved = k.d.effects.iter().find_map(|e| match *e {
                Effect::Offset { from, add: 0, .. } => Some(of(from)),
                _ => None,
            });
            let loads = k.pointer_load || moves && moved.unwrap_or(false);
            for w in &k.d.writes {
                from_load[usize::from(w.1)] = loads;
            }
        }
    }
}
