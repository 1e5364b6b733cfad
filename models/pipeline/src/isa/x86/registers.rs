//! Numbers of x86-64 registers.

use crate::isa::inst::{Decoded, Reg, NO_REG, OTHER, VECTOR};
use crate::isa::label::fixed;
use iced_x86::Register;

/// Stack pointer.
pub const RSP: Reg = 4;
/// Pointers of string instructions: source and destination.
pub const RSI: Reg = 6;
/// See [`RSI`].
pub const RDI: Reg = 7;

/// Our number of a register; `None` where it does not matter.
pub(crate) fn number(register: Register) -> Option<Reg> {
    let full = register.full_register();
    if full.is_gpr() {
        Some(full.number() as Reg)
    } else if full.is_vector_register() {
        Some(VECTOR + full.number() as Reg)
    } else if full.is_mm() || full.is_st() {
        Some(OTHER + full.number() as Reg)
    } else if full.is_k() {
        Some(OTHER + 8 + full.number() as Reg)
    } else {
        None
    }
}

pub(crate) fn address_register(register: Register) -> Reg {
    if register.is_ip() {
        return NO_REG;
    }
    number(register).unwrap_or(NO_REG)
}

/// Number the x87 registers of an instruction from the top of the stack at the start of the code.
///
/// `top` is the register that is on top before it, `moves` by how much it moves the top: -1 for what pushes, whose
/// result is on the new top. Returns the top behind it.
pub(crate) fn number_by_top(d: &mut Decoded, top: i32, moves: i32) -> i32 {
    let on = |reg: &mut Reg, top: i32| {
        if (OTHER..OTHER + X87).contains(reg) {
            *reg = OTHER + (i32::from(*reg - OTHER) + top).rem_euclid(i32::from(X87)) as Reg;
        }
    };
    let behind = (top + moves).rem_euclid(i32::from(X87));
    if moves < 0 {
        d.writes.push((fixed(OTHER), OTHER));
    }
    d.reads.iter_mut().for_each(|(_, reg)| on(reg, top));
    d.writes
        .iter_mut()
        .for_each(|(_, reg)| on(reg, if moves < 0 { behind } else { top }));
    behind
}

/// Registers of the x87 stack.
const X87: Reg = 8;
