//! The code of an ELF object.

use crate::isa::Isa;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

/// The code of an object: its sections of instructions, and names of places in them.
pub struct Code {
    /// Index and bytes of each section.
    pub sections: Vec<(object::SectionIndex, Vec<u8>)>,
    /// Names, their sections, and their offsets there.
    pub symbols: Vec<(String, object::SectionIndex, u64)>,
}

/// The instructions and names of an object.
///
/// # Errors
/// It is no whole ELF object, or of another instruction set.
pub fn code_of(bytes: &[u8], isa: Isa) -> Result<Code, String> {
    let file = object::File::parse(bytes).map_err(|e| format!("not a whole ELF object: {e}"))?;
    let found = match file.architecture() {
        object::Architecture::X86_64 => Isa::X86,
        object::Architecture::Aarch64 => Isa::Arm64,
        other => return Err(format!("an object of {other:?}; x86-64 and AArch64 are known")),
    };
    if found != isa {
        return Err("its instruction set is not that of the core that -mcpu names".into());
    }
    let mut code = Code {
        sections: Vec::new(),
        symbols: Vec::new(),
    };
    for section in file
        .sections()
        .filter(|s| s.kind() == SectionKind::Text && s.size() > 0)
    {
        let data = section.data().map_err(|e| format!("a section cannot be read: {e}"))?;
        code.sections.push((section.index(), data.to_vec()));
    }
    for symbol in file.symbols() {
        if let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) {
            if !name.is_empty() && !name.starts_with('$') {
                let base = file.section_by_index(section).map_or(0, |s| s.address());
                code.symbols
                    .push((name.to_string(), section, symbol.address().wrapping_sub(base)));
            }
        }
    }
    Ok(code)
}

/// The instruction set of an object, where it is one that is known.
pub fn set(bytes: &[u8]) -> Option<Isa> {
    match object::File::parse(bytes).ok()?.architecture() {
        object::Architecture::X86_64 => Some(Isa::X86),
        object::Architecture::Aarch64 => Some(Isa::Arm64),
        _ => None,
    }
}
