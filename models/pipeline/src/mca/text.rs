//! The text of instructions, as an assembler reads them.

use crate::isa::inst::Decoded;
use crate::isa::Isa;
use crate::mca::flags::Flags;
use crate::mca::region::Region;
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, IntelFormatter};
use iced_x86::{SymbolResolver, SymbolResult};
use std::collections::BTreeMap;

/// The address of a region while its instructions are written: labels before it have addresses, too.
const BASE: u64 = 1 << 32;

/// Names of places, for the formatter.
struct Labels(BTreeMap<u64, String>);

impl SymbolResolver for Labels {
    fn symbol(&mut self, _: &Instruction, _: u32, _: Option<u32>, address: u64, _: u32) -> Option<SymbolResult<'_>> {
        let name = self.0.get(&address)?;
        Some(SymbolResult::with_str(address, name.as_str()))
    }
}

/// The text of each instruction of a region: mnemonic, tab, operands.
pub fn lines(flags: &Flags, isa: Isa, region: &Region, instructions: &[Decoded]) -> Vec<String> {
    match isa {
        Isa::X86 => x86(flags, region),
        Isa::Arm64 => instructions.iter().map(|d| arm64(region, d)).collect(),
    }
}

fn x86(flags: &Flags, region: &Region) -> Vec<String> {
    let named = region.labels.iter();
    let labels = || {
        Labels(
            named
                .clone()
                .map(|(at, name)| (BASE.wrapping_add_signed(*at), name.clone()))
                .collect(),
        )
    };
    let mut formatter: Box<dyn Formatter> = match flags.intel_output {
        true => Box::new(IntelFormatter::with_options(Some(Box::new(labels())), None)),
        false => Box::new(GasFormatter::with_options(Some(Box::new(labels())), None)),
    };
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_gas_show_mnemonic_size_suffix(true);
    options.set_show_branch_size(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_small_hex_numbers_in_decimal(!flags.hex);
    if !flags.hex {
        options.set_number_base(iced_x86::NumberBase::Decimal);
    }
    let mut lines = Vec::new();
    for instruction in Decoder::with_ip(64, &region.code, BASE, DecoderOptions::NONE).iter() {
        let mut line = String::new();
        formatter.format(&instruction, &mut line);
        lines.push(line.replacen(' ', "\t", 1));
    }
    lines
}

fn arm64(region: &Region, d: &Decoded) -> String {
    let at = d.offset as usize;
    let word = region.code.get(at..at + 4).and_then(|b| b.first_chunk::<4>());
    let word = word.map_or(0, |b| u32::from_le_bytes(*b));
    let mut line = String::new();
    let known = disarm64::decoder::decode(word);
    let written = known.map(|o| disarm64::format_insn::format_insn_pc(BASE + u64::from(d.offset), &mut line, &o));
    if !matches!(written, Some(Ok(()))) {
        return format!(".inst\t{word:#010x}");
    }
    let line = line
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replacen(' ', "\t", 1);
    let names = region.labels.iter();
    let mut named = names.map(|(at, name)| (format!("{:#x}", BASE.wrapping_add_signed(*at)), name));
    let found = named.rfind(|(address, _)| line.ends_with(address.as_str()));
    found.map_or(line.clone(), |(address, name)| line.replace(&address, name))
}
