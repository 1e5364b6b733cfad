//! Names of x86 instruction forms in the table of figures.

use iced_x86::{Instruction, Mnemonic, OpCodeOperandKind, OpKind, Register};
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::OnceLock;

fn mnemonic_names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| Mnemonic::values().map(|m| format!("{m:?}").to_lowercase()).collect())
}

fn mnemonic_name(mnemonic: Mnemonic) -> &'static str {
    mnemonic_names().get(mnemonic as usize).map_or("", String::as_str)
}

/// Whether a word is a mnemonic, as forms have it.
pub fn is_mnemonic(word: &str) -> bool {
    static KNOWN: OnceLock<HashSet<&str>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| mnemonic_names().iter().map(String::as_str).collect());
    known.contains(word)
}

/// Name of the form of an instruction, for example `add r64,i8`.
pub fn form_name(i: &Instruction) -> String {
    let mut name = String::with_capacity(24);
    name.push_str(mnemonic_name(i.mnemonic()));
    if i.has_lock_prefix() {
        name.push_str(".lock");
    }
    if i.is_string_instruction() && i.op_code().instruction_string().len() < 40 {
        if i.has_repne_prefix() {
            name.push_str(".repne");
            return name;
        }
        if i.has_rep_prefix() {
            name.push_str(".rep");
            return name;
        }
        if !(i.op_count() > 0 && i.op_kind(0) == OpKind::Register && i.op0_register().is_xmm()) {
            return name;
        }
    }
    let is_lea = i.mnemonic() == Mnemonic::Lea;
    if is_lea {
        lea_pattern(i, &mut name);
    }
    let mut separator = ' ';
    for n in 0..i.op_count() {
        if is_lea && n == 1 {
            break;
        }
        // The implicit mask register of the legacy blends is not part of the form.
        if i.op_code().op_kind(n) == OpCodeOperandKind::xmm_reg
            && i.op_kind(n) == OpKind::Register
            && n == 2
            && !i.op_code().mnemonic_is_vex(i)
        {
            continue;
        }
        name.push(separator);
        separator = ',';
        operand(i, n, &mut name);
        if n == 0 && i.has_op_mask() {
            name.push_str(if i.zeroing_masking() { "{kz}" } else { "{k}" });
        }
    }
    name
}

trait IsVex {
    fn mnemonic_is_vex(&self, i: &Instruction) -> bool;
}

impl IsVex for iced_x86::OpCodeInfo {
    fn mnemonic_is_vex(&self, i: &Instruction) -> bool {
        i.encoding() != iced_x86::EncodingKind::Legacy
    }
}

fn lea_pattern(i: &Instruction, name: &mut String) {
    name.push('.');
    let (base, index) = (i.memory_base(), i.memory_index());
    if base.is_ip() {
        name.push_str("rd");
        return;
    }
    let has_base = base != Register::None;
    if has_base {
        name.push('b');
    }
    if index != Register::None {
        name.push('i');
        if i.memory_index_scale() != 1 {
            name.push('s');
        }
    }
    if !has_base || i.memory_displ_size() != 0 {
        name.push('d');
    }
}

fn operand(i: &Instruction, n: u32, name: &mut String) {
    match i.op_kind(n) {
        OpKind::Register => register(i, n, name),
        OpKind::Memory => {
            let prefetch = matches!(
                i.mnemonic(),
                Mnemonic::Prefetchnta
                    | Mnemonic::Prefetcht0
                    | Mnemonic::Prefetcht1
                    | Mnemonic::Prefetcht2
                    | Mnemonic::Prefetchw
            );
            let bits = if prefetch {
                512
            } else {
                (i.memory_size().size() * 8).max(8)
            };
            let _ = write!(name, "m{bits}");
            if i.is_broadcast() {
                name.push('b');
            }
            // Gathers and scatters: what holds the indices.
            let index = i.memory_index();
            if index.is_vector_register() {
                register_kind(index, name);
            }
        }
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => name.push_str("rel"),
        OpKind::Immediate8 | OpKind::Immediate8_2nd if i.op_code().op_kind(n) == OpCodeOperandKind::imm8_const_1 => {
            name.push('1');
        }
        OpKind::Immediate8
        | OpKind::Immediate8_2nd
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
            if i.immediate(n) == 0 =>
        {
            name.push('0');
        }
        OpKind::Immediate8
        | OpKind::Immediate8_2nd
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64 => name.push_str("i8"),
        OpKind::Immediate16 => name.push_str("i16"),
        OpKind::Immediate32 | OpKind::Immediate32to64 => name.push_str("i32"),
        OpKind::Immediate64 => name.push_str("i64"),
        _ => name.push_str("m8"),
    }
}

fn register(i: &Instruction, n: u32, name: &mut String) {
    let token = match i.op_code().op_kind(n) {
        OpCodeOperandKind::al => "al",
        OpCodeOperandKind::ax => "ax",
        OpCodeOperandKind::eax => "eax",
        OpCodeOperandKind::rax => "rax",
        OpCodeOperandKind::cl => "cl",
        OpCodeOperandKind::dx => "dx",
        _ => {
            register_kind(i.op_register(n), name);
            return;
        }
    };
    name.push_str(token);
}

fn register_kind(r: Register, name: &mut String) {
    name.push_str(
        if matches!(r, Register::AH | Register::BH | Register::CH | Register::DH) {
            "r8h"
        } else if r.is_gpr8() {
            "r8"
        } else if r.is_gpr16() {
            "r16"
        } else if r.is_gpr32() {
            "r32"
        } else if r.is_gpr64() {
            "r64"
        } else if r.is_xmm() {
            "x"
        } else if r.is_ymm() {
            "y"
        } else if r.is_zmm() {
            "z"
        } else if r.is_mm() {
            "mm"
        } else if r.is_k() {
            "k"
        } else if r.is_segment_register() {
            "seg"
        } else {
            "other"
        },
    );
}
