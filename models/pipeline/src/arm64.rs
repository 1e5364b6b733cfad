//! AArch64 decoding: the decoder names the instruction, we know its use of registers.

use crate::arm64_form::form_name;
use crate::error::Error;
use crate::figures::{kind_mask, Label, FLAGS, MEM};
use crate::inst::{Branch, Decoded, Effect, Mem, Reg, Special, CARRY, NO_REG, VECTOR};
use disarm64::{Insn, InsnOpcode};
use disarm64_defn::{InsnClass, InsnOperandKind};

/// Bits `low .. low + count` of an instruction word.
pub fn field(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

fn signed(value: u32, bits: u32) -> i64 {
    let shift = 64 - bits;
    i64::from(value) << shift >> shift
}

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first word that is no instruction.
pub fn decode(code: &[u8]) -> Result<Vec<Decoded>, Error> {
    let mut out = Vec::with_capacity(code.len() / 4);
    for (n, bytes) in code.chunks(4).enumerate() {
        let at = n * 4;
        let Ok(bytes) = <[u8; 4]>::try_from(bytes) else { return Err(Error::Decode(at)) };
        let word = u32::from_le_bytes(bytes);
        let opcode = disarm64::decoder::decode(word).ok_or(Error::Decode(at))?;
        out.push(describe(word, opcode.definition(), at));
    }
    Ok(out)
}

fn describe(word: u32, definition: &Insn, at: usize) -> Decoded {
    let mut d = Decoded {
        offset: at as u32,
        len: 4,
        opcode_at: 0,
        lcp: false,
        wide_immediate: false,
        reads: Vec::with_capacity(4),
        writes: Vec::with_capacity(3),
        mems: Vec::new(),
        branch: branch_of(definition.class, definition.mnemonic),
        effects: Vec::new(),
        same: false,
        stack: 0,
        explicit_sp: false,
        rename_add: None,
        has_immediate: false,
        ip_relative: false,
        compares: false,
        form: String::new(),
        special: Special::No,
        locked: false,
        awkward_pop: false,
    };
    for (n, operand) in definition.operands.iter().enumerate() {
        register(word, definition, operand.kind, n as Label, &mut d);
    }
    memory(word, definition, &mut d);
    flags(definition, &mut d);
    effect(word, definition, &mut d);
    d.compares = matches!(definition.mnemonic, "subs" | "ands" | "adds") && field(word, 0, 5) == 31;
    d.form = form_name(word, definition);
    d
}

fn general(number: u32) -> Reg {
    if number == 31 {
        NO_REG
    } else {
        number as Reg
    }
}

fn register(word: u32, definition: &Insn, kind: InsnOperandKind, label: Label, d: &mut Decoded) {
    use InsnOperandKind as K;
    let store = definition.mnemonic.starts_with("st") || definition.mnemonic.starts_with("cb")
        || definition.mnemonic.starts_with("tb");
    let (reg, write) = match kind {
        K::Rd => (general(field(word, 0, 5)), true),
        K::Rd_SP => (field(word, 0, 5) as Reg, true),
        K::Rn => (general(field(word, 5, 5)), false),
        K::Rn_SP => (field(word, 5, 5) as Reg, false),
        K::Rm | K::Rm_SFT | K::Rm_EXT => (general(field(word, 16, 5)), false),
        K::Ra => (general(field(word, 10, 5)), false),
        K::Rt => (general(field(word, 0, 5)), !store),
        K::Rt2 => (general(field(word, 10, 5)), !store),
        K::Rs => (general(field(word, 16, 5)), definition.mnemonic.starts_with("st")),
        K::Ft => (VECTOR + field(word, 0, 5) as Reg, !store),
        K::Ft2 => (VECTOR + field(word, 10, 5) as Reg, !store),
        K::Fd | K::Vd | K::Sd => (VECTOR + field(word, 0, 5) as Reg, true),
        K::Fn | K::Vn | K::Sn => (VECTOR + field(word, 5, 5) as Reg, false),
        K::Fm | K::Vm | K::Sm => (VECTOR + field(word, 16, 5) as Reg, false),
        K::Fa => (VECTOR + field(word, 10, 5) as Reg, false),
        _ => return,
    };
    if reg == NO_REG {
        return;
    }
    if write {
        d.writes.push((label, reg));
        if matches!(definition.mnemonic, "movk" | "bfm" | "fmla" | "fmls" | "mla" | "mls" | "bsl" | "bit" | "bif") {
            d.reads.push((label, reg));
        }
    } else {
        d.reads.push((label, reg));
    }
}

/// Bytes of one register of a load or store.
fn access_bytes(word: u32, definition: &Insn) -> u16 {
    let vector = field(word, 26, 1) == 1;
    let size = field(word, 30, 2);
    let pair = matches!(
        definition.class,
        InsnClass::LDSTPAIR_OFF | InsnClass::LDSTPAIR_INDEXED | InsnClass::LDSTNAPAIR_OFFS
    );
    match (pair, vector) {
        (true, true) => 4 << size.min(2),
        (true, false) => if size == 2 { 8 } else { 4 },
        (false, true) => if field(word, 23, 1) == 1 { 16 } else { 1 << size },
        (false, false) => 1 << size,
    }
}

fn memory(word: u32, definition: &Insn, d: &mut Decoded) {
    use InsnClass as C;
    let name = definition.mnemonic;
    let (read, write) = (name.starts_with("ld"), name.starts_with("st"));
    let bytes = access_bytes(word, definition);
    let base = field(word, 5, 5) as Reg;
    let mut mem = Mem { base, index: NO_REG, scale: 1, disp: 0, bytes, read, write, stack: false };
    let mut writeback = None;
    match definition.class {
        C::LDST_POS => mem.disp = i64::from(field(word, 10, 12)) * i64::from(bytes),
        C::LDST_UNSCALED | C::LDST_UNPRIV => mem.disp = signed(field(word, 12, 9), 9),
        C::LDST_IMM9 => {
            let offset = signed(field(word, 12, 9), 9);
            writeback = Some(offset);
            mem.disp = if field(word, 10, 2) == 3 { offset } else { 0 };
        }
        C::LDST_REGOFF => {
            mem.index = general(field(word, 16, 5));
            mem.scale = if field(word, 12, 1) == 1 { bytes.min(16) as u8 } else { 1 };
        }
        C::LDSTPAIR_OFF | C::LDSTNAPAIR_OFFS | C::LDSTPAIR_INDEXED => {
            let offset = signed(field(word, 15, 7), 7) * i64::from(bytes);
            mem.bytes = 2 * bytes;
            mem.disp = offset;
            if definition.class == C::LDSTPAIR_INDEXED {
                writeback = Some(offset);
                if field(word, 23, 2) == 1 {
                    mem.disp = 0;
                }
            }
        }
        C::LOADLIT => {
            mem.base = NO_REG;
            mem.disp = signed(field(word, 5, 19), 19) * 4;
        }
        C::LDSTEXCL | C::ASISDLSE | C::ASISDLSO => {}
        _ => return,
    }
    if name.starts_with("prf") {
        mem.read = true;
    }
    d.mems.push(mem);
    if let Some(add) = writeback {
        d.reads.push((MEM, base));
        d.writes.push((6, base));
        d.effects.push(Effect::Offset { to: base, from: base, add });
    }
}

fn flags(definition: &Insn, d: &mut Decoded) {
    use InsnClass as C;
    let name = definition.mnemonic;
    let sets = matches!(name, "adds" | "subs" | "ands" | "bics" | "adcs" | "sbcs" | "fcmp" | "fcmpe" | "ccmp" | "ccmn");
    let uses = matches!(name, "adc" | "sbc" | "adcs" | "sbcs" | "ccmp" | "ccmn" | "b.c" | "fcsel")
        || matches!(definition.class, C::CONDSEL | C::CONDBRANCH);
    if uses {
        d.reads.push((FLAGS, CARRY));
    }
    if sets {
        d.writes.push((FLAGS, CARRY));
    }
}

/// Constant additions and moves, for addresses.
fn effect(word: u32, definition: &Insn, d: &mut Decoded) {
    let (rd, rn) = (field(word, 0, 5), field(word, 5, 5));
    match definition.class {
        InsnClass::ADDSUB_IMM if field(word, 31, 1) == 1 && d.writes.iter().any(|w| w.0 == 0) => {
            let value = i64::from(field(word, 10, 12)) << (12 * field(word, 22, 1));
            let add = if field(word, 30, 1) == 1 { -value } else { value };
            d.has_immediate = true;
            d.effects.push(Effect::Offset { to: rd as Reg, from: rn as Reg, add });
        }
        InsnClass::LOG_SHIFT if definition.mnemonic == "orr" && rn == 31 && field(word, 10, 6) == 0 => {
            let from = field(word, 16, 5);
            if rd != 31 && from != 31 {
                d.effects.push(Effect::Offset { to: rd as Reg, from: from as Reg, add: 0 });
            }
        }
        _ => {}
    }
}

fn branch_of(class: InsnClass, name: &str) -> Branch {
    match class {
        InsnClass::CONDBRANCH | InsnClass::COMPBRANCH | InsnClass::TESTBRANCH => {
            Branch::Conditional(kind_mask("z").trailing_zeros() as u8)
        }
        InsnClass::BRANCH_IMM | InsnClass::BRANCH_REG => Branch::Always,
        _ if name.starts_with("b.") => Branch::Conditional(kind_mask("z").trailing_zeros() as u8),
        _ => Branch::No,
    }
}
