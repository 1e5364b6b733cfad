//! From decoded instructions to the flat tables of a block: macro-fusion, stack
//! synchronisation and what rename handles without a port.

use crate::block::builder::Builder;
use crate::block::caveats;
use crate::block::source::Source;
use crate::block::uops::{Expansion, Role};
use crate::block::{arm64, x86};
use crate::block::{Block, Drain, Fused, Inst, Notion, Slot, SlotKind, StringUse, Traits};
use crate::core::choice::PopR12;
use crate::core::figures::{FigureTable, Figures};
use crate::core::value::UNLIMITED;
use crate::error::Error;
use crate::isa::inst::{Branch, Decoded, Effect, Reg};
use crate::isa::x86::registers::RSP;
use crate::isa::Isa;
use std::borrow::Cow;

/// The uops that rename inserts before an instruction.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// A uop that brings the stack pointer up to date.
    pub(crate) sync: bool,
    /// Registers whose high bytes are merged.
    pub(crate) merges: Vec<Reg>,
}

impl Builder<'_> {
    pub(crate) fn build(mut self, source: &Source<'_>) -> Result<Block, Error> {
        let (code, rows) = (&source.path.code, &source.rows);
        self.block.caveats.clone_from(&source.caveats);
        self.block.places.clone_from(&source.accesses.stored);
        self.block.reads.clone_from(&source.accesses.loaded);
        if self.block.notion == Notion::Loop {
            for effect in code.iter().flat_map(|d| &d.effects) {
                if let Effect::Offset { to, from, .. } = *effect {
                    self.advancing |= u64::from(to == from && to < 63) << to.min(63);
                }
            }
            self.pointers.step_by(code);
        }
        self.block.stack = code.iter().map(|d| d.stack).sum();
        // The state at the end of an iteration is the state at its start.
        for d in code {
            self.track_stack(d);
            self.high_bytes(d);
            self.transition(d);
        }
        let mut at = 0;
        while at < code.len() {
            let next = source.behind(at);
            let pair = next.filter(|next| source.fuse(&self, at, next));
            let fused;
            let row: &Figures = if pair.is_some() {
                fused = self.fused(&code[at], &rows[at], &rows[at + 1]);
                &fused
            } else {
                &rows[at]
            };
            let sync = self.track_stack(&code[at]);
            let transition = self.transition(&code[at]);
            self.block.transitions |= transition.is_some();
            let (d, merges) = self.high_bytes(&code[at]);
            let case = source.accesses.cases[at];
            let expansion = match self.params.isa {
                Isa::X86 => x86::expand(&d, row, case, self.params),
                Isa::Arm64 => arm64::expand(&d, row, case, self.params),
            };
            let operation = source.absorbing(&self, at).filter(|_| pair.is_none());
            let absorbed =
                operation.and_then(|_| x86::absorb::fused_with((&d, row, case), source.known(at + 1), self.params));
            let expansion = absorbed.as_ref().unwrap_or(&expansion);
            let first = self.block.uops.len();
            let first_slot = self.block.slots.len();
            self.instruction(&d, row, expansion, Before { sync, merges });
            if let Some(slot) = self.block.slots.get_mut(first_slot) {
                slot.serial = slot.serial.or(transition);
            }
            if self.params.isa == Isa::X86 {
                let traits = x86::traits::traits(&d, expansion, pair.is_some());
                self.block.slots[first_slot..]
                    .iter_mut()
                    .for_each(|s| s.traits = traits);
            }
            let taken = source.path.jumps[at + usize::from(pair.is_some())];
            if pair.is_some_and(|_| d.compares || !taken) || d.branch != Branch::No {
                let mut uops = self.block.uops[first..].iter_mut().rev();
                if let Some(uop) = uops.find(|uop| uop.role == Role::Compute) {
                    uop.branch = true;
                }
            }
            let head = self.block.insts.len() - 1;
            self.block.insts[head].taken = source.path.jumps[at];
            if let Some(branch) = pair {
                self.pair_with(branch);
                at += 1;
                self.block.insts[head].taken = source.path.jumps[at];
                self.block.insts[head + 1].taken = source.path.jumps[at];
            } else if let (Some(_), Some(operation)) = (&absorbed, operation) {
                self.absorb(operation);
                at += 1;
            } else if let Some(second) = next.filter(|next| source.joins(at, next)) {
                self.block.insts[head].head = true;
                self.join(second);
                at += 1;
            } else if let Some(nop) = next.filter(|next| self.takes_nop(next)) {
                self.block.insts[head].head = true;
                self.tail(nop, false);
                at += 1;
            }
            at += 1;
        }
        self.block.stores = usize::from(self.stores);
        if self.block.fused.len() > 20_000 {
            return Err(Error::Block("more than 20000 uops".into()));
        }
        self.all_followed()?;
        self.sum_up();
        Ok(self.block)
    }

    pub(crate) fn figures<'t>(
        &self,
        d: &Decoded,
        table: &'t FigureTable,
        strings: StringUse,
    ) -> Result<Cow<'t, Figures>, Error> {
        caveats::refuse_repeated(d)?;
        if let Some(figures) = crate::block::special::figures(d, self.params, strings)? {
            return Ok(Cow::Owned(figures));
        }
        table
            .of(&d.form)
            .map(Cow::Borrowed)
            .ok_or_else(|| Error::Unknown(d.form.clone()))
    }

    /// Whether a stack-pointer uop is needed before the instruction.
    pub(crate) fn track_stack(&mut self, d: &Decoded) -> bool {
        if !self.params.rename.stack_sync {
            return false;
        }
        let sync = d.explicit_sp && self.stack_dirty;
        if sync || d.writes.iter().any(|w| w.1 == RSP) {
            self.stack_dirty = false;
        }
        if d.stack != 0 {
            self.stack_dirty = true;
        }
        sync
    }

    /// The cost of the AVX-SSE transition before an instruction, if there is one.
    fn transition(&mut self, d: &Decoded) -> Option<Drain> {
        let (state, moves) = self.upper_halves.behind(d.upper_halves);
        self.upper_halves = state;
        let cycles = self.params.serial.avx_sse_transition;
        (moves && cycles > 0).then_some(Drain { cycles, overlap: 0 })
    }

    pub(crate) fn instruction(&mut self, d: &Decoded, row: &Figures, expansion: &Expansion, before: Before) {
        let index = self.block.insts.len() as u16;
        let first_fused = self.block.fused.len() as u32;
        let merges = self.block.slots.len() as u32..self.block.slots.len() as u32 + before.merges.len() as u32;
        for reg in before.merges {
            self.merge_slot(index, reg);
        }
        if before.sync {
            self.sync_slot(index);
        }
        let first_slot = self.block.slots.len() as u32 - u32::from(before.sync);
        let base_after = self.block.uops.len() as u32;
        self.add_uops(d, expansion, base_after);
        for (n, front) in expansion.fused.iter().enumerate() {
            let start = if n == 0 {
                first_slot
            } else {
                self.block.slots.len() as u32
            };
            for slot in front {
                let uops = match (slot.first(), slot.last()) {
                    (Some(a), Some(b)) => base_after + u32::from(*a)..base_after + u32::from(*b) + 1,
                    _ => base_after..base_after,
                };
                self.block.slots.push(Slot {
                    kind: SlotKind::Normal,
                    uops,
                    clears: Vec::new(),
                    inst: index,
                    inserted: false,
                    serial: None,
                    holds: 0,
                    last: false,
                    store: None,
                    wide: d.bits512,
                    traits: Traits::default(),
                });
            }
            let slots = start..self.block.slots.len() as u32;
            self.block.fused.push(Fused {
                slots,
                merges: if n == 0 { merges.clone() } else { 0..0 },
                inst: index,
                first: n == 0,
                uops: 0,
                alu: 0,
                branch: false,
                serial: None,
                holds: 0,
                stores: 0,
            });
        }
        self.rename_cases(d, row, expansion);
        if let Some(last) = self.block.slots.last_mut() {
            last.last = true;
        }
        let fused = first_fused..self.block.fused.len() as u32;
        let awkward = d.awkward_pop && self.params.decode.pop_r12 != PopR12::Any;
        let alone = awkward && self.params.decode.pop_r12 == PopR12::Alone;
        let ms = u32::from(row.ms).min(fused.end - fused.start);
        self.block.insts.push(Inst {
            offset: d.offset,
            len: u32::from(d.len),
            opcode_at: u32::from(d.opcode_at),
            lcp: d.lcp,
            ms,
            complex: row.complex.is_some() || fused.end - fused.start > 1 || awkward,
            simple_after: if alone {
                0
            } else {
                row.complex.map_or(u32::MAX, u32::from)
            },
            fusible: row.fuse != 0,
            branch: d.branch != Branch::No,
            jump: d.branch != Branch::No && d.mems.is_empty(),
            returns: d.branch != Branch::No && d.stack > 0,
            wide: d.wide_immediate
                && self.params.uop_cache.constants == UNLIMITED
                && self.params.uop_cache.long_constants == UNLIMITED
                || d.wide_operands && self.params.uop_cache.wide_operands,
            long_constant: d.long_constant,
            constants: self.constants(d),
            fused,
            ..Inst::default()
        });
        self.block.names.push(d.form.clone());
    }

    fn add_uops(&mut self, d: &Decoded, expansion: &Expansion, base: u32) {
        let streams = |m: &&crate::isa::inst::Mem| {
            m.write && (self.advancing >> m.base.min(63) | self.advancing >> m.index.min(63)) & 1 != 0
        };
        let mut streamed = d.mems.iter().find(streams).map_or(0, |m| m.bytes);
        let mut splits = match &self.access {
            Some(known) => known.splits(d, self.params),
            None => self.pointers.splits(d, self.params),
        };
        // Stores are numbered by memory operands, as in the analysis of aliases.
        let written = d.mems.iter().filter(|m| m.write).count() as u16;
        let mut numbers = self.stores..self.stores.saturating_add(written);
        self.stores = self.stores.saturating_add(written);
        let read = d.mems.iter().filter(|m| m.read).count() as u16;
        let mut reads = self.reads..self.reads.saturating_add(read);
        self.reads = reads.end;
        for (at, uop) in expansion.uops.iter().enumerate() {
            let store = if uop.role == Role::StoreData {
                numbers.next()
            } else {
                None
            };
            self.block.store_number.push(store);
            self.block.inner_base.push(base);
            let mut uop = uop.clone();
            uop.beside = expansion.beside(at, d);
            match uop.role {
                Role::StoreData => {
                    uop.streamed = std::mem::take(&mut streamed);
                    uop.split = splits.stores.pop().flatten();
                }
                Role::Load => {
                    uop.split = splits.loads.pop().flatten();
                    let read = reads.next().filter(|n| usize::from(*n) < self.block.reads.len());
                    uop.read = read.filter(|_| !uop.forwarded());
                }
                Role::Compute if d.vector() => {
                    (uop.vector, uop.wide) = (true, d.bits512);
                }
                _ => {}
            }
            self.block.uops.push(uop);
        }
        self.pointers.advance(d);
    }
}
