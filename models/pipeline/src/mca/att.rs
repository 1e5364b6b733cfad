//! Instructions in AT&T syntax written in Intel's.

use iced_x86::Mnemonic;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The address of a name that the text does not define: its displacement takes four bytes.
const ELSEWHERE: i64 = 0x1000_0000;

/// Widening moves: their name, Intel's, and the size of what they read.
const WIDENING: [(&str, &str, &str); 11] = [
    ("movzbw", "movzx", "byte"),
    ("movzbl", "movzx", "byte"),
    ("movzbq", "movzx", "byte"),
    ("movzwl", "movzx", "word"),
    ("movzwq", "movzx", "word"),
    ("movsbw", "movsx", "byte"),
    ("movsbl", "movsx", "byte"),
    ("movsbq", "movsx", "byte"),
    ("movswl", "movsx", "word"),
    ("movswq", "movsx", "word"),
    ("movslq", "movsxd", "dword"),
];

/// Names that are others in Intel's syntax.
const RENAMED: [(&str, &str); 13] = [
    ("cbtw", "cbw"),
    ("cwtl", "cwde"),
    ("cltq", "cdqe"),
    ("cwtd", "cwd"),
    ("cltd", "cdq"),
    ("cqto", "cqo"),
    ("movabs", "mov"),
    ("movabsq", "mov"),
    ("movsl", "movsd"),
    ("stosl", "stosd"),
    ("lodsl", "lodsd"),
    ("scasl", "scasd"),
    ("cmpsl", "cmpsd"),
];

const PREFIXES: [&str; 6] = ["lock", "rep", "repe", "repz", "repne", "repnz"];

fn known(mnemonic: &str) -> bool {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| Mnemonic::values().map(|m| format!("{m:?}").to_lowercase()).collect());
    names.contains(mnemonic) || mnemonic == "sal"
}

/// The name in Intel's syntax, and the size of the operand in memory where the name tells it.
fn named(mnemonic: &str, vector: bool) -> Option<(String, &'static str)> {
    if let Some((_, name, size)) = WIDENING.iter().find(|(att, ..)| *att == mnemonic) {
        return Some(((*name).into(), size));
    }
    if let Some((_, name)) = RENAMED.iter().find(|(att, _)| *att == mnemonic) {
        return Some(((*name).into(), ""));
    }
    if known(mnemonic) && (mnemonic != "movq" || vector) {
        return Some((mnemonic.into(), ""));
    }
    let (name, suffix) = mnemonic.split_at_checked(mnemonic.len().checked_sub(1)?)?;
    let size = match suffix {
        "b" => "byte",
        "w" => "word",
        "l" => "dword",
        "q" => "qword",
        _ => return None,
    };
    known(name).then(|| (name.into(), size))
}

/// The operands of a text: commas divide them, but for those in parentheses.
fn divided(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|operand| !operand.is_empty());
    found
}

/// A number; what is too large for a signed one is negative.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    Some((value as i64).wrapping_mul(sign))
}

/// A place in memory.
fn memory(operand: &str, size: &str) -> String {
    let (segment, place) = match operand.split_once(':') {
        Some((segment, place)) => (format!("{}:", segment.trim_start_matches('%')), place),
        None => (String::new(), operand),
    };
    let (offset, inside) = match place.split_once('(') {
        Some((offset, inside)) => (offset.trim(), inside.trim_end_matches(')')),
        None => (place, ""),
    };
    let parts: Vec<String> = inside.split(',').map(|p| p.trim().replace('%', "")).collect();
    let mut terms: Vec<String> = parts.first().filter(|p| !p.is_empty()).cloned().into_iter().collect();
    if let Some(index) = parts.get(1).filter(|p| !p.is_empty()) {
        terms.push(format!("{index}*{}", parts.get(2).map_or("1", String::as_str)));
    }
    let offset = match offset {
        "" => 0,
        text => number(text).unwrap_or(ELSEWHERE),
    };
    let mut address = terms.join("+");
    match offset {
        0 if !terms.is_empty() => {}
        negative if negative < 0 => address.push_str(&format!("-{:#x}", negative.unsigned_abs())),
        other if terms.is_empty() => address = format!("{other:#x}"),
        other => address.push_str(&format!("+{other:#x}")),
    }
    let size = if size.is_empty() {
        String::new()
    } else {
        format!("{size} ptr ")
    };
    format!("{size}{segment}[{address}]")
}

/// A register of 32 bits.
fn is_half(operand: &str) -> bool {
    let name = operand.trim_start_matches('%');
    name.starts_with('e') || name.starts_with('r') && name.ends_with('d')
}

fn operand(text: &str, size: &str, half: bool, jumps: bool) -> Result<String, String> {
    if let Some(immediate) = text.strip_prefix('$') {
        let value = number(immediate).ok_or_else(|| format!("{text}: a number is known here, no name"))?;
        // The same bits, as a signed number: one byte may hold it.
        let signed = u32::try_from(value)
            .ok()
            .filter(|_| half)
            .map(|bits| i64::from(bits as i32));
        return Ok(signed.unwrap_or(value).to_string());
    }
    let text = text.strip_prefix('*').unwrap_or(text);
    if text.contains('(') || text.starts_with('%') && text.contains(':') || !text.starts_with('%') && !jumps {
        return Ok(memory(text, size));
    }
    Ok(text.replace('%', ""))
}

/// A move of a constant of 31 bits into a register of 64, which assemblers write with seven bytes.
fn wide_constant(operands: &[String]) -> Option<String> {
    const REGISTERS: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    ];
    let [register, constant] = operands else {
        return None;
    };
    let number = REGISTERS.iter().position(|known| known == register)?;
    let [a, b, c, d] = constant.parse::<i32>().ok()?.to_le_bytes();
    let (rex, modrm) = (0x48 | number >> 3, 0xc0 | number & 7);
    Some(format!(".byte {rex}, 0xc7, {modrm}, {a}, {b}, {c}, {d}"))
}

/// An instruction in Intel's syntax.
///
/// # Errors
/// Its mnemonic is unknown, or an immediate is a name.
pub fn intel(instruction: &str) -> Result<String, String> {
    let (word, rest) = instruction
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((instruction.trim(), ""));
    let mnemonic = word.to_lowercase();
    if PREFIXES.contains(&mnemonic.as_str()) {
        return Ok(format!("{mnemonic} {}", intel(rest.trim_start_matches([';', ' ']))?));
    }
    let vector = rest.contains("%xmm") || rest.contains("%mm");
    let (name, size) = named(&mnemonic, vector).ok_or_else(|| format!("{word}: no such instruction"))?;
    let jumps = name.starts_with('j') || name == "call" || name.starts_with("loop");
    let written = divided(rest);
    let half = size == "dword" || written.last().is_some_and(|last| is_half(last));
    let mut operands: Vec<String> = written
        .iter()
        .map(|o| operand(o, size, half, jumps))
        .collect::<Result<_, _>>()?;
    operands.reverse();
    if let (Some(bytes), true) = (
        wide_constant(&operands),
        name == "mov" && !mnemonic.starts_with("movabs"),
    ) {
        return Ok(bytes);
    }
    // Two operands say what three do.
    if name == "imul" && operands.len() == 2 && operands[1].parse::<i64>().is_ok() {
        operands.insert(1, operands[0].clone());
    }
    Ok(format!("{name} {}", operands.join(", ")))
}
