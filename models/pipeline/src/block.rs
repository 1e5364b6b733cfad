//! A block made ready for simulation: instructions, fused uops, uops, all in flat tables.

use crate::aliasing::analyse;
use crate::error::Error;
use crate::figures::{FigureTable, Figures};
use crate::inst::{Branch, Decoded, Effect, Reg, Special};
use crate::params::{Isa, Params};
use crate::uops::{expand, Expansion, Role, Source, Uop};
use crate::{arm64, x86};
use std::borrow::Cow;
use std::ops::Range;

/// Throughput notion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notion {
    /// The block ends in a taken branch to its start.
    Loop,
    /// Copies of the block follow each other in memory.
    Unrolled,
}

/// What rename does with an issue slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Its uops go to the schedulers.
    Normal,
    /// A register move that may be eliminated.
    Move {
        /// Register written.
        to: Reg,
        /// Register read.
        from: Reg,
    },
    /// A constant addition that rename may do.
    Add {
        /// Register written.
        to: Reg,
        /// Register read.
        from: Reg,
        /// Constant.
        add: i32,
    },
}

/// An issue slot: one fused uop at rename and retirement.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Kind.
    pub kind: SlotKind,
    /// Its uops.
    pub uops: Range<u32>,
    /// Registers that become known without execution.
    pub clears: Vec<Reg>,
    /// Instruction.
    pub inst: u16,
    /// Inserted by rename, not by the front end.
    pub inserted: bool,
    /// Waits until everything before it has retired, then takes that many cycles.
    pub serial: Option<u32>,
    /// Last slot of its instruction.
    pub last: bool,
}

/// A fused uop of the front end.
#[derive(Clone, Debug)]
pub struct Fused {
    /// Its issue slots.
    pub slots: Range<u32>,
    /// Instruction.
    pub inst: u16,
    /// First of its instruction.
    pub first: bool,
}

/// An instruction as the front end sees it.
#[derive(Clone, Debug, Default)]
pub struct Inst {
    /// Offset in the block, bytes.
    pub offset: u32,
    /// Length, bytes.
    pub len: u32,
    /// Bytes before the primary opcode.
    pub opcode_at: u32,
    /// Has a length-changing prefix.
    pub lcp: bool,
    /// Fused uops.
    pub fused: Range<u32>,
    /// How many of them come from microcode.
    pub ms: u32,
    /// Needs the complex decoder.
    pub complex: bool,
    /// Simple decoders usable after it.
    pub simple_after: u32,
    /// Fuses with the next instruction.
    pub head: bool,
    /// Fused into the previous instruction.
    pub tail: bool,
    /// Could fuse with some branch.
    pub fusible: bool,
    /// Is a branch or fused with one.
    pub branch: bool,
    /// Taken: the last instruction of a loop.
    pub taken: bool,
    /// Takes two places in a line of the uop cache.
    pub wide: bool,
}

/// A block ready for simulation.
#[derive(Clone, Debug)]
pub struct Block {
    /// Notion.
    pub notion: Notion,
    /// Code offset mod 64 of its first byte.
    pub code_offset: u32,
    /// Length, bytes.
    pub len: u32,
    /// Instructions.
    pub insts: Vec<Inst>,
    /// Fused uops of one iteration.
    pub fused: Vec<Fused>,
    /// Issue slots of one iteration.
    pub slots: Vec<Slot>,
    /// Uops of one iteration.
    pub uops: Vec<Uop>,
    /// Store number of each uop that stores data.
    pub store_number: Vec<Option<u16>>,
    /// First uop of the instruction of each uop, for inner sources.
    pub inner_base: Vec<u32>,
    /// Names of the forms.
    pub names: Vec<String>,
    /// Net change of the stack pointer by pushes and pops, bytes.
    pub stack: i64,
}

/// Counts and alignments that string instructions depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct StringUse {
    /// Repetitions of each string instruction.
    pub count: Option<u32>,
    /// Destination address mod 64.
    pub destination: Option<u32>,
}

impl Block {
    /// Decode and prepare a block.
    ///
    /// # Errors
    /// The bytes do not decode, an instruction has no figures, or a loop does not
    /// end in a branch.
    pub fn new(
        code: &[u8],
        code_offset: u32,
        notion: Notion,
        params: &Params,
        table: &FigureTable,
        strings: StringUse,
    ) -> Result<Block, Error> {
        if code.is_empty() {
            return Err(Error::Block("no code".into()));
        }
        if code.len() > 1 << 16 {
            return Err(Error::Block("more than 64 KiB of code".into()));
        }
        let decoded = match params.isa {
            Isa::X86 => x86::decode(code)?,
            Isa::Arm64 => arm64::decode(code)?,
        };
        if notion == Notion::Loop && decoded.last().is_none_or(|d| d.branch == Branch::No) {
            return Err(Error::Block("a loop must end in a branch".into()));
        }
        Builder::new(code.len() as u32, code_offset, notion, params).build(&decoded, table, strings)
    }
}

struct Builder<'a> {
    params: &'a Params,
    block: Block,
    stack_dirty: bool,
    stores: u16,
    /// Registers that a loop advances by a constant, one bit each.
    advancing: u64,
}

impl<'a> Builder<'a> {
    fn new(len: u32, code_offset: u32, notion: Notion, params: &'a Params) -> Self {
        let block = Block {
            notion,
            code_offset: code_offset % 64,
            len,
            insts: Vec::new(),
            fused: Vec::new(),
            slots: Vec::new(),
            uops: Vec::new(),
            store_number: Vec::new(),
            inner_base: Vec::new(),
            names: Vec::new(),
            stack: 0,
        };
        Builder { params, block, stack_dirty: false, stores: 0, advancing: 0 }
    }

    fn build(mut self, code: &[Decoded], table: &FigureTable, strings: StringUse) -> Result<Block, Error> {
        let mut rows = Vec::with_capacity(code.len());
        for d in code {
            rows.push(self.figures(d, table, strings)?);
        }
        let load = self.params.mask(&self.params.ports.load).unwrap_or(0);
        let cases = analyse(code, self.params.rename.move_slots_gpr > 0, |i| {
            let ports = &rows[i].shape.ports;
            ports.len() == 1 && ports[0] & !load == 0 && code[i].mems.iter().any(|m| m.read && m.bytes >= 4)
        });
        if self.block.notion == Notion::Loop {
            for effect in code.iter().flat_map(|d| &d.effects) {
                if let Effect::Offset { to, from, .. } = *effect {
                    self.advancing |= u64::from(to == from && to < 63) << to.min(63);
                }
            }
        }
        self.block.stack = code.iter().map(|d| d.stack).sum();
        // The state at the end of an iteration is the state at its start.
        for d in code {
            self.track_stack(d);
        }
        let mut at = 0;
        while at < code.len() {
            let pair = code.get(at + 1).filter(|next| self.fuses(&code[at], &rows[at], next));
            let fused;
            let row: &Figures = if pair.is_some() {
                let mut copy = rows[at].clone().into_owned();
                fuse_branch(&mut copy, &rows[at + 1], load);
                fused = copy;
                &fused
            } else {
                &rows[at]
            };
            let sync = self.track_stack(&code[at]);
            let expansion = expand(&code[at], row, cases[at], self.params);
            self.instruction(&code[at], row, &expansion, sync);
            if pair.is_some() {
                let head = self.block.insts.len() - 1;
                self.block.insts[head].head = true;
                self.block.insts[head].branch = true;
                self.tail(&code[at + 1]);
                at += 1;
            }
            at += 1;
        }
        if self.block.notion == Notion::Loop {
            if let Some(last) = self.block.insts.last_mut() {
                last.taken = true;
            }
            let count = self.block.insts.len();
            if count >= 2 && self.block.insts[count - 2].head {
                self.block.insts[count - 2].taken = true;
            }
        }
        if self.block.fused.len() > 20_000 {
            return Err(Error::Block("more than 20000 uops".into()));
        }
        Ok(self.block)
    }

    fn figures<'t>(
        &self,
        d: &Decoded,
        table: &'t FigureTable,
        strings: StringUse,
    ) -> Result<Cow<'t, Figures>, Error> {
        if let Some(figures) = crate::special::figures(d, self.params, strings)? {
            return Ok(Cow::Owned(figures));
        }
        let plain = || d.form.contains(",0").then(|| d.form.replace(",0", ",i8")).and_then(|f| table.get(&f));
        let single = || d.form.ends_with(" 0").then(|| d.form.replace(" 0", " i8")).and_then(|f| table.get(&f));
        table
            .get(&d.form)
            .or_else(plain)
            .or_else(single)
            .map(Cow::Borrowed)
            .ok_or_else(|| Error::Unknown(d.form.clone()))
    }

    /// Whether a stack-pointer uop is needed before the instruction.
    fn track_stack(&mut self, d: &Decoded) -> bool {
        if !self.params.rename.stack_sync {
            return false;
        }
        let sync = d.explicit_sp && self.stack_dirty;
        if sync || d.writes.iter().any(|w| w.1 == x86::RSP) {
            self.stack_dirty = false;
        }
        if d.stack != 0 {
            self.stack_dirty = true;
        }
        sync
    }

    fn fuses(&self, d: &Decoded, row: &Figures, next: &Decoded) -> bool {
        let Branch::Conditional(kind) = next.branch else { return false };
        let fusion = &self.params.macro_fusion;
        let allowed = match fusion.pairs.as_str() {
            "table" => row.fuse & 1 << kind != 0 && !(d.has_immediate && d.ip_relative),
            "cmp_test" => d.compares,
            "flags" => d.writes.iter().any(|w| w.0 == crate::figures::FLAGS) && d.mems.is_empty(),
            _ => false,
        };
        let address = self.block.code_offset + next.offset;
        let boundary = fusion.boundary_bytes;
        allowed
            && (boundary == 0 || self.block.notion == Notion::Unrolled || !address.is_multiple_of(boundary))
    }

    fn instruction(&mut self, d: &Decoded, row: &Figures, expansion: &Expansion, sync: bool) {
        let index = self.block.insts.len() as u16;
        let first_fused = self.block.fused.len() as u32;
        if sync {
            self.sync_slot(index);
        }
        let first_slot = self.block.slots.len() as u32 - u32::from(sync);
        let base_after = self.block.uops.len() as u32;
        self.add_uops(d, expansion, base_after);
        for (n, front) in expansion.fused.iter().enumerate() {
            let start = if n == 0 { first_slot } else { self.block.slots.len() as u32 };
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
                    last: false,
                });
            }
            let slots = start..self.block.slots.len() as u32;
            self.block.fused.push(Fused { slots, inst: index, first: n == 0 });
        }
        self.rename_cases(d, row, expansion);
        if let Some(last) = self.block.slots.last_mut() {
            last.last = true;
        }
        let fused = first_fused..self.block.fused.len() as u32;
        let awkward = d.awkward_pop && self.params.decode.pop_r12 != "any";
        let alone = awkward && self.params.decode.pop_r12 == "alone";
        let ms = u32::from(row.ms).min(fused.end - fused.start);
        self.block.insts.push(Inst {
            offset: d.offset,
            len: u32::from(d.len),
            opcode_at: u32::from(d.opcode_at),
            lcp: d.lcp,
            ms,
            complex: row.complex.is_some() || fused.end - fused.start > 1 || awkward,
            simple_after: if alone { 0 } else { row.complex.map_or(u32::MAX, u32::from) },
            fusible: row.fuse != 0,
            branch: d.branch != Branch::No,
            wide: d.wide_immediate,
            fused,
            ..Inst::default()
        });
        self.block.names.push(d.form.clone());
    }

    fn add_uops(&mut self, d: &Decoded, expansion: &Expansion, base: u32) {
        let streams = |m: &&crate::inst::Mem| m.write && (self.advancing >> m.base.min(63) | self.advancing >> m.index.min(63)) & 1 != 0;
        let mut streamed = d.mems.iter().find(streams).map_or(0, |m| m.bytes);
        for uop in &expansion.uops {
            let store = (uop.role == Role::StoreData).then_some(self.stores);
            self.stores += u16::from(store.is_some());
            self.block.store_number.push(store);
            self.block.inner_base.push(base);
            let mut uop = uop.clone();
            if uop.role == Role::StoreData {
                uop.streamed = std::mem::take(&mut streamed);
            }
            self.block.uops.push(uop);
        }
    }

    /// Slots that rename handles without a port.
    fn rename_cases(&mut self, d: &Decoded, row: &Figures, expansion: &Expansion) {
        let serial = match d.special {
            Special::Serialise(kind) => Some(match kind {
                0 => self.params.serial.lfence,
                1 => self.params.serial.mfence,
                _ => self.params.serial.stac_clac,
            }),
            _ => None,
        };
        let offset = d.effects.iter().find_map(|e| match *e {
            Effect::Offset { to, from, add } => Some((to, from, add)),
            Effect::Zero { .. } => None,
        });
        let limit = i64::from(self.params.rename.immediate_add_limit);
        let Some(slot) = self.block.slots.last_mut() else { return };
        slot.serial = serial;
        if row.eliminated && !d.same {
            let from = d.reads.iter().find(|r| !d.writes.iter().any(|w| w.1 == r.1)).map(|r| r.1);
            if let (Some(to), Some(from)) = (d.writes.first().map(|w| w.1), from) {
                slot.kind = SlotKind::Move { to, from };
                self.fallback(d, row);
                return;
            }
        }
        if limit > 0 && d.rename_add.is_some() && expansion.uops.len() == 1 {
            if let Some((to, from, add)) = offset {
                if add.abs() <= limit {
                    slot.kind = SlotKind::Add { to, from, add: add as i32 };
                    return;
                }
            }
        }
        if expansion.uops.is_empty() {
            slot.clears = d.writes.iter().map(|w| w.1).collect();
        }
    }

    /// The uop that runs when a move is not eliminated.
    fn fallback(&mut self, d: &Decoded, row: &Figures) {
        if self.block.slots.last().is_some_and(|s| !s.uops.is_empty()) {
            return;
        }
        let ports = row.same.as_ref().and_then(|s| s.ports.first().copied());
        let ports = ports.unwrap_or_else(|| self.params.mask(&self.params.ports.alu).unwrap_or(1));
        let start = self.block.uops.len() as u32;
        self.block.uops.push(Uop {
            ports,
            role: Role::Compute,
            sources: d.reads.iter().map(|r| Source { from: crate::uops::From::Reg(r.1), extra: 0 }).collect(),
            outputs: vec![crate::uops::Output { latency: 1, regs: d.writes.iter().map(|w| w.1).collect() }],
            port_cycles: 1,
            busy: 0,
            streamed: 0,
        });
        self.block.store_number.push(None);
        self.block.inner_base.push(start);
        if let Some(slot) = self.block.slots.last_mut() {
            slot.uops = start..start + 1;
        }
    }

    fn sync_slot(&mut self, inst: u16) {
        let start = self.block.uops.len() as u32;
        self.block.uops.push(Uop {
            ports: self.params.mask(&self.params.ports.alu).unwrap_or(1),
            role: Role::Compute,
            sources: vec![Source { from: crate::uops::From::Reg(x86::RSP), extra: 0 }],
            outputs: vec![crate::uops::Output { latency: 1, regs: vec![x86::RSP] }],
            port_cycles: 1,
            busy: 0,
            streamed: 0,
        });
        self.block.store_number.push(None);
        self.block.inner_base.push(start);
        self.block.slots.push(Slot {
            kind: SlotKind::Normal,
            uops: start..start + 1,
            clears: Vec::new(),
            inst,
            inserted: true,
            serial: None,
            last: false,
        });
    }

    fn tail(&mut self, d: &Decoded) {
        let end = self.block.fused.len() as u32;
        self.block.insts.push(Inst {
            offset: d.offset,
            len: u32::from(d.len),
            opcode_at: u32::from(d.opcode_at),
            fused: end..end,
            tail: true,
            branch: true,
            ..Inst::default()
        });
        self.block.names.push(d.form.clone());
    }
}

/// A fused pair executes on the branch's ports.
fn fuse_branch(row: &mut Figures, branch: &Figures, load: u32) {
    let Some(&ports) = branch.shape.ports.first() else { return };
    for shape in [Some(&mut row.shape), row.indexed.as_mut(), row.same.as_mut()].into_iter().flatten() {
        if let Some(computes) = shape.ports.iter_mut().find(|p| **p & !load != 0) {
            *computes = ports;
        }
    }
}
