//! The forms of AArch64 that compute in registers, or load and store, found by asking the decoder
//! for all that it knows: each with a word of code, and where in the word its registers stand.

use crate::isa::arm64::accessed::{accessed, Access};
use crate::isa::arm64::describe;
use crate::isa::inst::{Branch, Decoded, Reg, Special, VECTOR};
use crate::isa::label::{Label, FLAGS};
use disarm64::{decoder, Insn, InsnOpcode, InsnOperand};
use disarm64_defn::{InsnBitField, InsnClass, InsnOperandClass, InsnOperandKind};
use std::collections::{BTreeMap, BTreeSet};

/// Places of registers in words: destination, sources.
const RD: u32 = 0;
const RN: u32 = 5;
const RA: u32 = 10;
const RM: u32 = 16;
/// Bits that are tried first: registers 1, 2, 3 and 4, and elsewhere no constant of zeros alone.
const FIRST: u32 = 0x5540_5441 & !(0x1f << RM | 0x3ff) | 3 << RM | 2 << RN | 1 << RD;
const ADDEND: u32 = 4;
const ZERO: u32 = 31;
/// Words of a definition that are tried for a form.
const MOST: usize = 64;

/// An operand in a register that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The key of its figures.
    pub label: Label,
    /// It is a vector register.
    pub vector: bool,
    /// Lowest bits of the fields that name it: several that have to agree.
    pub fields: Vec<u32>,
    /// The highest register that the fields can name.
    pub most: Reg,
    /// So many registers are read or written, from the one that is named on.
    pub count: usize,
    /// Is read.
    pub read: bool,
    /// Is written.
    pub written: bool,
}

/// A form, and one word of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// As the table of figures has it.
    pub name: String,
    /// The word.
    pub word: u32,
    /// Its operands in registers.
    pub operands: Vec<Operand>,
    /// Reads the flags.
    pub reads_flags: bool,
    /// Writes the flags.
    pub writes_flags: bool,
    /// Its memory access.
    pub access: Option<Access>,
}

/// Return the forms that compute in registers, load or store, by name, and the names of those of
/// which no word is allocated, has registers that fields of their own name, or moves its base on by
/// a constant. Left out are accesses by the instruction pointer, branches, what acts on the
/// system, and what the decoder refuses.
pub fn forms(mut allocated: impl FnMut(u32) -> bool) -> (Vec<Form>, Vec<String>) {
    let mut found = BTreeMap::new();
    let mut lost = BTreeSet::new();
    for definition in definitions() {
        let mut tried: BTreeMap<String, usize> = BTreeMap::new();
        let free = !definition.mask;
        let addend = definition
            .operands
            .iter()
            .flat_map(|o| o.bit_fields)
            .any(|f| f.bitfield == InsnBitField::Ra);
        let mut held = 0;
        for low in [RD, RN].iter().chain(addend.then_some(&RA)) {
            held |= if free >> low & 0x1f == 0x1f { 0x1f << low } else { 0 };
        }
        let thirds = if addend { &[ADDEND, ZERO][..] } else { &[0] };
        for source in [2, ZERO, 0] {
            for third in thirds {
                let as_named = held & (1 << RD | source << RN | third << RA);
                for word in words(definition.opcode | as_named, free & !held) {
                    let Some(d) = computes(word) else { continue };
                    let tries = tried.entry(d.form.clone()).or_default();
                    if *tries == MOST || found.contains_key(&d.form) {
                        continue;
                    }
                    *tries += 1;
                    if allocated(word) {
                        if let Some(form) = located(word, &d) {
                            found.insert(form.name.clone(), form);
                        }
                    }
                }
            }
        }
        lost.extend(tried.into_keys());
    }
    lost.retain(|name| !found.contains_key(name));
    (found.into_values().collect(), lost.into_iter().collect())
}

/// The decoder's definitions of what may compute, in the order of their words.
fn definitions() -> Vec<&'static Insn> {
    let mut found = BTreeMap::new();
    for high in 0..1u32 << 22 {
        for low in [1 << RD | 2 << RN, 2 << RN, 16 | 2 << RN, 1 << RD] {
            let Some(opcode) = decoder::decode(high << 10 | low) else {
                continue;
            };
            let definition = opcode.definition();
            if definition.class != InsnClass::IC_SYSTEM && !definition.operands.iter().any(unknown) {
                found.insert((definition.opcode, definition.mask), definition);
            }
        }
    }
    found.into_values().collect()
}

/// Whether an operand is a place in code, or a register that the simulator does not have.
fn unknown(operand: &InsnOperand) -> bool {
    use InsnOperandClass as O;
    use InsnOperandKind as K;
    let code = matches!(operand.kind, K::ADDR_PCREL14 | K::ADDR_PCREL19 | K::ADDR_PCREL26);
    let system = operand.class == O::SYSTEM && operand.kind != K::PRFOP;
    let vector = matches!(operand.class, O::PRED_REG | O::SVE_REG | O::SVE_REGLIST | O::ZA_ACCESS);
    code || system || vector
}

/// Words with all values of some bits, those of [`FIRST`] first.
fn words(fixed: u32, bits: u32) -> impl Iterator<Item = u32> {
    (0..1u32 << bits.count_ones()).map(move |n| {
        let (mut left, mut n, mut word) = (bits, n, 0);
        while left != 0 {
            let one = left & left.wrapping_neg();
            word |= if n & 1 == 1 { one } else { 0 };
            n >>= 1;
            left &= left - 1;
        }
        fixed | (word ^ FIRST & bits)
    })
}

/// The description of a word that computes in registers, loads or stores.
fn computes(word: u32) -> Option<Decoded> {
    let d = describe(word, 0).ok()?;
    let plain = d.branch == Branch::No && d.special == Special::No;
    (plain && !d.reads.is_empty() | !d.writes.is_empty()).then_some(d)
}

/// Find the fields of a word that name its registers; none where a register is named by no field.
fn located(word: u32, d: &Decoded) -> Option<Form> {
    let (word, access) = match d.mems.is_empty() {
        true => (word, None),
        false => accessed(word, computes).map(|(word, access)| (word, Some(access)))?,
    };
    let mut operands: Vec<Operand> = Vec::new();
    for fields in [&[RD][..], &[RN], &[RM], &[RA], &[RN, RM]] {
        let known = |low: &u32| operands.iter().any(|o| o.fields.contains(low));
        if fields.iter().any(known) {
            continue;
        }
        operands.extend(operand(word, d, fields));
    }
    let registers = d.reads.iter().chain(&d.writes).filter(|r| r.0 != FLAGS);
    for (label, register) in registers.clone() {
        let of = operands.iter().find(|o| o.label == *label)?;
        let first = d.reads.iter().chain(&d.writes).find(|r| r.0 == of.label)?.1;
        if register.wrapping_sub(first) as usize >= of.count {
            return None;
        }
    }
    operands.sort_by_key(|o| o.label);
    Some(Form {
        name: d.form.clone(),
        word,
        operands,
        reads_flags: d.reads.iter().any(|r| r.0 == FLAGS),
        writes_flags: d.writes.iter().any(|r| r.0 == FLAGS),
        access,
    })
}

/// The operand that some fields name: what is read or written changes with them, and nothing else.
fn operand(word: u32, d: &Decoded, fields: &[u32]) -> Option<Operand> {
    let named = |number: u32| {
        let mask = fields.iter().fold(0, |mask, low| mask | 0x1f << low);
        let value = fields.iter().fold(0, |value, low| value | number << low);
        computes(word & !mask | value).filter(|other| other.form == d.form)
    };
    let (low, high) = (named(9)?, named(10)?);
    let changed = |some: &[(Label, Reg)], others: &[(Label, Reg)]| -> Vec<Label> {
        let pairs = some.iter().zip(others).filter(|(a, b)| a.1 + 1 == b.1 && a.0 == b.0);
        pairs.map(|(a, _)| a.0).collect()
    };
    let read = changed(&low.reads, &high.reads);
    let written = changed(&low.writes, &high.writes);
    let label = *read.first().or(written.first())?;
    if read.iter().chain(&written).any(|one| *one != label) {
        return None;
    }
    let register = |d: &Decoded| d.reads.iter().chain(&d.writes).find(|r| r.0 == label).map(|r| r.1);
    let first = register(&low)?;
    let vector = first >= VECTOR;
    let base = first - 9;
    let most = named(30).and_then(|d| register(&d)).map_or(15, |r| r - base);
    Some(Operand {
        label,
        vector,
        fields: fields.into(),
        most: if most == 30 { 30 } else { 15 },
        count: read.len().max(written.len()),
        read: !read.is_empty(),
        written: !written.is_empty(),
    })
}
