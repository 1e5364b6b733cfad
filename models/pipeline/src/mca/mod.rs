//! `mca`: reads what llvm-mca reads, prints the sections that it prints, and the code alignment.
//!
//! [`run`] takes the arguments of a command line and returns what goes to standard output and
//! standard error, and the exit code. [`flags`] reads the arguments, [`input`] finds the regions of
//! a text or an object, [`simulated`] simulates one, [`views`] and [`json`] print.

#[cfg(not(target_family = "wasm"))]
pub mod assembler;
#[cfg(feature = "wasm")]
mod att;
#[cfg(feature = "wasm")]
pub mod built_in;
pub mod cores;
pub mod elf;
pub mod flags;
pub mod innermost;
pub mod input;
pub mod json;
pub mod listed;
pub mod region;
pub mod simulated;
pub mod text;
pub mod views;

use crate::mca::cores::Cores;
use crate::mca::flags::{Asked, Flags};
use crate::mca::simulated::Simulated;
use std::io::Read;

/// The answer to a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Text for standard output; empty where `-o` names a file.
    pub out: String,
    /// Lines for standard error.
    pub err: String,
    /// Exit code: 0, or 2 for input that cannot be answered.
    pub code: i32,
}

/// Answer a command line, its program's name left out. `host` is the core of this machine, if known.
pub fn run(arguments: &[String], stdin: &mut dyn Read, cores: &Cores, host: Option<&str>) -> Answer {
    let mut answer = Answer::default();
    if let Err(why) = answered(arguments, stdin, cores, host, &mut answer) {
        answer.out.clear();
        answer.err.push_str(&format!("loopwright mca: {why}\n"));
        answer.code = 2;
    }
    answer
}

fn answered(
    arguments: &[String],
    stdin: &mut dyn Read,
    cores: &Cores,
    host: Option<&str>,
    answer: &mut Answer,
) -> Result<(), String> {
    let flags = match flags::read(arguments)? {
        Asked::Help => {
            answer.out = flags::help(cores);
            return Ok(());
        }
        Asked::Version => {
            answer.out = format!("loopwright mca {}\n", env!("CARGO_PKG_VERSION"));
            return Ok(());
        }
        Asked::Analysis(flags) => *flags,
    };
    let name = flags.cpu.as_deref().filter(|name| *name != "native").or(host);
    let name = name.ok_or_else(|| format!("-mcpu: name the core: {}", cores.names().join(", ")))?;
    let (id, core) = cores.core(name, &flags.overrides)?;
    flags.fits(core.params.isa)?;
    let input = input::read(&flags, core.params.isa, stdin)?;
    answer.err.push_str(&input.notes);
    let mut regions = Vec::new();
    for region in input.regions {
        regions.push(Simulated::new(&core, &flags, region)?);
    }
    let text = if flags.json {
        json::text(&flags, &id, &core, &regions)
    } else {
        views::text(&flags, &id, &core, &regions)
    };
    write(&flags, text, answer)
}

fn write(flags: &Flags, text: String, answer: &mut Answer) -> Result<(), String> {
    let Some(path) = flags.output.as_deref().filter(|path| *path != "-") else {
        answer.out = text;
        return Ok(());
    };
    let part = format!("{path}.part");
    let whole = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
    whole.map_err(|e| {
        std::fs::remove_file(&part).ok();
        format!("-o {path}: {}", input::plain(&e))
    })?;
    Ok(())
}
