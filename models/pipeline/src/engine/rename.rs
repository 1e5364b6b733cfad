//! Rename: fused uops get their registers, ports and places in the queues.

use crate::block::uops::{self, From, Role, Uop, OUTPUTS};
use crate::block::{indices, Block, Fused, Notion, Slot, Traits};
use crate::core::choice::Counted;
use crate::core::params::Params;
use crate::engine::ablation::Ablation;
use crate::engine::backend::Backend;
use crate::engine::balanced::NO_ENTRY;
use crate::engine::events::{Event, Hold, Observer};
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::{Held, Source, Waiting, LATER, NONE};
use crate::engine::in_flight::Flight;
use crate::engine::ports::NO_PORT;
use crate::engine::redirect::Redirect;
use crate::engine::registers::Registers;
use crate::engine::results::Results;
use crate::isa::inst::{Reg, ARITH, CARRY};
use std::collections::VecDeque;
use std::mem::take;

/// Rename.
#[derive(Debug)]
pub struct Rename<'a> {
    block: &'a Block,
    params: &'a Params,
    registers: Registers<'a>,
    /// The number of each instruction's chain, within which nothing waits; 0 for none.
    chains: Vec<u16>,
    /// All slots of this cycle advance the dispatch slot, not computing uops alone.
    counts_slots: bool,
    /// Computing uops renamed in this cycle.
    computing: u32,
    /// Whether the carry and the other flags were written by logic in this cycle.
    logic: [bool; 2],
    /// The high bytes before the next fused uop are merged.
    merged: bool,
    /// Slots of the first cycle that code before a loop takes.
    before: u32,
    /// Cycles that the head has waited for all before it, up to those that count.
    drained: u32,
    /// Cycles that it still stands still, and why.
    stall: u32,
    why: Hold,
    /// The mispredicted branches that it waits for.
    redirect: Redirect<'a>,
    /// Whether each instruction adds floats; none where that makes no difference.
    sums: Vec<bool>,
    /// Slots that each unit left empty, by [`Source`].
    starved_by: [u64; 5],
}

impl<'a> Rename<'a> {
    /// Nothing is renamed yet.
    pub fn new(block: &'a Block, params: &'a Params, ablation: &Ablation) -> Rename<'a> {
        let enters = block.notion == Notion::Loop;
        Rename {
            block,
            params,
            registers: Registers::new(block, params),
            chains: ablation.chains.clone(),
            counts_slots: true,
            computing: 0,
            logic: [false; 2],
            merged: false,
            before: if enters { params.rename.entry_slots } else { 0 },
            drained: 0,
            stall: if enters { params.rename.entry_stall } else { 0 },
            why: Hold::Serial,
            redirect: Redirect::new(params, if ablation.mispredicts { &[] } else { &block.mispredicted }),
            sums: sums(block, params),
            starved_by: [0; 5],
        }
    }

    /// Slots that each unit of the front end left empty, by [`Source`].
    pub fn starved_by(&self) -> [u64; 5] {
        self.starved_by
    }

    /// Rename for a cycle what waits in the queue that a unit feeds.
    pub fn cycle<O: Observer>(
        &mut self,
        now: i32,
        queue: &mut VecDeque<Waiting>,
        feeding: Source,
        backend: &mut Backend<'a>,
        observer: &mut O,
    ) {
        let why = self.until_held(now, queue, feeding, backend, observer);
        observer.on(now, Event::Held { why });
    }

    fn until_held<O: Observer>(
        &mut self,
        now: i32,
        queue: &mut VecDeque<Waiting>,
        feeding: Source,
        backend: &mut Backend<'a>,
        observer: &mut O,
    ) -> Hold {
        if self.stall > 0 {
            self.stall -= 1;
            return self.why;
        }
        if let Some(left @ 1..) = self.redirect.left(now, &backend.schedule) {
            (self.stall, self.why) = (left - 1, Hold::Mispredicted);
            return self.why;
        }
        let p = &self.params.rename;
        if p.whole_groups && !backend.schedule.fits(p.width) {
            return Hold::Scheduler;
        }
        self.computing = 0;
        let block = self.block;
        let mut room = p.width;
        let coming = queue
            .iter()
            .map(|head| &block.fused[head.fused as usize])
            .take_while(|fused| {
                let count = fused.slots.end - fused.slots.start;
                let fits = count <= room || room == p.width;
                room = room.saturating_sub(count);
                fits
            });
        backend
            .schedule
            .begin(coming.flat_map(|fused| &block.slots[indices(&fused.slots)]));
        self.counts_slots = match self.params.ports.position {
            Counted::Slots => true,
            Counted::Computing => false,
            Counted::Cached => matches!(feeding, Source::UopCache | Source::LoopBuffer),
        };
        self.registers.begin_cycle();
        self.logic = [false; 2];
        let mut used = if queue.is_empty() { 0 } else { take(&mut self.before) };
        let (mut instructions, mut alu, mut branches) = (0, 0, 0);
        let (mut places, mut apart) = (0, 0);
        while used < p.width {
            let Some(&head) = queue.front() else {
                self.starved_by[feeding as usize] += u64::from(p.width - used);
                return Hold::Empty;
            };
            let fused = &self.block.fused[head.fused as usize];
            if !fused.merges.is_empty() && !self.merged {
                return self.merge(now, head, used, backend, observer);
            }
            let count = fused.slots.end - fused.slots.start;
            if used > 0 && used + count > p.width {
                return Hold::Width;
            }
            if count > 1 {
                if p.apart_places > 0 && places >= p.apart_places || apart >= p.apart {
                    return Hold::Width;
                }
                apart += 1;
            }
            places += 1;
            instructions += u32::from(fused.first);
            branches += u32::from(fused.branch);
            if instructions > p.instructions || branches > p.branches {
                return Hold::Window;
            }
            if let Some(full) = self.full(count, fused, backend) {
                return full;
            }
            alu += fused.alu;
            if alu > p.alu_uops && used > 0 {
                return Hold::Window;
            }
            if let Some(drain) = fused.serial {
                if !backend.retire.is_empty() {
                    self.drained = drain.overlap.min(self.drained + 1);
                    return Hold::Serial;
                }
                (self.stall, self.why) = (drain.cycles.saturating_sub(self.drained + 1), Hold::Serial);
                self.drained = 0;
            }
            for slot in fused.slots.clone() {
                self.slot(now, slot, head.iteration, used, backend, observer);
                used += 1;
            }
            queue.pop_front();
            self.merged = false;
            if fused.holds > 0 {
                (self.stall, self.why) = (fused.holds - 1, Hold::Serial);
            }
            if self.stall > 0 {
                return Hold::Serial;
            }
            if self.redirect.waits() {
                return Hold::Mispredicted;
            }
            if head.wraps {
                return Hold::LoopEnd;
            }
        }
        Hold::Width
    }

    /// Merge the high bytes before a fused uop, in a cycle of their own.
    fn merge<O: Observer>(
        &mut self,
        now: i32,
        head: Waiting,
        used: u32,
        backend: &mut Backend<'a>,
        observer: &mut O,
    ) -> Hold {
        let slots = &self.block.fused[head.fused as usize].merges;
        let count = slots.end - slots.start;
        if used > 0 {
            return Hold::Window;
        }
        if !backend.retire.fits(count) || !backend.schedule.flights_fit(count) {
            return Hold::ReorderBuffer;
        }
        if !backend.schedule.fits(count) {
            return Hold::Scheduler;
        }
        for (n, slot) in slots.clone().enumerate() {
            self.slot(now, slot, head.iteration, n as u32, backend, observer);
        }
        self.merged = true;
        Hold::Window
    }

    /// The buffer that has no room for so many slots and the uops and stores in them.
    fn full(&self, slots: u32, fused: &Fused, backend: &mut Backend) -> Option<Hold> {
        if fused.stores > 0 && !backend.memory.fits(fused.stores) {
            return Some(Hold::StoreQueue);
        }
        if !backend.retire.fits(slots) || !backend.schedule.flights_fit(fused.uops) {
            return Some(Hold::ReorderBuffer);
        }
        let waits = self.params.rename.whole_groups || backend.schedule.takes(fused);
        (!waits).then_some(Hold::Scheduler)
    }

    /// Rename a dispatch slot.
    fn slot<O: Observer>(
        &mut self,
        now: i32,
        at: u32,
        iteration: u32,
        position: u32,
        backend: &mut Backend<'a>,
        observer: &mut O,
    ) {
        let slot = &self.block.slots[at as usize];
        let executed = if self.registers.done_here(slot, &self.block.uops, &mut backend.results) {
            0..0
        } else {
            slot.uops.clone()
        };
        let rob = backend.retire.enter(at, iteration, executed.len() as u16, now);
        backend.schedule.slot(slot.wide);
        for uop in executed.clone() {
            let position = if self.counts_slots { position } else { self.computing };
            self.uop(now, uop, rob, iteration, (position, slot.traits), backend, observer);
            self.computing += u32::from(self.block.uops[uop as usize].role == Role::Compute);
        }
        if let Some(store) = slot.store {
            backend.memory.enter(store, iteration, slot.inst, &mut backend.results);
        }
        self.note_flags(slot);
        if slot.last || slot.inserted {
            self.registers.apply(&mut backend.results);
        }
        for &reg in &slot.clears {
            let held = Held::Since(now, slot.inst);
            self.registers.overwrite(reg, held, &mut backend.results);
        }
        let executed = !executed.is_empty();
        observer.on(
            now,
            Event::Renamed {
                slot: at,
                iteration,
                executed,
            },
        );
    }

    #[allow(clippy::too_many_arguments)]
    fn uop<O: Observer>(
        &mut self,
        now: i32,
        at: u32,
        rob: u32,
        iteration: u32,
        (position, traits): (u32, Traits),
        backend: &mut Backend<'a>,
        observer: &mut O,
    ) {
        let block = self.block;
        let uop = &block.uops[at as usize];
        let inst = block.owner[at as usize];
        let ready = now + self.params.scheduler.delay as i32;
        let mut flight = Flight {
            uop: at,
            rob,
            iteration,
            port: NO_PORT,
            entry: NO_ENTRY,
            again: false,
            pending: 0,
            ready,
            earliest: ready,
            operand: 0,
            critical: inst,
            values: [NONE; OUTPUTS],
            result: LATER,
        };
        let place = backend.schedule.flights().next_place();
        let added = self.shifts_added(uop, traits);
        flight.again = added && self.params.rename.added_shift_again;
        let waits = self.waits(uop, traits, added);
        for (n, source) in uop.sources.iter().enumerate() {
            let held = backend.input(source.from, at, iteration, inst, &self.registers);
            let chained = O::OPERANDS || !self.chains.is_empty();
            let maker = Some(held).filter(|_| chained).and_then(|h| backend.results.maker(h));
            if let (Some(from), false) = (maker, matches!(source.from, From::Inner(_))) {
                observer.on(now, Event::Needs { inst, from });
            }
            if !maker.is_some_and(|from| self.cut(inst, from)) {
                let extra = source.extra + waits + self.waits_for_sum(inst, source.from, held, &backend.results);
                match backend.results.ask(held, place, n, extra) {
                    Some((at, maker)) => {
                        flight.operand = flight.operand.max(at);
                        if at > flight.ready {
                            (flight.ready, flight.critical) = (at, maker);
                        }
                    }
                    None => flight.pending += 1,
                }
            }
            if n == 0 && self.mirrors(uop) {
                for &reg in uop.outputs.iter().flat_map(|o| &o.regs) {
                    self.registers.will_hold(reg, held, &mut backend.results);
                }
            }
        }
        let computed = if self.mirrors(uop) { 0 } else { OUTPUTS };
        for (value, output) in flight.values.iter_mut().zip(&uop.outputs).take(computed) {
            *value = backend.results.promise(inst);
            for &reg in &output.regs {
                self.registers.will_hold(reg, Held::Value(*value), &mut backend.results);
            }
        }
        if let Some(store) = block.store_number[at as usize] {
            let source = match uop.sources.first().map(|s| s.from) {
                Some(from @ (From::Reg(_) | From::Inner(_))) => {
                    backend.input(from, at, iteration, inst, &self.registers)
                }
                _ => Held::Since(now, inst),
            };
            let data = Held::Value(flight.values[0]);
            backend
                .memory
                .store(store, iteration, source, data, &mut backend.results);
        }
        let number = backend.schedule.enter(now, flight, position);
        self.redirect.renamed(inst, number);
    }

    /// Whether a uop shifts a register to which rename has added a constant, or by one.
    fn shifts_added(&self, uop: &Uop, traits: Traits) -> bool {
        let added = |s: &uops::Source| matches!(s.from, From::Reg(reg) if self.registers.is_added(reg));
        traits.shifts && uop.role == Role::Compute && uop.sources.iter().any(added)
    }

    /// Cycles that a uop starts later for what its operands are.
    fn waits(&self, uop: &Uop, traits: Traits, added: bool) -> u16 {
        let by_logic = |s: &uops::Source| matches!(s.from, From::Reg(reg) if flag(reg).is_some_and(|n| self.logic[n]));
        let picked = traits.picks && uop.role == Role::Compute && uop.sources.iter().any(by_logic);
        let p = &self.params.rename;
        (u32::from(added) * p.added_shift_cycles + u32::from(picked) * p.pick_cycles) as u16
    }

    /// Cycles that an addition of floats waits longer for an operand that no other one made.
    fn waits_for_sum(&self, inst: u16, from: From, held: Held, results: &Results) -> u16 {
        let sums = |inst: u16| self.sums.get(usize::from(inst)).copied().unwrap_or(false);
        let late = sums(inst) && matches!(from, From::Reg(_)) && !results.maker(held).is_some_and(sums);
        u16::from(late) * self.params.scheduler.sum_cycles as u16
    }

    /// Note whose flags the instructions behind a slot read.
    fn note_flags(&mut self, slot: &Slot) {
        let uops = &self.block.uops[indices(&slot.uops)];
        let written = uops.iter().flat_map(|u| &u.outputs).flat_map(|o| &o.regs);
        for n in written.chain(&slot.clears).filter_map(|reg| flag(*reg)) {
            self.logic[n] = slot.traits.logic;
        }
    }

    /// Whether the front end finds from now on what follows a mispredicted branch.
    pub fn resumes(&mut self) -> bool {
        self.redirect.resumes(self.stall)
    }

    /// Whether a dependency is one of a chain that is lifted.
    fn cut(&self, inst: u16, from: u16) -> bool {
        let chain = |i: u16| self.chains.get(usize::from(i)).copied().unwrap_or(0);
        chain(inst) != 0 && chain(inst) == chain(from)
    }

    /// Whether a load's register becomes another name of what was stored.
    fn mirrors(&self, uop: &Uop) -> bool {
        let known = uop.sources.first().is_some_and(|s| matches!(s.from, From::Stored(..)));
        known && uop.role == Role::Load && self.params.memory.renamed_forward_cycles == 0
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, results: &Results, into: &mut Fingerprint) {
        self.registers.fingerprint(results, into);
        into.add(u64::from(self.drained) << 32 | u64::from(self.stall) << 1 | u64::from(self.merged));
        self.redirect.fingerprint(into);
    }
}

/// Which instructions of a block add floats; none where that makes no difference.
fn sums(block: &Block, params: &Params) -> Vec<bool> {
    let mut found = Vec::new();
    if params.scheduler.sum_cycles > 0 {
        found.resize(block.insts.len(), false);
        for slot in block.slots.iter().filter(|slot| slot.traits.sums) {
            found[usize::from(slot.inst)] = true;
        }
    }
    found
}

/// The number of a flag, `None` of any other register.
fn flag(reg: Reg) -> Option<usize> {
    [CARRY, ARITH].iter().position(|f| *f == reg)
}
