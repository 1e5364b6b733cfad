//! Predict blocks read from standard input, one a line: hex, offset, notion.
//!
//! `predict CORE_FOLDER [name=value ...]` prints cycles and bottleneck, or the error.

use loopwright_pipeline::batch::{run, Job};
use loopwright_pipeline::block::Notion;
use loopwright_pipeline::core::Core;
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: predict CORE_FOLDER [name=value ...]")?;
    let overrides: Vec<(String, String)> = args
        .filter_map(|a| a.split_once('=').map(|(n, v)| (n.to_string(), v.to_string())))
        .collect();
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}"));
    let core = Core::new(&read("core.toml")?, &read("instructions.csv")?, &overrides)?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut jobs = Vec::new();
    for line in text.lines() {
        let mut cells = line.split_whitespace();
        let hex = cells.next().unwrap_or("");
        let code = (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16))
            .collect::<Result<_, _>>()?;
        let offset = cells.next().unwrap_or("0").parse()?;
        let notion = if cells.next() == Some("loop") {
            Notion::Loop
        } else {
            Notion::Unrolled
        };
        jobs.push(Job {
            code,
            offset,
            notion,
            ..Job::default()
        });
    }
    let start = std::time::Instant::now();
    let results = run(&core, &jobs, 0);
    let elapsed = start.elapsed().as_secs_f64();
    for result in &results {
        match result {
            Ok(p) => println!("{:.4}\t{}\t{}\t{}", p.cycles, p.bottleneck, p.steady, p.simulated),
            Err(e) => println!("\t\terror: {e}"),
        }
    }
    eprintln!("{} blocks, {:.0} a second", jobs.len(), jobs.len() as f64 / elapsed);
    Ok(())
}
