//! Numbers of x86-64 registers.

use crate::isa::inst::{Reg, NO_REG, OTHER, VECTOR};
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
