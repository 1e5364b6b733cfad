//! The regions of an input: assembly text or an ELF object, with the markers of llvm-mca, OSACA and IACA.

use crate::isa::flow::Next;
use crate::isa::{self, Isa};
use crate::mca::flags::Flags;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// What an input holds.
#[derive(Clone, Debug)]
pub struct Input {
    /// Regions in the order of the input.
    pub regions: Vec<Region>,
    /// Lines that the user should know.
    pub notes: String,
}

/// Code that is analysed by itself.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Name that its marker gives it.
    pub name: String,
    /// Machine code.
    pub code: Vec<u8>,
    /// Address of its first byte in its section.
    pub address: u64,
    /// Names of places in it, by their distance in bytes from its first byte.
    pub labels: BTreeMap<i64, String>,
}

/// A region's ends in a text: names of labels that are put there.
struct Marked {
    name: String,
    begin: String,
    end: Option<String>,
}

/// The code of an object: its sections of instructions, and names of places in them.
struct Code {
    sections: Vec<(object::SectionIndex, Vec<u8>)>,
    symbols: Vec<(String, object::SectionIndex, u64)>,
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
    let mut notes = String::new();
    let regions = if bytes.starts_with(b"\x7fELF") {
        let code = code_of(&bytes, isa).map_err(|why| format!("{called}: {why}"))?;
        whole(&code, isa)
    } else {
        let text = String::from_utf8(bytes).map_err(|_| format!("{called}: neither text nor an ELF object"))?;
        let (text, marked) = with_labels(&text).map_err(|why| format!("{called}: {why}"))?;
        let object = assembled(flags, isa, &text).map_err(|why| format!("{called}: {why}"))?;
        let code = code_of(&object, isa).map_err(|why| format!("{called}: {why}"))?;
        match marked.is_empty() {
            true => whole(&code, isa),
            false => between_labels(&code, &marked).map_err(|why| format!("{called}: {why}"))?,
        }
    };
    let regions: Vec<Region> = regions.into_iter().filter(|region| !region.code.is_empty()).collect();
    if regions.is_empty() {
        return Err(format!(
            "{called}: no instructions; the input wants assembly text or an ELF object"
        ));
    }
    let regions = regions
        .into_iter()
        .map(|region| its_loop(without_return(region, isa, &mut notes), isa, &mut notes));
    Ok(Input {
        regions: regions.collect(),
        notes,
    })
}

/// What the system says of a file, without its number for it.
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

/// Assemble a text: by llvm-mc if it is there, else by the GNU assembler.
fn assembled(flags: &Flags, isa: Isa, text: &str) -> Result<Vec<u8>, String> {
    let (triple, gnu) = match isa {
        Isa::X86 => ("x86_64-linux-gnu", "x86_64-linux-gnu-as"),
        Isa::Arm64 => ("aarch64-linux-gnu", "aarch64-linux-gnu-as"),
    };
    let text = match flags.intel_input {
        true => format!(".intel_syntax noprefix\n{text}"),
        false => text.to_string(),
    };
    for llvm_mc in ["llvm-mc-19", "llvm-mc", "llvm-mc-20", "llvm-mc-18"] {
        let mut command = Command::new(llvm_mc);
        command.args(["-filetype=obj", "-save-temp-labels", "-o", "-", "-triple", triple]);
        match (&flags.mattr, isa) {
            (Some(features), _) => drop(command.arg(format!("-mattr={features}"))),
            (None, Isa::Arm64) => drop(command.arg("-mattr=+all")),
            (None, Isa::X86) => {}
        }
        if let Some(output) = piped(&mut command, &text)? {
            return output;
        }
    }
    if flags.mattr.is_some() {
        return Err("-mattr needs llvm-mc, which is not on the PATH".into());
    }
    let folder = tempfile::tempdir().map_err(|e| format!("a temporary folder: {e}"))?;
    let object = folder.path().join("region.o");
    for assembler in [gnu, "as"] {
        let mut command = Command::new(assembler);
        command.arg("--keep-locals").arg("-o").arg(&object).arg("-");
        match isa {
            Isa::X86 => command.arg("--64"),
            Isa::Arm64 => command.arg("-march=armv8.6-a+crypto+sve"),
        };
        if let Some(output) = piped(&mut command, &text)? {
            output?;
            return std::fs::read(&object).map_err(|e| format!("{assembler}: {e}"));
        }
    }
    Err("no assembler: install llvm-mc (package llvm) or the GNU assembler (package binutils)".into())
}

/// What a program answers to a text, or the first line of what it complains of; `None` where there is no such program.
fn piped(command: &mut Command, text: &str) -> Result<Option<Result<Vec<u8>, String>>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| format!("{name}: {e}");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut into = child.stdin.take().ok_or_else(|| format!("{name}: no standard input"))?;
    let text = text.to_string();
    let writer = std::thread::spawn(move || into.write_all(text.as_bytes()).ok());
    let output = child.wait_with_output().map_err(failed)?;
    writer.join().ok();
    if output.status.success() {
        return Ok(Some(Ok(output.stdout)));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The first line of a compiler's message that names an error; a foreign architecture's `as` says other things.
    let line = said
        .lines()
        .find(|l| l.contains("rror"))
        .or(said.lines().next())
        .unwrap_or("failed");
    Ok(Some(Err(format!("{name} refuses it: {}", line.trim()))))
}

/// The instructions and names of an object.
fn code_of(bytes: &[u8], isa: Isa) -> Result<Code, String> {
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

impl Code {
    fn region(&self, name: &str, section: object::SectionIndex, begin: usize, end: usize) -> Region {
        let code = self.sections.iter().find(|(index, _)| *index == section);
        let code = code.and_then(|(_, bytes)| bytes.get(begin..end)).unwrap_or_default();
        let named = self
            .symbols
            .iter()
            .filter(|(name, at, _)| *at == section && !name.starts_with(LABEL));
        Region {
            name: name.to_string(),
            code: code.to_vec(),
            address: begin as u64,
            labels: named
                .map(|(name, _, at)| (*at as i64 - begin as i64, name.clone()))
                .collect(),
        }
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
            found.push(code.region("", *section, start, stop));
            at = stop;
        }
    }
    if found.is_empty() {
        let all = code.sections.iter();
        found.extend(all.map(|(section, bytes)| code.region("", *section, 0, bytes.len())));
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
        regions.push(code.region(&one.name, section, begin, end));
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
        Ok((_, Next::Either(target) | Next::Jumps(target))) => usize::try_from(target).unwrap_or(0),
        _ => 0,
    };
    // Only where an instruction begins at the target.
    if target > 0 && target <= last as usize && isa::decode(isa, &region.code[..target]).is_ok() {
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
    region
}
