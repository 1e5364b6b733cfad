//! AArch64 decoding: what an instruction reads, writes and does to addresses.
//!
//! The decoder crate tells which instruction a word is; fields and operands are
//! read here. Only instructions whose operands are known get through: for all
//! others the error names them.

pub mod accessed;
pub mod catalogue;
mod float;
pub mod flow;
pub mod integer;
pub mod memory;
#[cfg(feature = "python")]
pub mod python;
mod simd;
pub mod vector;
pub mod work;

use crate::error::Error;
use crate::isa::arm64::work::{Refused, Work};
use crate::isa::flow::Next;
use crate::isa::inst::Decoded;
use crate::isa::label::FLAGS;
use disarm64::{decoder, InsnOpcode};
use disarm64_defn::{InsnClass, InsnOperandClass as O};
use InsnClass as C;

/// Decode a whole block.
///
/// # Errors
/// [`Error::Decode`] at the first word that is no instruction, [`Error::Unknown`]
/// with the name of an instruction whose operands are not known.
pub fn decode(code: &[u8]) -> Result<Vec<Decoded>, Error> {
    let mut out = Vec::with_capacity(code.len() / 4);
    for (n, bytes) in code.chunks(4).enumerate() {
        let word = <[u8; 4]>::try_from(bytes).map_err(|_| Error::Decode(4 * n))?;
        out.push(describe(u32::from_le_bytes(word), 4 * n)?);
    }
    Ok(out)
}

/// Decode the instruction at a place in code.
///
/// # Errors
/// [`Error::Decode`] if none starts there, [`Error::Unknown`] if its operands are not known.
pub fn decode_at(code: &[u8], at: usize) -> Result<(Decoded, Next), Error> {
    let bytes = code.get(at..).and_then(|b| b.first_chunk::<4>());
    let word = u32::from_le_bytes(*bytes.filter(|_| at % 4 == 0).ok_or(Error::Decode(at))?);
    let d = describe(word, at)?;
    let next = flow::next(word, at as i64, d.branch);
    Ok((d, next))
}

fn describe(word: u32, at: usize) -> Result<Decoded, Error> {
    let Some(opcode) = decoder::decode(word) else {
        return Err(Error::Decode(at));
    };
    let definition = opcode.definition();
    let mut work = Work {
        word,
        mnemonic: definition.mnemonic,
        d: blank(at),
    };
    match dispatch(&mut work, definition.class) {
        Ok(()) => Ok(work.d),
        Err(Refused::Invalid) => Err(Error::Decode(at)),
        Err(Refused::Unknown) => {
            let name = flow::system_name(&work).unwrap_or(work.mnemonic);
            let sve = definition
                .operands
                .iter()
                .any(|o| matches!(o.class, O::SVE_REG | O::SVE_REGLIST | O::PRED_REG));
            Err(Error::Unknown(format!("{name}{}", if sve { " (SVE)" } else { "" })))
        }
    }
}

fn blank(at: usize) -> Decoded {
    Decoded {
        offset: at as u32,
        len: 4,
        ..Decoded::default()
    }
}

fn dispatch(w: &mut Work, class: InsnClass) -> Result<(), Refused> {
    match class {
        C::ADDSUB_IMM => integer::add_immediate(w)?,
        C::ADDSUB_SHIFT => integer::add_shifted(w)?,
        C::ADDSUB_EXT => integer::add_extended(w)?,
        C::ADDSUB_CARRY => integer::add_carry(w)?,
        C::LOG_IMM => integer::logic_immediate(w)?,
        C::LOG_SHIFT => integer::logic_shifted(w)?,
        C::MOVEWIDE => integer::move_wide(w)?,
        C::PCRELADDR => {
            w.write(0, 0);
            w.name("x,i");
        }
        C::BITFIELD => integer::bitfield(w)?,
        C::EXTRACT => integer::extract(w)?,
        C::DP_1SRC => integer::one_source(w)?,
        C::DP_2SRC => integer::two_sources(w)?,
        C::DP_3SRC => integer::three_sources(w)?,
        C::CONDSEL => integer::select(w)?,
        C::CONDCMP_IMM | C::CONDCMP_REG => integer::conditional_compare(w, class == C::CONDCMP_REG)?,
        C::BRANCH_IMM | C::BRANCH_REG | C::COMPBRANCH | C::TESTBRANCH | C::CONDBRANCH => flow::branch(w)?,
        C::IC_SYSTEM => flow::system(w)?,
        C::LDST_POS | C::LDST_UNSCALED | C::LDST_UNPRIV | C::LDST_IMM9 | C::LDST_REGOFF => memory::single(w, class)?,
        C::LOADLIT => memory::literal(w)?,
        C::LDSTPAIR_OFF | C::LDSTPAIR_INDEXED | C::LDSTNAPAIR_OFFS => memory::pair(w)?,
        _ => vector::describe(w, class)?,
    }
    let d = &mut w.d;
    d.compares = d.mems.is_empty() && d.writes.len() == 1 && d.writes[0].0 == FLAGS;
    Ok(())
}
