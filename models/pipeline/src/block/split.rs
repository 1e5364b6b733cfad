//! Accesses that cross a boundary of memory and keep their port for longer.
//!
//! The values of registers are not known. Base registers are assumed to start at an aligned address
//! plus `memory.misaligned_by`, the stack pointer and index registers at an aligned one; constants
//! that a loop adds to them are followed. An access wider than the boundary must cross only
//! multiples of its own size: a 32-byte store at a multiple of 32 crosses none on a core that
//! splits at 16. On AArch64 each uop accesses 16 bytes at most, so a pair of q registers is two
//! accesses.

use crate::block::position::period;
use crate::core::params::Params;
use crate::isa::inst::{Decoded, Effect, Mem, NO_REG};
use crate::isa::Isa;

/// Registers that are followed: the general-purpose ones.
const FOLLOWED: usize = 32;
/// Bytes that a uop accesses at most on AArch64.
const ARM64_BYTES: u16 = 16;

/// An access that may cross a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Address in the first iteration.
    at: i64,
    /// Bytes by which it moves on in each iteration.
    step: i64,
    /// Bytes accessed.
    bytes: u16,
    /// Aligned bytes that it must not cross, a power of two.
    within: u32,
    /// Cycles more that its port stays taken if it does.
    cycles: u16,
}

impl Split {
    /// Cycles more in an iteration.
    pub fn extra(&self, iteration: u32) -> u16 {
        let at = self.at.wrapping_add(self.step.wrapping_mul(i64::from(iteration)));
        let (within, bytes) = (i64::from(self.within), i64::from(self.bytes));
        // What is wider than the aligned bytes crosses none where it starts at one of them.
        if at.rem_euclid(within) + bytes > within.max(bytes) {
            self.cycles
        } else {
            0
        }
    }

    /// Iterations after which it lies at the same place again.
    pub fn period(&self) -> u32 {
        period(self.step, self.within)
    }
}

/// The loads and the stores of an instruction, the last one first.
#[derive(Debug, Default)]
pub struct Splits {
    /// Loads.
    pub loads: Vec<Option<Split>>,
    /// Stores.
    pub stores: Vec<Option<Split>>,
}

/// The addresses that an instruction loads from and stores to, where they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Load.
    pub load: Option<i64>,
    /// Store.
    pub store: Option<i64>,
}

impl Access {
    /// The accesses of an instruction that cross a boundary which costs cycles.
    pub fn splits(&self, d: &Decoded, params: &Params) -> Splits {
        let p = &params.memory;
        let mut splits = Splits::default();
        for mem in d.mems.iter().rev() {
            let split = |start: Option<i64>, piece: &Mem, within: u32, cycles: u32| {
                let start = start.filter(|_| cycles > 0)?;
                let within = within.max(u32::from(piece.bytes).next_power_of_two());
                let at = start.wrapping_add(piece.disp.wrapping_sub(mem.disp));
                let (bytes, cycles) = (piece.bytes, cycles as u16);
                let step = 0;
                Some(Split {
                    at,
                    step,
                    bytes,
                    within,
                    cycles,
                })
                .filter(|s| s.extra(0) > 0)
            };
            for piece in pieces(mem, params.isa).iter().rev() {
                if mem.read {
                    let split = split(self.load, piece, p.split_load_bytes, p.split_load_cycles);
                    splits.loads.push(split);
                }
                if mem.write {
                    let split = split(self.store, piece, p.split_store_bytes, p.split_store_cycles);
                    splits.stores.push(split);
                }
            }
        }
        splits
    }
}

/// The values of registers relative to the start of an iteration.
#[derive(Clone, Debug, Default)]
pub struct Pointers {
    now: [i64; FOLLOWED],
    step: [i64; FOLLOWED],
}

impl Pointers {
    /// Note by how much an iteration moves each register.
    pub fn step_by(&mut self, code: &[Decoded]) {
        let mut moved = Pointers::default();
        for d in code {
            moved.advance(d);
        }
        self.step = moved.now;
    }

    /// Follow what an instruction adds to registers.
    pub fn advance(&mut self, d: &Decoded) {
        for effect in &d.effects {
            if let Effect::Offset { to, from, add } = *effect {
                if let (true, Some(now)) = (to == from, self.now.get_mut(usize::from(to))) {
                    *now = now.wrapping_add(add);
                }
            }
        }
    }

    /// The accesses of an instruction that can cross a boundary which costs cycles.
    pub fn splits(&self, d: &Decoded, params: &Params) -> Splits {
        let p = &params.memory;
        let mut splits = Splits::default();
        for mem in d.mems.iter().rev() {
            let pieces = pieces(mem, params.isa);
            for piece in pieces.iter().rev() {
                if mem.read {
                    let split = self.split(piece, params, p.split_load_bytes, p.split_load_cycles);
                    splits.loads.push(split);
                }
                if mem.write {
                    let split = self.split(piece, params, p.split_store_bytes, p.split_store_cycles);
                    splits.stores.push(split);
                }
            }
        }
        splits
    }

    fn split(&self, mem: &Mem, params: &Params, within: u32, cycles: u32) -> Option<Split> {
        if cycles == 0 || mem.base == NO_REG || mem.stack {
            return None;
        }
        let stack = match params.isa {
            Isa::X86 => crate::isa::x86::registers::RSP,
            Isa::Arm64 => crate::isa::arm64::work::SP,
        };
        let off = if mem.base == stack {
            0
        } else {
            params.memory.misaligned_by
        };
        let sum = |of: &[i64; FOLLOWED]| {
            let value = |reg: u8| of.get(usize::from(reg)).copied().unwrap_or(0);
            value(mem.base).wrapping_add(value(mem.index).wrapping_mul(i64::from(mem.scale)))
        };
        Some(Split {
            at: sum(&self.now).wrapping_add(mem.disp).wrapping_add(i64::from(off)),
            step: sum(&self.step),
            bytes: mem.bytes,
            within: within.max(u32::from(mem.bytes).next_power_of_two()),
            cycles: cycles as u16,
        })
    }
}

/// The accesses that the uops of an instruction make to a memory operand.
fn pieces(mem: &Mem, isa: Isa) -> Vec<Mem> {
    let most = match isa {
        Isa::X86 => mem.bytes.max(1),
        Isa::Arm64 => ARM64_BYTES,
    };
    let piece = |n: u16| Mem {
        disp: mem.disp.wrapping_add(i64::from(n) * i64::from(most)),
        bytes: most.min(mem.bytes - n * most),
        ..*mem
    };
    (0..mem.bytes.div_ceil(most).max(1)).map(piece).collect()
}
