//! Assembly text made code by a program of the machine.

use crate::isa::Isa;
use crate::mca::elf::{code_of, Code};
use crate::mca::flags::Flags;
use std::io::Write;
use std::process::{Command, Stdio};

/// Assemble a text: by llvm-mc if it is there, else by the GNU assembler.
///
/// # Errors
/// Neither is there, or the one that is refuses the text: one line.
pub fn assembled(flags: &Flags, isa: Isa, text: &str) -> Result<Code, String> {
    let object = object(flags, isa, text).map_err(|refusal| {
        // AT&T syntax marks each register with %.
        let intel = isa == Isa::X86 && !flags.intel_input && !text.contains('%');
        match intel {
            true => format!("{refusal}; -x86-asm-syntax=intel reads Intel syntax"),
            false => refusal,
        }
    })?;
    code_of(&object, isa)
}

fn object(flags: &Flags, isa: Isa, text: &str) -> Result<Vec<u8>, String> {
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

/// The answer of a program to a text, or the first line of its errors; `None` without the program.
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
