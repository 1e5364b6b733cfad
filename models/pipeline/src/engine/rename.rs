//! Rename: fused uops get their registers, ports and places in the queues.

use crate::block::uops::{From, Role};
use crate::block::{Fused, SlotKind};
use crate::engine::events::{Event, Hold, Observer};
use crate::engine::flight::{Held, RobEntry, LATER, NONE, OUTPUTS, ROB_SIZE, UOP_SIZE};
use crate::engine::machine::Machine;
use crate::isa::inst::Reg;

/// A value shared by registers after an eliminated move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Registers that hold it, one bit each (general-purpose and vector).
    pub regs: u64,
    /// Holds a vector value.
    pub vector: bool,
}

/// State of rename.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Values that take a slot for eliminated moves.
    pub aliases: Vec<Alias>,
    /// Slots renamed since the start.
    pub renamed: u64,
    /// Cycles in which nothing was waiting.
    pub starved: u64,
    /// Cycles in which the reorder buffer or the schedulers were full.
    pub blocked: u64,
    /// Which unit left rename without work, by [`crate::engine::flight::Source`].
    pub starved_by: [u64; 5],
    /// Cycles that rename still stands still.
    pub stall: u32,
    /// Registers that become other names of what is held, by the instruction that is being renamed.
    pub mirrored: Vec<(Reg, Held)>,
    /// Computing uops renamed in this cycle.
    pub computing: u32,
    /// Registers to be written by the instruction that is being renamed.
    pub writes: Vec<(Reg, u32)>,
}

impl Machine<'_> {
    /// Rename for a cycle.
    pub fn rename_cycle<O: Observer>(&mut self, observer: &mut O) {
        let why = self.rename_until(observer);
        observer.on(self.now, Event::Held { why });
    }

    /// Rename until something ends it.
    fn rename_until<O: Observer>(&mut self, observer: &mut O) -> Hold {
        if self.rename.stall > 0 {
            self.rename.stall -= 1;
            return Hold::Serial;
        }
        let p = self.params;
        let width = p.rename.width;
        let mut used = 0;
        self.rename.computing = 0;
        let mut instructions = 0;
        let mut alu = 0;
        if p.rename.whole_groups && self.sched.waiting + width > p.scheduler.entries {
            self.rename.blocked += 1;
            return Hold::Scheduler;
        }
        let mut why = Hold::Width;
        while used < width {
            let Some(&head) = self.idq.front() else {
                self.rename.starved += 1;
                self.rename.starved_by[self.source as usize] += u64::from(width - used);
                why = Hold::Empty;
                break;
            };
            let fused = &self.block.fused[head.fused as usize];
            let count = fused.slots.end - fused.slots.start;
            if used > 0 && used + count > width {
                break;
            }
            if fused.first {
                instructions += 1;
                if instructions > p.rename.instructions {
                    why = Hold::Window;
                    break;
                }
            }
            if let Some(full) = self.full(count, fused) {
                self.rename.blocked += u64::from(used == 0);
                why = full;
                break;
            }
            alu += fused.alu;
            if alu > p.rename.alu_uops && used > 0 {
                why = Hold::Window;
                break;
            }
            if let Some(cycles) = fused.serial {
                if self.rob_tail != self.rob_head {
                    why = Hold::Serial;
                    break;
                }
                self.rename.stall = cycles.saturating_sub(1);
            }
            let stalls = self.rename.stall > 0;
            for at in fused.slots.clone() {
                self.rename_slot(at, head.iteration, used);
                observer.on(
                    self.now,
                    Event::Renamed {
                        slot: at,
                        iteration: head.iteration,
                    },
                );
                used += 1;
            }
            self.idq.pop_front();
            if head.wraps || stalls {
                why = if stalls { Hold::Serial } else { Hold::LoopEnd };
                break;
            }
        }
        self.rename.renamed += u64::from(used);
        why
    }

    /// Which buffer has no room for so many slots and the uops and stores in them.
    fn full(&mut self, slots: u32, fused: &Fused) -> Option<Hold> {
        let (p, uops) = (self.params, fused.uops);
        if fused.stores > 0 && !self.room_for_stores(fused.stores) {
            return Some(Hold::StoreQueue);
        }
        let reordered = self.rob_tail - self.rob_head + slots;
        if reordered > p.retire.reorder_buffer.min(ROB_SIZE as u32) || self.flights_open() + uops > UOP_SIZE as u32 {
            return Some(Hold::ReorderBuffer);
        }
        (!p.rename.whole_groups && self.sched.waiting + uops > p.scheduler.entries).then_some(Hold::Scheduler)
    }

    /// Places of uops that may not have started yet.
    fn flights_open(&mut self) -> u32 {
        if self.next_flight.wrapping_sub(self.oldest_flight) > UOP_SIZE as u32 / 2 {
            self.forget_started();
        }
        self.next_flight.wrapping_sub(self.oldest_flight)
    }

    fn rename_slot(&mut self, at: u32, iteration: u32, position: u32) {
        let block = self.block;
        let slot = &block.slots[at as usize];
        let rob = self.rob_tail;
        let mut executed = slot.uops.clone();
        match slot.kind {
            SlotKind::Normal => {}
            SlotKind::Move { to, from } => {
                if self.eliminate(to, from) {
                    executed = 0..0;
                }
            }
            SlotKind::Add { to, from, add } => {
                if self.add_at_rename(to, from, add, slot) {
                    executed = 0..0;
                }
            }
        }
        if executed.is_empty() {
            if let Some(usage) = &mut self.usage {
                usage.eliminated[at as usize] += 1;
            }
        }
        let count = executed.end - executed.start;
        self.rob[rob as usize % ROB_SIZE] = RobEntry {
            slot: at,
            iteration,
            left: count as u16,
            done: self.now,
        };
        self.rob_tail += 1;
        for uop in executed {
            let computing = self.rename.computing;
            self.rename_uop(
                uop,
                rob,
                iteration,
                if self.mode.computing { computing } else { position },
            );
            self.rename.computing += u32::from(self.block.uops[uop as usize].role == Role::Compute);
        }
        if let Some(store) = slot.store {
            self.rename_store(store, iteration, slot.inst);
        }
        if slot.last || slot.inserted {
            self.apply_writes();
        }
        for &reg in &slot.clears {
            self.set_held(reg, Held::Since(self.now, slot.inst));
            self.unalias(reg);
            self.added[usize::from(reg)] = 0;
        }
    }

    /// The registers that an instruction writes change hands.
    fn apply_writes(&mut self) {
        let mut writes = std::mem::take(&mut self.rename.writes);
        for (reg, value) in writes.drain(..) {
            self.set_held(reg, Held::Value(value));
            self.count(Held::Value(value), -1);
            self.unalias(reg);
            self.added[usize::from(reg)] = 0;
        }
        self.rename.writes = writes;
        self.apply_mirrored();
    }

    fn rename_uop(&mut self, at: u32, rob: u32, iteration: u32, position: u32) {
        let block = self.block;
        let uop = &block.uops[at as usize];
        let id = self.next_flight;
        self.next_flight = self.next_flight.wrapping_add(1);
        let index = id as usize % UOP_SIZE;
        let inst = block.owner[at as usize];
        let flight = &mut self.flights[index];
        flight.uop = at;
        flight.rob = rob;
        flight.iteration = iteration;
        flight.port = 255;
        flight.pending = 0;
        flight.critical = inst;
        flight.ready = self.now + self.params.scheduler.delay as i32;
        (flight.earliest, flight.operand) = (flight.ready, 0);
        flight.values = [NONE; OUTPUTS];
        flight.result = LATER;
        let base = block.inner_base[at as usize];
        for (n, source) in uop.sources.iter().enumerate() {
            let held = match source.from {
                From::Reg(r) => self.held[usize::from(r)],
                From::Inner(k) => self.inner(id, at, base + u32::from(k)),
                From::Stored(store, back) => match iteration.checked_sub(u32::from(back)) {
                    Some(i) => self.stored[usize::from(store)][i as usize % 8],
                    None => Held::Since(0, inst),
                },
                From::Store(store, back) => match iteration.checked_sub(u32::from(back)) {
                    Some(i) => self.stores[usize::from(store)][i as usize % 8],
                    None => Held::Since(0, inst),
                },
                From::Committed(store, back) => match iteration.checked_sub(u32::from(back)) {
                    Some(i) => self.commit.held[usize::from(store)][i as usize % 8],
                    None => Held::Since(0, inst),
                },
            };
            let inner = matches!(source.from, From::Inner(_));
            if !self.cut(inst, held, inner) {
                self.wait_for(index, n, held, source.extra);
            }
            if n == 0 && matches!(source.from, From::Stored(..)) && self.mirrors(uop) {
                for &reg in uop.outputs.iter().flat_map(|o| &o.regs) {
                    self.count(held, 1);
                    self.rename.mirrored.push((reg, held));
                }
            }
        }
        let computed = if self.mirrors(uop) { 0 } else { OUTPUTS };
        for (n, output) in uop.outputs.iter().take(computed).enumerate() {
            let value = self.new_value(inst);
            self.flights[index].values[n] = value;
            for &reg in &output.regs {
                // Later uops of the instruction still read the old register.
                self.count(Held::Value(value), 1);
                self.rename.writes.push((reg, value));
            }
        }
        if let Some(store) = block.store_number[at as usize] {
            let data = uop.sources.first().map(|s| s.from);
            let data = match data {
                Some(From::Reg(r)) => self.held[usize::from(r)],
                Some(From::Inner(k)) => self.inner(id, at, base + u32::from(k)),
                _ => Held::Since(self.now, inst),
            };
            let old = std::mem::replace(&mut self.stored[usize::from(store)][iteration as usize % 8], data);
            self.count(data, 1);
            self.count(old, -1);
            let held = Held::Value(self.flights[index].values[0]);
            let place = &mut self.stores[usize::from(store)][iteration as usize % 8];
            let old = std::mem::replace(place, held);
            self.count(held, 1);
            self.count(old, -1);
        }
        self.assign_port(index, uop.ports, position);
        self.sched.waiting += 1;
        if self.flights[index].pending == 0 {
            self.make_ready(id);
        }
    }
}
