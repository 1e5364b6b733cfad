//! Values of registers at rename, and the moves and additions that rename performs without a port.

use crate::block::uops::Uop;
use crate::block::{Block, Notion, Slot, SlotKind};
use crate::core::params::{rename, Params};
use crate::core::value::UNLIMITED;
use crate::engine::fingerprint::Fingerprint;
use crate::engine::flight::Held;
use crate::engine::results::Results;
use crate::isa::inst::{Reg, REGS, VECTOR};

/// Cycles of rename that slots of eliminated moves are counted over at most.
const CYCLES: usize = 3;

/// A value shared by registers after an eliminated move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alias {
    /// Registers that hold it, one bit each (general-purpose and vector).
    regs: u64,
    /// Holds a vector value.
    vector: bool,
    /// One register alone has held it since an earlier cycle.
    alone: bool,
}

/// The register file as rename sees it.
#[derive(Debug)]
pub struct Registers<'a> {
    p: &'a rename,
    /// Registers that the block writes, by number.
    written: Vec<Reg>,
    held: [Held; REGS],
    /// Constants added at rename.
    added: [i32; REGS],
    /// Values that take a slot for eliminated moves.
    aliases: Vec<Alias>,
    /// Moves of general-purpose and of vector registers eliminated in this cycle and those before it.
    eliminated: [[u32; CYCLES]; 2],
    /// Slots in use at the end of those cycles before this one.
    in_use: [[u32; CYCLES]; 2],
    /// The values of registers after the instruction that is being renamed.
    writes: Vec<(Reg, Held)>,
}

impl<'a> Registers<'a> {
    /// All of them known from the start, but for those that a loop writes.
    pub fn new(block: &Block, params: &'a Params) -> Registers<'a> {
        let written = written(block);
        let mut held = [Held::Since(0, 0); REGS];
        if block.notion == Notion::Loop {
            for reg in &written {
                held[usize::from(*reg)] = Held::Since(params.scheduler.entry_delay as i32, 0);
            }
        }
        Registers {
            p: &params.rename,
            written,
            held,
            added: [0; REGS],
            aliases: Vec::new(),
            eliminated: [[0; CYCLES]; 2],
            in_use: [[0; CYCLES]; 2],
            writes: Vec::new(),
        }
    }

    /// Rename begins another cycle.
    pub fn begin_cycle(&mut self) {
        if self.p.move_slot_cycles == 0 {
            return;
        }
        for (kind, vector) in [false, true].into_iter().enumerate() {
            if self.eliminated[kind][0] == 0 && (vector || !self.p.move_slots_kept) {
                self.aliases.retain(|a| a.vector != vector || !a.alone);
            }
            self.eliminated[kind].rotate_right(1);
            self.eliminated[kind][0] = 0;
            self.in_use[kind].rotate_right(1);
            self.in_use[kind][0] = self.slots_in_use(vector);
        }
        for a in &mut self.aliases {
            a.alone = a.regs.count_ones() == 1;
        }
    }

    fn slots_in_use(&self, vector: bool) -> u32 {
        self.aliases.iter().filter(|a| a.vector == vector).count() as u32
    }

    /// Whether a move can have one of so many slots: those freed in the last cycles are not to be had yet.
    fn has_slot(&self, vector: bool, slots: u32) -> bool {
        let cycles = self.p.move_slot_cycles as usize;
        if cycles == 0 {
            return self.slots_in_use(vector) < slots;
        }
        let kind = usize::from(vector);
        let recent: u32 = self.eliminated[kind][..cycles].iter().sum();
        recent + self.in_use[kind][cycles - 1] < slots
    }

    /// The value of a register.
    pub fn get(&self, reg: Reg) -> Held {
        self.held[usize::from(reg)]
    }

    /// Whether rename has added a constant to a register, which is not in what it holds.
    pub fn is_added(&self, reg: Reg) -> bool {
        self.added[usize::from(reg)] != 0
    }

    fn set(&mut self, reg: Reg, held: Held, results: &mut Results) {
        let old = std::mem::replace(&mut self.held[usize::from(reg)], held);
        results.count(held, 1);
        results.count(old, -1);
    }

    /// A register is overwritten.
    pub fn overwrite(&mut self, reg: Reg, held: Held, results: &mut Results) {
        self.set(reg, held, results);
        self.unalias(reg);
        self.added[usize::from(reg)] = 0;
    }

    /// The instruction that is being renamed writes a register, or makes it another name of what was
    /// stored: later uops of it still read the old one.
    #[inline]
    pub fn will_hold(&mut self, reg: Reg, held: Held, results: &mut Results) {
        results.count(held, 1);
        self.writes.push((reg, held));
    }

    /// The instruction is renamed: the registers that it writes change hands.
    pub fn apply(&mut self, results: &mut Results) {
        // What is written has been counted.
        for n in 0..self.writes.len() {
            let (reg, held) = self.writes[n];
            let old = std::mem::replace(&mut self.held[usize::from(reg)], held);
            results.count(old, -1);
            self.unalias(reg);
            self.added[usize::from(reg)] = 0;
        }
        self.writes.clear();
    }

    /// Do a slot's work without a port, where that is possible.
    pub fn done_here(&mut self, slot: &Slot, uops: &[Uop], results: &mut Results) -> bool {
        match slot.kind {
            SlotKind::Normal => false,
            SlotKind::Move { to, from } => self.eliminate(to, from, results),
            SlotKind::Exchange(one, other) => {
                self.held.swap(usize::from(one), usize::from(other));
                true
            }
            SlotKind::Add { to, from, add } => {
                let uop = &uops[slot.uops.start as usize];
                let written = uop.outputs.iter().flat_map(|o| o.regs.iter().copied());
                self.add(to, from, add, written, results)
            }
        }
    }

    /// Try to eliminate a move.
    pub fn eliminate(&mut self, to: Reg, from: Reg, results: &mut Results) -> bool {
        let vector = from >= VECTOR;
        let limit = if vector {
            self.p.move_slots_vec
        } else {
            self.p.move_slots_gpr
        };
        if limit == 0 || to >= 64 || from >= 64 {
            return false;
        }
        let (to_bit, from_bit) = (1u64 << to, 1u64 << from);
        let known = self.aliases.iter().position(|a| a.regs & from_bit != 0);
        if limit != UNLIMITED {
            if !self.has_slot(vector, limit) {
                return false;
            }
            self.eliminated[usize::from(vector)][0] += u32::from(self.p.move_slot_cycles > 0);
            match known {
                Some(n) => {
                    if self.aliases[n].regs & to_bit == 0 {
                        self.unalias(to);
                    }
                    if let Some(a) = self.aliases.iter_mut().find(|a| a.regs & from_bit != 0) {
                        a.regs |= to_bit;
                    }
                }
                None => {
                    self.unalias(to);
                    self.aliases.push(Alias {
                        regs: to_bit | from_bit,
                        vector,
                        alone: false,
                    });
                }
            }
        }
        self.set(to, self.get(from), results);
        self.added[usize::from(to)] = self.added[usize::from(from)];
        true
    }

    /// A register leaves its group, whose slot is freed when no member is left, or one where that needs no cycles.
    fn unalias(&mut self, reg: Reg) {
        if reg >= 64 || self.aliases.is_empty() {
            return;
        }
        let bit = 1u64 << reg;
        for a in &mut self.aliases {
            a.regs &= !bit;
        }
        let least = if self.p.move_slot_cycles == 0 { 2 } else { 1 };
        self.aliases.retain(|a| a.regs.count_ones() >= least);
    }

    /// Try to add a constant; `others` are written along with `to`.
    pub fn add(
        &mut self,
        to: Reg,
        from: Reg,
        add: i32,
        others: impl Iterator<Item = Reg>,
        results: &mut Results,
    ) -> bool {
        let limit = self.p.immediate_add_limit as i32;
        let sum = self.added[usize::from(from)].saturating_add(add);
        if sum < -limit || sum >= limit {
            return false;
        }
        let held = self.get(from);
        self.set(to, held, results);
        self.added[usize::from(to)] = sum;
        for reg in others.filter(|r| *r != to) {
            self.set(reg, held, results);
        }
        true
    }

    /// Tell what the future depends on.
    pub fn fingerprint(&self, results: &Results, into: &mut Fingerprint) {
        let held = self.written.iter().map(|reg| self.get(*reg));
        into.add_rare(held.map(|held| results.ready(held)));
        for a in &self.aliases {
            into.add(a.regs);
            into.add(u64::from(a.alone));
        }
        for counts in self.eliminated.iter().chain(&self.in_use).flatten() {
            into.add(u64::from(*counts));
        }
        if self.p.immediate_add_limit > 0 {
            for reg in &self.written {
                into.add(u64::from(self.added[usize::from(*reg)] as u32));
            }
        }
    }
}

/// Registers that any uop or slot of a block can write.
fn written(block: &Block) -> Vec<Reg> {
    let mut found = [false; REGS];
    let mut note = |reg: Reg| found[usize::from(reg)] = true;
    for output in block.uops.iter().flat_map(|u| &u.outputs) {
        output.regs.iter().copied().for_each(&mut note);
    }
    for slot in &block.slots {
        slot.clears.iter().copied().for_each(&mut note);
        match slot.kind {
            SlotKind::Move { to, .. } | SlotKind::Add { to, .. } => note(to),
            SlotKind::Exchange(one, other) => [one, other].into_iter().for_each(&mut note),
            SlotKind::Normal => {}
        }
    }
    (0..REGS as u8).filter(|reg| found[usize::from(*reg)]).collect()
}
