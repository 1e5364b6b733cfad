//! The regions of an input: assembly text or an ELF object, with the markers of llvm-mca, OSACA and
//! IACA; machine code in hex; or a listing of objdump.

use crate::isa::flow::Next;
use crate::isa::{self, Isa};
use crate::mca::elf::{code_of, Code};
use crate::mca::flags::Flags;
use crate::mca::listed;
use crate::mca::region::Region;
use object::SectionIndex;
use std::io::Read;

/// The content of an input.
#[derive(Clone, Debug)]
pub struct Input {
    /// Regions in the order of the input.
    pub regions: Vec<Region>,
    /// Lines that the user should know.
    pub notes: String,
}

/// A region's ends in a text: names of labels that are put there.
struct Marked {
    name: String,
    begin: String,
    end: Option<String>,
}

const LABEL: &str = "loopwright_mca_";

/// IACA's and OSACA's marker instructions: the bytes before a region, and those behind it.
const X86_MARKERS: ([u8; 8], [u8; 8]) = (
    [0xbb, 111, 0, 0, 0, 0x64, 0x67, 0x90],
    [0xbb, 222, 0, 0, 0, 0x64, 0x67, 0x90],
);
/// OSACA's on AArch64: `mov x1, #111` and a word of bytes 213, 3, 32, 31.
const ARM64_MARKERS: ([u8; 8], [u8; 8]) = (
    [0xe1, 0x0d, 0x80, 0xd2, 213, 3, 32, 31],
    [0xc1, 0x1b, 0x80, 0xd2, 213, 3, 32, 31],
);

/// Read the regions of the input that the flags name.
///
/// # Errors
/// The file cannot be read, the assembler refuses the text, or there is no region: one line.
pub fn read(flags: &Flags, isa: Isa, stdin: &mut dyn Read) -> Result<Input, String> {
    let (name, mut bytes) = (&flags.file, Vec::new());
    if name == "-" {
        stdin
            .read_to_end(&mut bytes)
            .map_err(|e| format!("standard input: {e}"))?;
    } else {
        bytes = std::fs::read(name).map_err(|e| format!("{name}: {}", plain(&e)))?;
    }
    let called = if name == "-" { "standard input" } else { name };
    let regions = regions(flags, isa, bytes).map_err(|why| format!("{called}: {why}"))?;
    let mut notes = String::new();
    let regions = regions.into_iter().map(|region| trimmed(region, isa, &mut notes));
    Ok(Input {
        regions: regions.collect(),
        notes,
    })
}

/// The regions of an input's bytes.
///
/// # Errors
/// The assembler refuses the text, or there is no region: one line.
pub fn regions(flags: &Flags, isa: Isa, bytes: Vec<u8>) -> Result<Vec<Region>, String> {
    let mut regions = if bytes.starts_with(b"\x7fELF") {
        whole(&code_of(&bytes, isa)?, isa)
    } else {
        let text = String::from_utf8(bytes).map_err(|_| "neither text nor an ELF object")?;
        match listed::regions(&text, isa)? {
            Some(regions) => regions,
            None if text.trim().is_empty() => Vec::new(),
            None => of_assembly(flags, isa, &text)?,
        }
    };
    regions.retain(|region| !region.code.is_empty());
    if regions.is_empty() {
        return Err(
            "no instructions; the input wants assembly text, an ELF object, hex or a listing of objdump".into(),
        );
    }
    Ok(regions)
}

/// A region without the return that ends it, and from its loop on; notes say what is left out.
pub fn trimmed(region: Region, isa: Isa, notes: &mut String) -> Region {
    its_loop(without_return(region, isa, notes), isa, notes)
}

fn of_assembly(flags: &Flags, isa: Isa, text: &str) -> Result<Vec<Region>, String> {
    let (text, marked) = with_labels(text)?;
    #[cfg(not(target_family = "wasm"))]
    let code = crate::mca::assembler::assembled(flags, isa, &text)?;
    #[cfg(target_family = "wasm")]
    let code = crate::mca::built_in::assembled(flags, isa, &text)?;
    match marked.is_empty() {
        true => Ok(whole(&code, isa)),
        false => between_labels(&code, &marked),
    }
}

/// The system's message on a file, without the error number.
pub fn plain(error: &std::io::Error) -> String {
    let said = error.to_string();
    said.split(" (os error").next().unwrap_or(&said).to_string()
}

/// Put a label at each marker of a text, on the marker's own line.
fn with_labels(text: &str) -> Result<(String, Vec<Marked>), String> {
    let (mut out, mut marked): (String, Vec<Marked>) = (String::with_capacity(text.len()), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let comment = ["#", "//", ";", "/*", "@"]
            .iter()
            .filter_map(|mark| line.find(mark))
            .min();
        let words = comment.map(|at| line[at..].trim_start_matches(['#', '/', '*', ';', '@', ' ', '\t']));
        let words = words.map(|w| w.trim_end_matches(['*', '/', ' ', '\t']));
        let marker = words.and_then(|w| {
            let (word, rest) = w.split_once(char::is_whitespace).unwrap_or((w, ""));
            let begins = ["LLVM-MCA-BEGIN", "OSACA-BEGIN"].contains(&word);
            let ends = ["LLVM-MCA-END", "OSACA-END"].contains(&word);
            (begins || ends).then(|| (begins, rest.trim().to_string()))
        });
        let Some((begins, name)) = marker else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let label = format!("{LABEL}{number}");
        if begins {
            if marked.iter().any(|m| m.end.is_none() && m.name == name) {
                return Err(format!(
                    "line {}: a region begins inside the region of the same name",
                    number + 1
                ));
            }
            marked.push(Marked {
                name,
                begin: label.clone(),
                end: None,
            });
        } else {
            let open = marked
                .iter_mut()
                .rev()
                .find(|m| m.end.is_none() && (name.is_empty() || m.name == name));
            let open = open.ok_or_else(|| format!("line {}: a region ends that did not begin", number + 1))?;
            open.end = Some(label.clone());
        }
        let before = comment.map_or("", |at| &line[..at]);
        out.push_str(&format!("{before}\n{label}:\n"));
    }
    Ok((out, marked))
}

fn stretch(code: &Code, name: &str, section: SectionIndex, begin: usize, end: usize) -> Region {
    let bytes = code.sections.iter().find(|(index, _)| *index == section);
    let bytes = bytes.and_then(|(_, bytes)| bytes.get(begin..end)).unwrap_or_default();
    let named = code
        .symbols
        .iter()
        .filter(|(name, at, _)| *at == section && !name.starts_with(LABEL));
    Region {
        name: name.to_string(),
        code: bytes.to_vec(),
        address: begin as u64,
        labels: named
            .map(|(name, _, at)| (*at as i64 - begin as i64, name.clone()))
            .collect(),
    }
}

/// The regions that marker instructions enclose; without any, all code is one.
fn whole(code: &Code, isa: Isa) -> Vec<Region> {
    let (begin, end) = match isa {
        Isa::X86 => X86_MARKERS,
        Isa::Arm64 => ARM64_MARKERS,
    };
    let mut found = Vec::new();
    for (section, bytes) in &code.sections {
        let mut at = 0;
        while let Some(start) = position(&bytes[at..], &begin).map(|p| at + p + begin.len()) {
            let stop = position(&bytes[start..], &end).map_or(bytes.len(), |p| start + p);
            found.push(stretch(code, "", *section, start, stop));
            at = stop;
        }
    }
    if found.is_empty() {
        let all = code.sections.iter();
        found.extend(all.map(|(section, bytes)| stretch(code, "", *section, 0, bytes.len())));
    }
    found
}

fn position(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

fn between_labels(code: &Code, marked: &[Marked]) -> Result<Vec<Region>, String> {
    let place = |label: &str| {
        let found = code.symbols.iter().find(|(name, ..)| name == label);
        found.map(|(_, section, at)| (*section, *at as usize))
    };
    let mut regions = Vec::new();
    for one in marked {
        let missing = || format!("region {}: its marker stands in no section of code", one.name);
        let (section, begin) = place(&one.begin).ok_or_else(missing)?;
        let length = code
            .sections
            .iter()
            .find(|(index, _)| *index == section)
            .map_or(0, |(_, b)| b.len());
        let end = match &one.end {
            None => length,
            Some(label) => {
                let (other, end) = place(label).ok_or_else(missing)?;
                if other != section || end < begin {
                    return Err(format!("region {}: it begins and ends in two sections", one.name));
                }
                end
            }
        };
        regions.push(stretch(code, &one.name, section, begin, end));
    }
    Ok(regions)
}

/// A region without the return that ends it, which copies of the region would not execute.
fn without_return(mut region: Region, isa: Isa, notes: &mut String) -> Region {
    let returns: &[&[u8]] = match isa {
        Isa::X86 => &[&[0xf3, 0xc3], &[0xc3]],
        Isa::Arm64 => &[&[0xc0, 0x03, 0x5f, 0xd6]],
    };
    let found = returns
        .iter()
        .find(|r| region.code.ends_with(r) && region.code.len() > r.len());
    let whole = |code: &[u8]| isa::outline::outline(isa, code).is_ok();
    if let Some(found) = found.filter(|r| whole(&region.code[..region.code.len() - r.len()])) {
        region.code.truncate(region.code.len() - found.len());
        notes.push_str("note: the return that ends the region is left out: copies of the region follow each other\n");
    }
    region
}

/// A region that ends in a branch back into it, from the branch's target on.
fn its_loop(mut region: Region, isa: Isa, notes: &mut String) -> Region {
    let Some(last) = isa::decode(isa, &region.code)
        .ok()
        .and_then(|code| code.last().map(|d| d.offset))
    else {
        return region;
    };
    let target = match isa::decode_at(isa, &region.code, last as usize) {
        Ok((_, Next::Either(target) | Next::Jumps(target))) => usize::try_from(target).ok(),
        _ => None,
    };
    // Only where an instruction begins at the target.
    let begins = |target: &usize| *target <= last as usize && isa::decode(isa, &region.code[..*target]).is_ok();
    let Some(target) = target.filter(begins) else {
        return region;
    };
    if target > 0 {
        region.code.drain(..target);
        region.address += target as u64;
        region.labels = region
            .labels
            .into_iter()
            .map(|(at, name)| (at - target as i64, name))
            .collect();
        notes.push_str(&format!(
            "note: the loop begins {target} bytes into the region, where its last branch goes; what stands before is left out\n"
        ));
    }
    region.labels.entry(0).or_insert_with(|| ".Lloop".into());
    region
}
