//! Properties of x86 instructions beyond their operands.

use crate::isa::flow::Next;
use crate::isa::inst::{Branch, Decoded, Effect, Serial, Special, NO_REG};
use crate::isa::label::kind_mask;
use crate::isa::x86::registers::{address_register, number};
use iced_x86::{ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register};

pub(crate) fn lea_effect(i: &Instruction, d: &mut Decoded) {
    let to = number(i.op0_register()).unwrap_or(NO_REG);
    let from = address_register(i.memory_base());
    if i.op0_register().is_gpr64() && i.memory_index() == Register::None && from != NO_REG {
        let add = i.memory_displacement64() as i64;
        d.effects.push(Effect::Offset { to, from, add });
        d.rename_add = Some(add);
    }
}

pub(crate) fn arithmetic_effect(i: &Instruction, d: &mut Decoded) {
    if i.op_count() == 0 || i.op0_kind() != OpKind::Register || !i.op0_register().is_gpr64() {
        return;
    }
    let Some(to) = number(i.op0_register()) else { return };
    let immediate = || i.try_immediate(1).ok().map(|v| v as i64);
    let add = match i.mnemonic() {
        Mnemonic::Add => immediate(),
        Mnemonic::Sub if !same_sources(i) => immediate().map(i64::wrapping_neg),
        Mnemonic::Inc => Some(1),
        Mnemonic::Dec => Some(-1),
        Mnemonic::Mov if i.op_kind(1) == OpKind::Register && i.op1_register().is_gpr64() => {
            if let Some(from) = number(i.op1_register()) {
                d.effects.push(Effect::Offset { to, from, add: 0 });
            }
            return;
        }
        Mnemonic::Xor | Mnemonic::Sub if same_sources(i) => {
            d.effects.push(Effect::Zero { to });
            return;
        }
        _ => None,
    };
    if let Some(add) = add {
        d.effects.push(Effect::Offset { to, from: to, add });
        d.rename_add = Some(add);
    }
}

/// Bytes of prefixes, VEX included, before the primary opcode.
pub(crate) fn opcode_position(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len()
        && matches!(
            bytes[at],
            0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x40..=0x4f
        )
    {
        at += 1;
    }
    match bytes.get(at) {
        Some(0xc5) => at + 2,
        Some(0xc4) => at + 3,
        Some(0x62) => at + 4,
        Some(0x0f) => at + 1,
        _ => at,
    }
    .min(bytes.len().saturating_sub(1))
}

pub(crate) fn special_of(i: &Instruction) -> Special {
    let rep = i.has_rep_prefix() || i.has_repne_prefix();
    match i.mnemonic() {
        Mnemonic::Movsb if rep => Special::RepMovs(1),
        Mnemonic::Movsw if rep => Special::RepMovs(2),
        Mnemonic::Movsd if rep && i.is_string_instruction() => Special::RepMovs(4),
        Mnemonic::Movsq if rep => Special::RepMovs(8),
        Mnemonic::Stosb if rep => Special::RepStos(1),
        Mnemonic::Stosw if rep => Special::RepStos(2),
        Mnemonic::Stosd if rep => Special::RepStos(4),
        Mnemonic::Stosq if rep => Special::RepStos(8),
        Mnemonic::Lfence => Special::Serialise(Serial::LoadFence),
        Mnemonic::Mfence => Special::Serialise(Serial::MemoryFence),
        Mnemonic::Stac | Mnemonic::Clac => Special::Serialise(Serial::UserAccess),
        _ => Special::No,
    }
}

/// Control flow after an instruction.
pub(crate) fn next_of(i: &Instruction) -> Next {
    let direct = matches!(
        i.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    );
    match i.flow_control() {
        FlowControl::Next => Next::Falls,
        FlowControl::ConditionalBranch => Next::Either(i.near_branch_target() as i64),
        FlowControl::UnconditionalBranch | FlowControl::Call if direct => Next::Jumps(i.near_branch_target() as i64),
        _ => Next::Anywhere,
    }
}

/// Whether the last two register operands are the same one, or a part of it, and none is memory.
pub(crate) fn same_sources(i: &Instruction) -> bool {
    let kinds = || (0..i.op_count()).map(|n| i.op_kind(n));
    if kinds().any(|k| !matches!(k, OpKind::Register | OpKind::Immediate8)) {
        return false;
    }
    let mut registers = (0..i.op_count()).filter(|n| i.op_kind(*n) == OpKind::Register).rev();
    match (registers.next(), registers.next()) {
        (Some(last), Some(other)) => {
            let (from, to) = (i.op_register(last), i.op_register(other));
            from == to || (from.size() != to.size() && from.full_register() == to.full_register())
        }
        _ => false,
    }
}

pub(crate) fn branch_of(i: &Instruction) -> Branch {
    match i.flow_control() {
        FlowControl::Next | FlowControl::Exception | FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
            Branch::No
        }
        FlowControl::ConditionalBranch => {
            let letter = match i.condition_code() {
                ConditionCode::a | ConditionCode::be => "a",
                ConditionCode::b | ConditionCode::ae => "c",
                ConditionCode::l | ConditionCode::ge | ConditionCode::le | ConditionCode::g => "l",
                ConditionCode::o | ConditionCode::no => "o",
                ConditionCode::p | ConditionCode::np => "p",
                ConditionCode::s | ConditionCode::ns => "s",
                ConditionCode::e | ConditionCode::ne => "z",
                ConditionCode::None => "r",
            };
            Branch::Conditional(kind_mask(letter).trailing_zeros() as u8)
        }
        _ => Branch::Always,
    }
}
