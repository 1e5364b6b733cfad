//! Dispatch slots that rename treats in a way of its own.

use crate::block::builder::Builder;
use crate::block::special::serial;
use crate::block::uops::{Expansion, From, Output, Regs, Role, Source, Uop};
use crate::block::x86::traits::extends_odd_byte;
use crate::block::{Inst, Slot, SlotKind, Traits};
use crate::core::figures::Figures;
use crate::isa::inst::{Decoded, Effect, Reg, Special, HIGH, OTHER};
use crate::isa::x86::registers::RSP;
use smallvec::smallvec;
use std::ops::Range;

impl Builder<'_> {
    /// Slots that rename handles without a port.
    pub(crate) fn rename_cases(&mut self, d: &Decoded, row: &Figures, expansion: &Expansion) {
        let serial = match d.special {
            Special::Serialise(kind) => Some(serial(kind, self.params).1),
            _ => None,
        };
        let string = &self.params.string;
        let held = match d.special {
            Special::RepMovs(bytes) | Special::RepStos(bytes) => {
                string.holds_rename && u32::from(bytes) >= string.hold_bytes
            }
            _ => false,
        };
        let offset = d.effects.iter().find_map(|e| match *e {
            Effect::Offset { to, from, add } => Some((to, from, add)),
            Effect::Zero { .. } => None,
        });
        let limit = i64::from(self.params.rename.immediate_add_limit);
        let Some(slot) = self.block.slots.last_mut() else {
            return;
        };
        slot.serial = serial;
        slot.holds = if held { row.busy } else { 0 };
        if let (true, [one, other]) = (row.eliminated, d.writes.as_slice()) {
            if one.1 >= OTHER && other.1 >= OTHER && d.reads.len() == 2 {
                slot.kind = SlotKind::Exchange(one.1, other.1);
                return;
            }
        }
        let kept = self.params.rename.odd_bytes_kept && extends_odd_byte(d);
        if kept && row.eliminated && !d.same {
            self.fallback(d, row);
            return;
        }
        // Of a register to itself only where the table has no other uops for it.
        if row.eliminated && (!d.same || row.same.is_none()) {
            let other = d.reads.iter().find(|r| !d.writes.iter().any(|w| w.1 == r.1));
            let from = other.or(d.reads.first().filter(|_| d.same)).map(|r| r.1);
            if let (Some(to), Some(from)) = (d.writes.first().map(|w| w.1), from) {
                slot.kind = SlotKind::Move { to, from };
                self.fallback(d, row);
                return;
            }
        }
        if limit > 0 && d.rename_add.is_some() && expansion.uops.len() == 1 {
            if let Some((to, from, add)) = offset {
                if add.abs() <= limit {
                    slot.kind = SlotKind::Add {
                        to,
                        from,
                        add: add as i32,
                    };
                    return;
                }
            }
        }
        if expansion.uops.is_empty() {
            slot.clears = d.writes.iter().map(|w| w.1).collect();
        }
    }

    /// The uop that runs when a move is not eliminated.
    pub(crate) fn fallback(&mut self, d: &Decoded, row: &Figures) {
        if self.block.slots.last().is_some_and(|s| !s.uops.is_empty()) {
            return;
        }
        let ports = row.same.as_ref().and_then(|s| s.ports.first().copied());
        let ports = ports.unwrap_or_else(|| self.params.mask(&self.params.ports.alu).unwrap_or(1));
        let writes = d.writes.iter().map(|w| w.1).collect();
        let uops = self.inserted(ports, d.reads.iter().map(|r| r.1), writes);
        if let Some(slot) = self.block.slots.last_mut() {
            slot.uops = uops;
        }
    }

    /// Append a uop of one cycle that no row of the table lists; its place.
    fn inserted(&mut self, ports: u32, reads: impl Iterator<Item = Reg>, writes: Regs) -> Range<u32> {
        let start = self.block.uops.len() as u32;
        let sources = reads.map(|reg| Source {
            from: From::Reg(reg),
            extra: 0,
        });
        let result = Output {
            latency: 1,
            regs: writes,
        };
        self.block
            .uops
            .push(Uop::new(ports, Role::Compute, sources.collect(), smallvec![result]));
        self.block.store_number.push(None);
        self.block.inner_base.push(start);
        start..start + 1
    }

    pub(crate) fn sync_slot(&mut self, inst: u16) {
        let ports = self.params.mask(&self.params.ports.alu).unwrap_or(1);
        let uops = self.inserted(ports, std::iter::once(RSP), smallvec![RSP]);
        self.inserted_slot(inst, uops);
    }

    /// Merge the high byte of a register.
    pub(crate) fn merge_slot(&mut self, inst: u16, reg: Reg) {
        let ports = self.params.mask(&self.params.rename.high_byte_merge).unwrap_or(1);
        let uops = self.inserted(ports, [reg, HIGH + reg].into_iter(), smallvec![reg]);
        self.inserted_slot(inst, uops);
    }

    fn inserted_slot(&mut self, inst: u16, uops: Range<u32>) {
        self.block.slots.push(Slot {
            kind: SlotKind::Normal,
            uops,
            clears: Vec::new(),
            inst,
            inserted: true,
            serial: None,
            holds: 0,
            last: false,
            store: None,
            wide: false,
            traits: Traits::default(),
        });
    }

    /// An instruction in the uop of the one before it, whose result it reads and replaces.
    pub(crate) fn join(&mut self, d: &Decoded) {
        if let Some(uop) = self.block.uops.last_mut() {
            let own = |reg: Reg| d.writes.iter().any(|w| w.1 == reg);
            for &(_, reg) in d.reads.iter().filter(|r| !own(r.1)) {
                uop.sources.push(Source {
                    from: From::Reg(reg),
                    extra: 0,
                });
            }
        }
        self.tail(d, false);
    }

    /// An instruction that is fused with the move or load before it, whose slot needs its port.
    pub(crate) fn absorb(&mut self, d: &Decoded) {
        if let Some(slot) = self.block.slots.last_mut() {
            slot.kind = SlotKind::Normal;
        }
        if let Some(head) = self.block.insts.last_mut() {
            head.head = true;
        }
        self.tail(d, false);
    }

    /// Whether the last instruction shares its place with a nop that follows.
    pub(crate) fn takes_nop(&self, next: &Decoded) -> bool {
        let nop = next.form == "nop" || next.form.starts_with("nop ");
        let p = &self.params.macro_fusion;
        let last = self.block.insts.last();
        let short = |len: u32| len + u32::from(next.len) <= p.nop_bytes;
        p.nops && nop && last.is_some_and(|i| !i.branch && i.ms == 0 && short(i.len))
    }

    /// Constants that a line of the op cache keeps of an instruction.
    pub(crate) fn constants(&self, d: &Decoded) -> u32 {
        let free = d.short_constant && !self.params.uop_cache.short_constants;
        u32::from(if free { 0 } else { d.constants })
    }

    /// An instruction in the place of the one before it.
    pub(crate) fn tail(&mut self, d: &Decoded, branch: bool) {
        let end = self.block.fused.len() as u32;
        let constants = self.constants(d);
        if let Some(head) = self.block.insts.last_mut() {
            head.constants += constants;
        }
        self.block.insts.push(Inst {
            offset: d.offset,
            len: u32::from(d.len),
            opcode_at: u32::from(d.opcode_at),
            fused: end..end,
            tail: true,
            branch,
            ..Inst::default()
        });
        self.block.names.push(d.form.clone());
    }
}
