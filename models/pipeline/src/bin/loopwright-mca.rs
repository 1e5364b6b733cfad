//! `loopwright-mca`: the `mca` command by itself, with the cores of `models/` inside.

use loopwright_pipeline::mca::{self, cores::Cores};
use std::io::Write;
use std::process::ExitCode;

include!(concat!(env!("OUT_DIR"), "/cores.rs"));

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let answer = mca::run(&arguments, &mut std::io::stdin(), &Cores::inside(CORES), None);
    // A reader that leaves is no fault.
    std::io::stdout().write_all(answer.out.as_bytes()).ok();
    std::io::stderr().write_all(answer.err.as_bytes()).ok();
    ExitCode::from(answer.code as u8)
}
