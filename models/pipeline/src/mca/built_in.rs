//! Assembly text made code without another program.

use crate::isa::Isa;
use crate::mca::att;
use crate::mca::elf::Code;
use crate::mca::flags::Flags;
use asm_rs::{Arch, Assembler, OptLevel};
use object::SectionIndex;

/// Directives that make code or move it.
const KEPT: [&str; 12] = [
    ".byte", ".2byte", ".4byte", ".8byte", ".short", ".word", ".long", ".quad", ".align", ".balign", ".p2align",
    ".inst",
];

/// The stand-in for the `.L` of a label while it is assembled.
const LOCAL: &str = "_L_";

/// A line as the assembler takes it: without comments and other directives, in its syntax.
fn line(text: &str, isa: Isa, att: bool) -> Result<String, String> {
    let comment = match isa {
        Isa::X86 => text.find('#'),
        Isa::Arm64 => text.find("//"),
    };
    let mut left = text[..comment.unwrap_or(text.len())].trim();
    let mut out = String::new();
    while let Some((label, rest)) = left.split_once(':') {
        let plain = |c: char| c.is_alphanumeric() || "._$".contains(c);
        if label.is_empty() || !label.chars().all(plain) || att && label.contains('%') {
            break;
        }
        out.push_str(&format!("{label}: "));
        left = rest.trim();
    }
    let word = left.split_whitespace().next().unwrap_or("");
    if word.starts_with('.') && !KEPT.contains(&word) {
        return Ok(out);
    }
    if !att || left.is_empty() || word.starts_with('.') {
        out.push_str(left);
    } else {
        out.push_str(&att::intel(left)?);
    }
    Ok(out)
}

/// Assemble a text, of x86 in AT&T syntax where a `%` is in it, else in Intel's.
///
/// # Errors
/// The assembler refuses it: one line with the number of the line in the text.
pub fn assembled(_: &Flags, isa: Isa, text: &str) -> Result<Code, String> {
    // A name that begins with a dot would be a directive.
    let text = text.replace(".L", LOCAL);
    let att = isa == Isa::X86 && text.contains('%');
    let mut source = String::new();
    for (number, one) in (1..).zip(text.lines()) {
        let one = line(one, isa, att).map_err(|why| format!("line {number}: {why}"))?;
        source.push_str(&one);
        source.push('\n');
    }
    let mut assembler = Assembler::new(match isa {
        Isa::X86 => Arch::X86_64,
        Isa::Arm64 => Arch::Aarch64,
    });
    assembler.optimize(OptLevel::None);
    let done = assembler
        .emit(&source)
        .map(|_| ())
        .and_then(|()| assembler.finish())
        .map_err(|e| in_line(&e.to_string()))?;
    let section = SectionIndex(1);
    let symbols = done.labels().iter();
    Ok(Code {
        symbols: symbols
            .map(|(name, at)| (name.replace(LOCAL, ".L"), section, *at))
            .collect(),
        sections: vec![(section, done.into_bytes())],
    })
}

/// The message of an assembler, its `line:column:` in words.
fn in_line(said: &str) -> String {
    let said = said.replace(LOCAL, ".L");
    let mut parts = said.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(line), Some(column), Some(rest)) if line.parse::<u32>().is_ok() && column.parse::<u32>().is_ok() => {
            format!("line {line}:{rest}")
        }
        _ => said,
    }
}
