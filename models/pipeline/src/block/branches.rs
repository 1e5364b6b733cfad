//! Branches of a block: what they fuse with, and the ports of those that are taken.

use crate::block::builder::Builder;
use crate::block::uops::{Output, Regs, Role, Uop};
use crate::block::{Notion, SlotKind};
use crate::core::choice::Pairs;
use crate::core::figures::Figures;
use crate::isa::inst::{Branch, Decoded, VECTOR};
use std::borrow::Cow;

impl Builder<'_> {
    /// Give a taken branch the ports that take one.
    pub(crate) fn taken_ports(&self, row: &mut Cow<'_, Figures>) {
        let taken = self.params.mask(&self.params.ports.taken_branch).unwrap_or(0);
        if taken == 0 {
            return;
        }
        let ports = &mut row.to_mut().shape.ports;
        // Of several uops that it has, those that only compute may go elsewhere.
        let branch = match ports.as_mut_slice() {
            [only] => Some(only),
            several => several
                .iter_mut()
                .filter(|p| **p & taken != 0 && **p & !taken != 0)
                .min_by_key(|p| p.count_ones()),
        };
        if let Some(ports) = branch {
            *ports = taken;
        }
    }

    /// Whether an instruction fuses with the branch behind it.
    pub(crate) fn fuses(&self, d: &Decoded, row: &Figures, next: &Decoded) -> bool {
        let Branch::Conditional(kind) = next.branch else {
            return false;
        };
        let fusion = &self.params.macro_fusion;
        let allowed = match fusion.pairs {
            Pairs::Table => row.fuse & 1 << kind != 0 && !(d.has_immediate && d.ip_relative),
            Pairs::CmpTest => d.compares,
            Pairs::Flags => d.writes.iter().any(|w| w.0 == crate::isa::label::FLAGS) && d.mems.is_empty(),
            Pairs::None => false,
        };
        allowed && !self.begins_at_boundary(next)
    }

    /// Whether an instruction begins the bytes at whose start none fuses with the one before it.
    pub(crate) fn begins_at_boundary(&self, d: &Decoded) -> bool {
        let address = self.block.code_offset + d.offset;
        let boundary = self.params.macro_fusion.boundary_bytes;
        boundary != 0 && self.block.notion != Notion::Unrolled && address % boundary == 0
    }

    /// The figures of an instruction that is fused with the branch behind it: the pair executes on the branch's
    /// ports, or on `macro_fusion.result_ports` where it has a result.
    pub(crate) fn fused(&self, d: &Decoded, row: &Figures, branch: &Figures) -> Figures {
        let mut row = row.clone();
        let result = self.params.mask(&self.params.macro_fusion.result_ports).unwrap_or(0);
        let ports = match branch.shape.ports.first() {
            _ if result != 0 && !d.compares => result,
            Some(ports) => *ports,
            None => return row,
        };
        let load = self.params.mask(&self.params.ports.load).unwrap_or(0);
        let loads = |ports: &u32| ports & !load == 0;
        for shape in [Some(&mut row.shape), row.indexed.as_mut(), row.same.as_mut()]
            .into_iter()
            .flatten()
        {
            if shape.ports.iter().any(loads) {
                shape.slots = shape.slots.max(self.params.macro_fusion.load_slots as u16);
            }
            if let Some(computes) = shape.ports.iter_mut().find(|ports| !loads(ports)) {
                *computes = ports;
            }
        }
        row
    }

    /// Fuse a branch with the last instruction.
    pub(crate) fn pair_with(&mut self, branch: &Decoded) {
        if let Some(head) = self.block.insts.last_mut() {
            (head.head, head.branch, head.jump) = (true, true, true);
        }
        // Rename adds no constant of a pair: its branch needs a port.
        if let Some(slot) = self.block.slots.last_mut() {
            slot.kind = SlotKind::Normal;
        }
        self.part_flags();
        self.tail(branch, true);
    }

    /// Part the register and the flags that the last uop writes, which is fused with a branch, where each has a port.
    fn part_flags(&mut self) {
        let computes = |uop: &&mut Uop| uop.role == Role::Compute;
        let parted = !self.params.ports.joint.is_empty();
        let last = self.block.uops.iter_mut().rev().find(computes).filter(|_| parted);
        let Some(outputs) = last.map(|uop| &mut uop.outputs) else {
            return;
        };
        for n in 0..outputs.len() {
            let (own, flags): (Regs, Regs) = outputs[n].regs.iter().copied().partition(|reg| *reg < VECTOR);
            if !own.is_empty() && !flags.is_empty() {
                outputs[n].regs = own;
                let latency = outputs[n].latency;
                outputs.push(Output { latency, regs: flags });
            }
        }
    }
}
