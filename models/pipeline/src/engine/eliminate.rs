//! Moves and additions that rename does without a port.

use crate::block::uops::{From, Role, Uop};
use crate::block::Slot;
use crate::engine::machine::Machine;
use crate::engine::rename::Alias;
use crate::isa::inst::{Reg, VECTOR};

impl Machine<'_> {
    /// Try to eliminate a move.
    pub(crate) fn eliminate(&mut self, to: Reg, from: Reg) -> bool {
        let vector = from >= VECTOR;
        let p = &self.params.rename;
        let limit = if vector { p.move_slots_vec } else { p.move_slots_gpr } as usize;
        if limit == 0 || to >= 64 || from >= 64 {
            return false;
        }
        let (to_bit, from_bit) = (1u64 << to, 1u64 << from);
        let known = self.rename.aliases.iter().position(|a| a.regs & from_bit != 0);
        if known.is_none() && self.rename.aliases.iter().filter(|a| a.vector == vector).count() >= limit {
            return false;
        }
        let held = self.held[usize::from(from)];
        if limit < 1000 {
            match known {
                Some(n) => {
                    let root = self.rename.aliases[n].regs;
                    if root & to_bit == 0 {
                        self.unalias(to);
                    }
                    if let Some(a) = self.rename.aliases.iter_mut().find(|a| a.regs & from_bit != 0) {
                        a.regs |= to_bit;
                    }
                }
                None => {
                    self.unalias(to);
                    self.rename.aliases.push(Alias {
                        regs: to_bit | from_bit,
                        vector,
                    });
                }
            }
        }
        self.set_held(to, held);
        self.added[usize::from(to)] = self.added[usize::from(from)];
        true
    }

    /// A register is overwritten: it leaves its alias group, whose slot is freed
    /// when no member is left.
    pub fn unalias(&mut self, reg: Reg) {
        if reg >= 64 || self.rename.aliases.is_empty() {
            return;
        }
        let bit = 1u64 << reg;
        for a in &mut self.rename.aliases {
            a.regs &= !bit;
        }
        self.rename.aliases.retain(|a| a.regs != 0);
    }

    /// Try to add a constant at rename.
    pub(crate) fn add_at_rename(&mut self, to: Reg, from: Reg, add: i32, slot: &Slot) -> bool {
        let limit = self.params.rename.immediate_add_limit as i32;
        let sum = self.added[usize::from(from)].saturating_add(add);
        if sum < -limit || sum >= limit {
            return false;
        }
        let held = self.held[usize::from(from)];
        self.set_held(to, held);
        self.added[usize::from(to)] = sum;
        let uop = &self.block.uops[slot.uops.start as usize];
        for output in &uop.outputs {
            for &reg in output.regs.iter().filter(|r| **r != to) {
                self.set_held(reg, held);
            }
        }
        true
    }

    /// Whether a load's register becomes another name of what was stored.
    pub(crate) fn mirrors(&self, uop: &Uop) -> bool {
        let known = uop.sources.first().is_some_and(|s| matches!(s.from, From::Stored(..)));
        known && uop.role == Role::Load && self.params.memory.renamed_forward_cycles == 0
    }

    /// Registers become other names of what was stored.
    pub(crate) fn apply_mirrored(&mut self) {
        let mut mirrored = std::mem::take(&mut self.rename.mirrored);
        for (reg, held) in mirrored.drain(..) {
            self.set_held(reg, held);
            self.count(held, -1);
            self.unalias(reg);
            self.added[usize::from(reg)] = 0;
        }
        self.rename.mirrored = mirrored;
    }
}
