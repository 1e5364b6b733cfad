//! Code that a text holds as bytes: hex, or a listing of objdump or gdb.

use crate::isa::Isa;
use crate::mca::region::Region;

/// An instruction of a listing: its address and its bytes.
type Listed = (u64, Vec<u8>);

/// The regions of a text of bytes; `None` where it is another text.
///
/// Hex is in the order of memory, and an empty line ends a region. Of a listing, each run of
/// addresses without a gap is a region.
///
/// # Errors
/// The text is hex with half a byte, or a listing of the other instruction set.
pub fn regions(text: &str, isa: Isa) -> Result<Option<Vec<Region>>, String> {
    if let Some(regions) = hex(text)? {
        return Ok(Some(regions));
    }
    match listing(text, isa) {
        found if !found.is_empty() => Ok(Some(found)),
        _ if !listing(text, isa.other()).is_empty() => {
            Err("the listing is of another instruction set than the core".into())
        }
        _ => Ok(None),
    }
}

/// The instruction set that a listing is of, where it is one.
pub fn set_of_listing(text: &str) -> Option<Isa> {
    [Isa::X86, Isa::Arm64]
        .into_iter()
        .find(|isa| text.lines().any(|line| instruction(line, *isa).is_some()))
}

/// The regions of a text of hex digits, and comments behind a `#`. One digit from 0 to 9 is among
/// them, as `fadd` is an instruction.
fn hex(text: &str) -> Result<Option<Vec<Region>>, String> {
    let lines: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
    let words = |line: &&str| {
        let words = line.split(|c: char| c.is_whitespace() || c == ',');
        let words = words
            .map(|word| word.trim_start_matches("0x"))
            .filter(|word| !word.is_empty());
        words.map(String::from).collect::<Vec<_>>()
    };
    let mut all = lines.iter().flat_map(words).peekable();
    let is_hex = |word: String| word.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = lines.iter().any(|line| line.contains(|c: char| c.is_ascii_digit()));
    if all.peek().is_none() || !all.all(is_hex) || !digits {
        return Ok(None);
    }
    let mut regions = vec![Region::default()];
    for (number, (line, whole)) in (1..).zip(lines.iter().zip(text.lines())) {
        if whole.trim().is_empty() {
            regions.push(Region::default());
        }
        for word in words(line) {
            let bytes = pairs(&word).ok_or_else(|| format!("line {number}: {word}: an odd number of hex digits"))?;
            regions
                .last_mut()
                .into_iter()
                .for_each(|region| region.code.extend(&bytes));
        }
    }
    regions.retain(|region| !region.code.is_empty());
    Ok(Some(regions))
}

fn pairs(digits: &str) -> Option<Vec<u8>> {
    let places = (0..digits.len()).step_by(2);
    places
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect()
}

fn listing(text: &str, isa: Isa) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(called) = line.trim_end().strip_suffix(">:").and_then(|l| l.split_once('<')) {
            name = called.1.into();
        }
        let Some((address, code)) = instruction(line, isa) else {
            continue;
        };
        match regions.last_mut() {
            Some(last) if last.address + last.code.len() as u64 == address => last.code.extend(code),
            _ => regions.push(Region {
                name: std::mem::take(&mut name),
                code,
                address,
                ..Region::default()
            }),
        }
    }
    regions
}

/// The instruction of a line: address, colon, and its bytes in pairs of digits, or on AArch64 as one
/// word, whose first digits are its last byte.
fn instruction(line: &str, isa: Isa) -> Option<Listed> {
    let (head, rest) = line.trim_start().split_once(':')?;
    let (address, place) = head.split_once(' ').unwrap_or((head, ""));
    if !place.is_empty() && !place.starts_with('<') {
        return None;
    }
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
    let mut words = rest.split_whitespace();
    let code: Vec<u8> = match isa {
        Isa::X86 => words
            .map_while(|word| pairs(word).filter(|b| b.len() == 1))
            .flatten()
            .collect(),
        Isa::Arm64 => {
            let word = words.next().filter(|word| word.len() == 8)?;
            u32::from_str_radix(word, 16).ok()?.to_le_bytes().into()
        }
    };
    (!code.is_empty()).then_some((address, code))
}
