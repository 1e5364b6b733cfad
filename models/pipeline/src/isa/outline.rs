//! The outline of code, without simulation: its last instruction, where control leaves it,
//! and which extensions of the instruction set it needs.

use crate::isa::Isa;
use disarm64::{decoder, InsnOpcode};
use disarm64_defn::{InsnClass, InsnFeatureSet};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use std::collections::BTreeSet;

/// An outline of a block of code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Its last instruction is a direct branch, conditional or not.
    pub ends_in_branch: bool,
    /// No call, return, indirect jump or repeated string instruction is in it.
    pub straight: bool,
    /// The extensions that its instructions need, as the decoders call them.
    pub extensions: BTreeSet<String>,
}

/// Outline a block.
///
/// # Errors
/// The first byte that starts no whole instruction.
pub fn outline(isa: Isa, code: &[u8]) -> Result<Outline, usize> {
    match isa {
        Isa::X86 => x86(code),
        Isa::Arm64 => arm64(code),
    }
}

fn x86(code: &[u8]) -> Result<Outline, usize> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut i = Instruction::default();
    let mut found = Outline {
        straight: true,
        ..Outline::default()
    };
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut i);
        if i.is_invalid() {
            return Err(at);
        }
        let branch = matches!(
            i.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        found.ends_in_branch = branch;
        found.straight &= branch || i.flow_control() == FlowControl::Next;
        found.straight &= !(i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix()));
        if !nop_elsewhere(i.mnemonic()) {
            let needed = i.cpuid_features().iter().map(|f| format!("{f:?}"));
            found.extensions.extend(needed);
        }
    }
    Ok(found)
}

/// Instructions in encodings that cores without them run as a nop.
fn nop_elsewhere(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Endbr32
            | Mnemonic::Endbr64
            | Mnemonic::Rdsspd
            | Mnemonic::Rdsspq
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
            | Mnemonic::Prefetchit0
            | Mnemonic::Prefetchit1
            | Mnemonic::Cldemote
    )
}

fn arm64(code: &[u8]) -> Result<Outline, usize> {
    let mut found = Outline {
        straight: true,
        ..Outline::default()
    };
    for (n, bytes) in code.chunks(4).enumerate() {
        let word = <[u8; 4]>::try_from(bytes).map_err(|_| 4 * n)?;
        let word = u32::from_le_bytes(word);
        let opcode = decoder::decode(word).ok_or(4 * n)?;
        let definition = opcode.definition();
        let link = word & 0xfc00_0000 == 0x9400_0000;
        let branch = match definition.class {
            InsnClass::BRANCH_IMM => !link,
            InsnClass::CONDBRANCH | InsnClass::COMPBRANCH | InsnClass::TESTBRANCH => true,
            _ => false,
        };
        found.ends_in_branch = branch;
        found.straight &= !link && definition.class != InsnClass::BRANCH_REG;
        if !is_hint(word) && definition.feature_set != InsnFeatureSet::V8 {
            found.extensions.insert(format!("{:?}", definition.feature_set));
        }
    }
    Ok(found)
}

/// Hints that a core does not know are nops: `bti`, `paciasp`, `esb` and the like.
fn is_hint(word: u32) -> bool {
    word & 0xffff_f01f == 0xd503_201f
}
