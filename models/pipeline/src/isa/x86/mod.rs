//! x86-64 decoding: what an instruction reads, writes and does to addresses.

pub mod effects;
pub mod form;
pub mod registers;

use crate::error::Error;
use crate::isa::flow::Next;
use crate::isa::inst::{Decoded, HighByte, Mem, UpperHalves, ARITH, CARRY, NO_REG};
use crate::isa::label::{fixed, FLAGS, INDEX, MASK, MEM};
use crate::isa::x86::effects::{
    arithmetic_effect, branch_of, lea_effect, next_of, opcode_position, same_sources, special_of,
};
use crate::isa::x86::form::form_name;
use crate::isa::x86::registers::{address_register, number, RSP};
use iced_x86::{
    Decoder, DecoderOptions, EncodingKind, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, RflagsBits, UsedMemory,
};

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first byte that starts no instruction.
pub fn decode(code: &[u8]) -> Result<Vec<Decoded>, Error> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut out = Vec::new();
    let mut top = 0;
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Err(Error::Decode(at));
        }
        let bytes = &code[at..at + instruction.len()];
        let mut d = describe(&instruction, bytes, at, &mut factory);
        let moves = instruction.fpu_stack_increment_info().increment();
        top = registers::number_by_top(&mut d, top, moves);
        out.push(d);
    }
    Ok(out)
}

/// Decode the instruction at a place in code.
///
/// # Errors
/// [`Error::Decode`] if none starts there.
pub fn decode_at(code: &[u8], at: usize) -> Result<(Decoded, Next), Error> {
    let bytes = code.get(at..).filter(|b| !b.is_empty()).ok_or(Error::Decode(at))?;
    let i = Decoder::with_ip(64, bytes, at as u64, DecoderOptions::NONE).decode();
    if i.is_invalid() {
        return Err(Error::Decode(at));
    }
    let d = describe(&i, &bytes[..i.len()], at, &mut InstructionInfoFactory::new());
    Ok((d, next_of(&i)))
}

fn describe(i: &Instruction, bytes: &[u8], at: usize, factory: &mut InstructionInfoFactory) -> Decoded {
    let info = factory.info(i);
    let mut d = Decoded {
        offset: at as u32,
        len: bytes.len() as u8,
        opcode_at: opcode_position(bytes) as u8,
        lcp: false,
        constants: constants(i),
        short_constant: short_constant(i),
        wide_immediate: false,
        long_constant: false,
        wide_operands: false,
        bits512: (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Register && i.op_register(n).is_zmm()),
        upper_halves: upper_halves(i, info),
        high: Vec::new(),
        whole_reads: 0,
        whole_writes: 0,
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
    d.stack = i64::from(if i.is_stack_instruction() {
        i.stack_pointer_increment()
    } else {
        0
    });
    if i.mnemonic() == Mnemonic::Leave {
        d.stack = 0;
    }
    let has_memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
    d.wide_operands = has_memory && wide_immediate(i);
    for n in 0..i.op_count() {
        let label = n as u8;
        match i.op_kind(n) {
            OpKind::Register => operand(i, n, label, info.op_access(n), &mut d),
            OpKind::Immediate64 => {
                (d.wide_immediate, d.has_immediate) = (true, true);
                d.long_constant = i32::try_from(i.immediate64() as i64).is_err();
            }
            OpKind::Immediate8
            | OpKind::Immediate32
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate8to16 => d.has_immediate = true,
            OpKind::Immediate16 => {
                d.has_immediate = true;
                d.lcp = bytes[..usize::from(d.opcode_at)].contains(&0x66);
            }
            _ => {}
        }
    }
    for used in info.used_registers() {
        let Some(reg) = number(used.register()) else { continue };
        whole_and_high(i, used.register(), used.access(), &mut d);
        let explicit = (0..i.op_count())
            .any(|n| i.op_kind(n) == OpKind::Register && number(i.op_register(n)) == Some(reg))
            || (has_memory && (address_register(i.memory_base()) == reg || address_register(i.memory_index()) == reg));
        if reg == RSP && d.stack != 0 {
            continue;
        }
        // A mask may be the register of an operand as well.
        let masks = i.has_op_mask() && number(i.op_mask()) == Some(reg);
        if masks && !d.reads.contains(&(MASK, reg)) {
            d.reads.push((MASK, reg));
        }
        if explicit {
            // An operand that is only read may be written implicitly, as in `mul edx`.
            let in_address = address_register(i.memory_base()) == reg || address_register(i.memory_index()) == reg;
            if writes(used.access()) && !in_address && !d.writes.iter().any(|w| w.1 == reg) {
                d.writes.push((fixed(reg), reg));
            }
            // An operand that is only written may be read implicitly, as in `mulx rax, rdx, rcx`.
            if reads(used.access()) && !in_address && !masks && !d.reads.iter().any(|r| r.1 == reg) {
                d.reads.push((fixed(reg), reg));
            }
            continue;
        }
        if reads(used.access()) && !masks {
            d.reads.push((fixed(reg), reg));
        }
        if writes(used.access()) {
            // A gather or a scatter clears its mask.
            d.writes.push((if masks { MASK } else { fixed(reg) }, reg));
        }
    }
    let is_lea = i.mnemonic() == Mnemonic::Lea;
    let is_nop = matches!(i.mnemonic(), Mnemonic::Nop);
    let unread = |m: &UsedMemory| m.access() == OpAccess::NoMemAccess;
    // A prefetch needs its address as well.
    if is_lea || !is_nop && has_memory && info.used_memory().iter().all(unread) {
        let base = (MEM, address_register(i.memory_base()));
        let index = (INDEX, address_register(i.memory_index()));
        for (label, r) in [base, index] {
            if r != NO_REG && !d.reads.iter().any(|x| x.0 >= MEM && x.1 == r) {
                d.reads.push((label, r));
            }
        }
        if is_lea {
            lea_effect(i, &mut d);
        }
    } else if !is_nop {
        for m in info.used_memory() {
            let base = address_register(m.base());
            let stack =
                base == RSP && d.stack != 0 && (!has_memory || i.memory_base().full_register() != Register::RSP);
            let disp = if stack && writes(m.access()) {
                d.stack
            } else {
                m.displacement() as i64
            };
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
    matches!(
        access,
        OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
    )
}

/// The number of 32-bit constants in an instruction's code; those of a nop do not count.
fn constants(i: &Instruction) -> u8 {
    if matches!(i.mnemonic(), Mnemonic::Nop) {
        return 0;
    }
    let operands = (0..i.op_count()).map(|n| match i.op_kind(n) {
        OpKind::Memory => u8::from(i.memory_displ_size() > 0),
        OpKind::Immediate64 => 2,
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => 1,
        _ => u8::from(i.try_immediate(n).is_ok()),
    });
    operands.sum()
}

/// Whether an instruction's only constant has 8 bits.
fn short_constant(i: &Instruction) -> bool {
    let short = |n| match i.op_kind(n) {
        OpKind::Memory => i.memory_displ_size() == 1,
        OpKind::Immediate8 | OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => true,
        OpKind::NearBranch64 => i.is_jcc_short() || i.is_jmp_short() || i.is_loop() || i.is_jcx_short(),
        _ => false,
    };
    constants(i) == 1 && (0..i.op_count()).any(short)
}

/// Whether an immediate does not fit in 16 bits.
fn wide_immediate(i: &Instruction) -> bool {
    let immediates = (0..i.op_count()).filter_map(|n| i.try_immediate(n).ok());
    immediates.map(|v| v as i64).any(|v| i16::try_from(v).is_err())
}

/// The part that the upper halves of vector registers 0 to 15 take; the others have no legacy instructions.
fn upper_halves(i: &Instruction, info: &InstructionInfo) -> UpperHalves {
    if matches!(i.mnemonic(), Mnemonic::Vzeroupper | Mnemonic::Vzeroall) {
        return UpperHalves::Clears;
    }
    let vector = |register: Register| register.is_vector_register() && register.number() < 16;
    if i.code().encoding() == EncodingKind::Legacy {
        let mut used = info.used_registers().iter();
        let keeps = used.any(|used| vector(used.register()) && writes(used.access()));
        return if keeps { UpperHalves::Keeps } else { UpperHalves::None };
    }
    let operands = || (0..i.op_count()).filter(|n| i.op_kind(*n) == OpKind::Register);
    let wide = operands().any(|n| !i.op_register(n).is_xmm() && i.op_register(n).is_vector_register());
    let written = operands().any(|n| vector(i.op_register(n)) && writes(info.op_access(n)));
    // A general register gets its value from a lower half.
    let moved_out = !wide && operands().any(|n| i.op_register(n).is_gpr() && writes(info.op_access(n)));
    if written && wide {
        UpperHalves::Writes
    } else if operands().any(|n| vector(i.op_register(n))) && !moved_out {
        UpperHalves::Uses
    } else {
        UpperHalves::None
    }
}

/// Note how an instruction uses a register with a high byte: that one, or more than the low one.
fn whole_and_high(i: &Instruction, register: Register, access: OpAccess, d: &mut Decoded) {
    let Some(reg) = number(register).filter(|_| register.full_register().is_gpr()) else {
        return;
    };
    let operand = (0..i.op_count()).find(|n| i.op_kind(*n) == OpKind::Register && i.op_register(*n) == register);
    let high = matches!(register, Register::AH | Register::CH | Register::DH | Register::BH);
    // What cbw writes is ax, though al stays.
    if high && (operand.is_some() || matches!(i.mnemonic(), Mnemonic::Lahf | Mnemonic::Sahf)) {
        d.high.push(HighByte {
            label: operand.map_or(fixed(reg), |n| n as u8),
            reg,
            read: reads(access),
            written: writes(access),
        });
    } else if reg < 4 && (high || !register.is_gpr8()) {
        let part = (high || register.is_gpr16()) && writes(access);
        d.whole_reads |= u8::from(reads(access) || part) << reg;
        d.whole_writes |= u8::from(writes(access)) << reg;
    }
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
    if matches!(
        i.mnemonic(),
        Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar | Mnemonic::Rol | Mnemonic::Ror
    ) && i.op_count() == 2
        && i.op_kind(1) == OpKind::Register
        && !d.reads.iter().any(|r| r.0 == FLAGS)
    {
        d.reads.push((FLAGS, CARRY));
        d.reads.push((FLAGS, ARITH));
    }
}
