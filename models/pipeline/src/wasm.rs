//! The interface for a WebAssembly host, with the cores of `models/` inside.
//!
//! Text crosses in one buffer. The host asks [`reserve`] for room, writes a call there, calls
//! [`answer`], and reads the JSON that [`answered`] points to. `explorer/src/simulator.ts` does all this.
//!
//! | call | argument | answer |
//! |---|---|---|
//! | `mca` | flags of the command line; its standard input | `out`, `err`, `code` |
//! | `cores` | | of each core its `id`, `name` and `isa` |
//! | `loops` | `x86`, `arm64` or `any`; an input of `mca` | `isa`, `loops`, `notes`, or `error` |
//! | `offsets` | core; hex | cycles at each code offset, `null` where no code can lie; or `error` |

#![allow(unsafe_code)] // The names that the host calls are exported unmangled; no more is unsafe.

use crate::isa::Isa;
use crate::mca::cores::Cores;
use crate::mca::flags::Flags;
use crate::mca::region::Region;
use crate::mca::{self, built_in, elf, innermost, input, listed, simulated};
use serde_json::{json, Value};
use std::cell::RefCell;

include!(concat!(env!("OUT_DIR"), "/cores.rs"));

thread_local! {
    static ASKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ANSWERED: RefCell<String> = const { RefCell::new(String::new()) };
    static KNOWN: Cores = Cores::inside(CORES);
}

/// A buffer for `length` bytes of the host: the call and its arguments, each with a zero byte after
/// it, one zero byte more, and the input.
#[no_mangle]
pub extern "C" fn reserve(length: usize) -> *mut u8 {
    ASKED.with_borrow_mut(|asked| {
        asked.clear();
        asked.resize(length, 0);
        asked.as_mut_ptr()
    })
}

/// Answer the call in the buffer; bytes of the answer.
#[no_mangle]
pub extern "C" fn answer() -> usize {
    let asked = ASKED.take();
    let (mut arguments, mut left) = (Vec::new(), asked.as_slice());
    while let Some(end) = left.iter().position(|b| *b == 0) {
        let argument = String::from_utf8_lossy(&left[..end]).into_owned();
        left = &left[end + 1..];
        if argument.is_empty() {
            break;
        }
        arguments.push(argument);
    }
    let value = KNOWN.with(|cores| called(cores, &arguments, left));
    let text = value.unwrap_or_else(|why| json!({ "error": why })).to_string();
    let length = text.len();
    ANSWERED.set(text);
    length
}

/// The address of the answer.
#[no_mangle]
pub extern "C" fn answered() -> *const u8 {
    ANSWERED.with_borrow(|text| text.as_ptr())
}

fn called(cores: &Cores, arguments: &[String], mut input: &[u8]) -> Result<Value, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["mca", ..] => {
            let said = mca::run(&arguments[1..], &mut input, cores, None);
            Ok(json!({ "out": said.out, "err": said.err, "code": said.code }))
        }
        ["cores"] => all(cores),
        ["loops", set] => loops(set, input),
        ["offsets", core] => offsets(cores, core, input),
        _ => Err(format!("no such call: {}", words.join(" "))),
    }
}

fn all(cores: &Cores) -> Result<Value, String> {
    let one = |id: &String| {
        let (_, core_toml, _) = CORES.iter().find(|(known, ..)| known == id).ok_or("no such core")?;
        let table: toml::Table = core_toml.parse().map_err(|e| format!("{id}: {e}"))?;
        Ok(json!({ "id": id, "name": table["name"].as_str(), "isa": table["isa"].as_str() }))
    };
    cores
        .ids()
        .iter()
        .map(one)
        .collect::<Result<Vec<_>, String>>()
        .map(Value::from)
}

fn loops(set: &str, bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).ok();
    let isa = match set {
        "x86" => Isa::X86,
        "arm64" => Isa::Arm64,
        _ => elf::set(bytes)
            .or_else(|| text.and_then(listed::set_of_listing))
            .or_else(|| text.and_then(set_of_assembly))
            .unwrap_or(Isa::X86),
    };
    let (mut regions, mut left_out, mut notes) = (Vec::new(), 0, String::new());
    for whole in input::regions(&Flags::default(), isa, bytes.to_vec())? {
        let mut inner = innermost::of(&whole, isa);
        left_out += inner.left_out;
        match inner.loops.is_empty() {
            true => regions.push(input::trimmed(whole, isa, &mut notes)),
            false => regions.append(&mut inner.loops),
        }
    }
    let listed: Vec<Value> = regions.iter().map(described).collect();
    Ok(json!({ "isa": name(isa), "loops": listed, "left_out": left_out, "notes": notes.lines().collect::<Vec<_>>() }))
}

/// The instruction set that a text assembles for, where it is not x86.
fn set_of_assembly(text: &str) -> Option<Isa> {
    let assembles = |isa| built_in::assembled(&Flags::default(), isa, text).is_ok();
    (!assembles(Isa::X86) && assembles(Isa::Arm64)).then_some(Isa::Arm64)
}

fn name(isa: Isa) -> &'static str {
    match isa {
        Isa::X86 => "x86_64",
        Isa::Arm64 => "arm64",
    }
}

fn described(region: &Region) -> Value {
    let code: String = region.code.iter().map(|b| format!("{b:02x}")).collect();
    json!({ "name": region.name, "address": region.address, "code": code })
}

fn offsets(cores: &Cores, core: &str, hex: &[u8]) -> Result<Value, String> {
    let (_, core) = cores.core(core, &[])?;
    let text = String::from_utf8_lossy(hex);
    let regions = listed::regions(&text, core.params.isa)?.unwrap_or_default();
    let code = &regions.first().ok_or("no code")?.code;
    let cycles = simulated::at_all(&core, code).map_err(|e| e.to_string())?;
    Ok(cycles
        .iter()
        .map(|c| (!c.is_nan()).then_some(*c))
        .collect::<Vec<_>>()
        .into())
}
