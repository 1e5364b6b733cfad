//! x86-64 decoding: what an instruction reads, writes and does to addresses.

use crate::error::Error;
use crate::figures::{fixed, kind_mask, FLAGS};
use crate::inst::{Branch, Decoded, Effect, Mem, Reg, Special, ARITH, CARRY, NO_REG, OTHER, VECTOR};
use crate::x86_form::form_name;
use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, RflagsBits,
};

/// Stack pointer.
pub const RSP: Reg = 4;

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first byte that starts no instruction.
pub fn decode(code: &[u8]) -> Result<Vec<Decoded>, Error> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut out = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Error::Decode(at));
        }
        let bytes = &code[at..at + instruction.len()];
        out.push(describe(&instruction, bytes, at, &mut factory));
    }
    Ok(out)
}

/// Our number of a register; `None` where it does not matter.
fn number(register: Register) -> Option<Reg> {
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

fn address_register(register: Register) -> Reg {
    if register.is_ip() {
        return NO_REG;
    }
    number(register).unwrap_or(NO_REG)
}

fn describe(i: &Instruction, bytes: &[u8], at: usize, factory: &mut InstructionInfoFactory) -> Decoded {
    let info = factory.info(i);
    let mut d = Decoded {
        offset: at as u32,
        len: bytes.len() as u8,
        opcode_at: opcode_position(bytes) as u8,
        lcp: false,
        wide_immediate: false,
        reads: Vec::with_capacity(4),
        writes: Vec::with_capacity(3),
        mems: Vec::new(),
        branch: branch_of(i),
        effects: Vec::new(),
        same: false,
        stack: 0,
        explicit_sp: false,
        rename_add: None,
        has_immediate: false,
        ip_relative: i.is_ip_rel_memory_operand(),
        compares: matches!(i.mnemonic(), Mnemonic::Cmp | Mnemonic::Test),
        form: String::new(),
        special: special_of(i),
        locked: i.has_lock_prefix() || (i.mnemonic() == Mnemonic::Xchg && i.op_kind(0) == OpKind::Memory),
        awkward_pop: i.mnemonic() == Mnemonic::Pop && matches!(i.op0_register(), Register::RSP | Register::R12),
    };
    d.stack = i64::from(if i.is_stack_instruction() { i.stack_pointer_increment() } else { 0 });
    if i.mnemonic() == Mnemonic::Leave {
        d.stack = 0;
    }
    let has_memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    for n in 0..i.op_count() {
        let label = n as u8;
        match i.op_kind(n) {
            OpKind::Register => operand(i, n, label, info.op_access(n), &mut d),
            OpKind::Immediate64 => (d.wide_immediate, d.has_immediate) = (true, true),
            OpKind::Immediate8 | OpKind::Immediate32 | OpKind::Immediate8to32 | OpKind::Immediate8to64
            | OpKind::Immediate32to64 | OpKind::Immediate8to16 => d.has_immediate = true,
            OpKind::Immediate16 => {
                d.has_immediate = true;
                d.lcp = bytes[..usize::from(d.opcode_at)].contains(&0x66);
            }
            _ => {}
        }
    }
    for used in info.used_registers() {
        let Some(reg) = number(used.register()) else { continue };
        let explicit = (0..i.op_count())
            .any(|n| i.op_kind(n) == OpKind::Register && number(i.op_register(n)) == Some(reg))
            || (has_memory && (address_register(i.memory_base()) == reg || address_register(i.memory_index()) == reg));
        if reg == RSP && d.stack != 0 {
            continue;
        }
        if explicit {
            // An operand that is only read may be written implicitly, as in `mul edx`.
            let in_address = address_register(i.memory_base()) == reg || address_register(i.memory_index()) == reg;
            if writes(used.access()) && !in_address && !d.writes.iter().any(|w| w.1 == reg) {
                d.writes.push((fixed(reg), reg));
            }
            continue;
        }
        if reads(used.access()) {
            d.reads.push((fixed(reg), reg));
        }
        if writes(used.access()) {
            d.writes.push((fixed(reg), reg));
        }
    }
    let is_lea = i.mnemonic() == Mnemonic::Lea;
    let is_nop = matches!(i.mnemonic(), Mnemonic::Nop);
    if is_lea {
        for r in [address_register(i.memory_base()), address_register(i.memory_index())] {
            if r != NO_REG && !d.reads.iter().any(|x| x.1 == r) {
                d.reads.push((crate::figures::MEM, r));
            }
        }
        lea_effect(i, &mut d);
    } else if !is_nop {
        for m in info.used_memory() {
            let base = address_register(m.base());
            let stack = base == RSP && d.stack != 0 && (!has_memory || i.memory_base().full_register() != Register::RSP);
            let disp = if stack && writes(m.access()) { d.stack } else { m.displacement() as i64 };
            d.mems.push(Mem {
                base,
                index: address_register(m.index()),
                scale: m.scale() as u8,
                disp: if stack && !writes(m.access()) { 0 } else { disp },
                bytes: m.memory_size().size() as u16,
                read: reads(m.access()) && m.access() != OpAccess::CondWrite,
                write: writes(m.access()),
                stack,
            });
        }
    }
    d.explicit_sp = d.reads.iter().chain(&d.writes).any(|x| x.1 == RSP && x.0 != fixed(RSP))
        || (has_memory && !is_nop && (i.memory_base().full_register() == Register::RSP));
    flags(i, &mut d);
    if !is_lea {
        arithmetic_effect(i, &mut d);
    }
    d.same = same_sources(i);
    d.form = form_name(i);
    d
}

fn reads(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead | OpAccess::ReadCondWrite | OpAccess::CondWrite
    )
}

fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
}

fn operand(i: &Instruction, n: u32, label: u8, access: OpAccess, d: &mut Decoded) {
    let register = i.op_register(n);
    let Some(reg) = number(register) else { return };
    let partial = register.is_gpr8() || register.is_gpr16();
    if reads(access) || (partial && writes(access)) {
        d.reads.push((label, reg));
    }
    if writes(access) {
        d.writes.push((label, reg));
    }
}

fn flags(i: &Instruction, d: &mut Decoded) {
    let read = i.rflags_read();
    let changed = i.rflags_modified();
    let rest = RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;
    for (mask, reg) in [(RflagsBits::CF, CARRY), (rest, ARITH)] {
        if read & mask != 0 {
            d.reads.push((FLAGS, reg));
        }
        if changed & mask != 0 {
            d.writes.push((FLAGS, reg));
        }
    }
    // A shift by a count in cl leaves the flags alone if the count is zero.
    if matches!(i.mnemonic(), Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar | Mnemonic::Rol | Mnemonic::Ror)
        && i.op_count() == 2
        && i.op_kind(1) == OpKind::Register
        && !d.reads.iter().any(|r| r.0 == FLAGS)
    {
        d.reads.push((FLAGS, CARRY));
        d.reads.push((FLAGS, ARITH));
    }
}

fn branch_of(i: &Instruction) -> Branch {
    match i.flow_control() {
        FlowControl::Next | FlowControl::Exception | FlowControl::Interrupt | FlowControl::XbeginXabortXend => Branch::No,
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

fn special_of(i: &Instruction) -> Special {
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
        Mnemonic::Lfence => Special::Serialise(0),
        Mnemonic::Mfence => Special::Serialise(1),
        Mnemonic::Stac | Mnemonic::Clac => Special::Serialise(2),
        _ => Special::No,
    }
}

fn same_sources(i: &Instruction) -> bool {
    let all_registers = i.op_count() >= 2 && (0..i.op_count()).all(|n| i.op_kind(n) == OpKind::Register);
    if !all_registers {
        return false;
    }
    let last = i.op_register(i.op_count() - 1);
    i.op_register(i.op_count() - 2) == last
}

fn lea_effect(i: &Instruction, d: &mut Decoded) {
    let to = number(i.op0_register()).unwrap_or(NO_REG);
    let from = address_register(i.memory_base());
    if i.op0_register().is_gpr64() && i.memory_index() == Register::None && from != NO_REG {
        let add = i.memory_displacement64() as i64;
        d.effects.push(Effect::Offset { to, from, add });
        d.rename_add = Some(add);
    }
}

fn arithmetic_effect(i: &Instruction, d: &mut Decoded) {
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
fn opcode_position(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len()
        && matches!(bytes[at], 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x40..=0x4f)
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

/// Text of an instruction for messages.
pub fn text(code: Code, form: &str) -> String {
    if form.is_empty() {
        format!("{code:?}")
    } else {
        form.to_string()
    }
}
