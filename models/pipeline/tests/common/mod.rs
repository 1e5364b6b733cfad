//! Cores from the tables beside the crate, and blocks from hex text.

use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::predict::{predict, Prediction, Request};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

/// Every core with pipeline tables.
pub const CORES: [&str; 18] = [
    "sandybridge",
    "ivybridge",
    "broadwell",
    "haswell",
    "skylake",
    "icelake",
    "redwoodcove",
    "goldencove",
    "zen1",
    "zen2",
    "zen3",
    "zen4",
    "neoverse-n1",
    "neoverse-v1",
    "neoverse-v2",
    "neoverse-n2",
    "tsv110",
    "firestorm",
];

/// Whether a core runs x86-64 code, all others AArch64.
pub fn is_x86(name: &str) -> bool {
    !name.starts_with("neoverse") && !["tsv110", "firestorm"].contains(&name)
}

/// Text of a file of a core.
pub fn text(core: &str, name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(core)
        .join(name);
    std::fs::read_to_string(path).expect("a file of the repository")
}

/// A core with overrides.
pub fn core_with(name: &str, overrides: &[(&str, &str)]) -> Result<Core, Error> {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|(n, v)| ((*n).to_string(), (*v).to_string()))
        .collect();
    Core::new(&text(name, "core.toml"), &text(name, "instructions.csv"), &overrides)
}

/// A core as it is, read once for all tests.
pub fn core(name: &str) -> Arc<Core> {
    static READ: LazyLock<Mutex<HashMap<String, Arc<Core>>>> = LazyLock::new(Mutex::default);
    let mut read = READ.lock().expect("no test fails while it reads a core");
    let new = || Arc::new(core_with(name, &[]).expect("a core of the repository"));
    Arc::clone(read.entry(name.to_string()).or_insert_with(new))
}

/// Bytes of hex text.
pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex"))
        .collect()
}

/// Predict a block, its bottleneck and ports.
pub fn run(core: &Core, hex: &str, offset: u32, notion: Notion) -> Result<Prediction, Error> {
    ask(core, hex, offset, notion, true)
}

/// Predict the cycles per iteration alone: a bottleneck takes many more simulations to find.
pub fn cycles_on(core: &Core, hex: &str, offset: u32, notion: Notion) -> Result<f64, Error> {
    ask(core, hex, offset, notion, false).map(|p| p.cycles)
}

fn ask(core: &Core, hex: &str, offset: u32, notion: Notion, explained: bool) -> Result<Prediction, Error> {
    let code = bytes(hex);
    predict(
        core,
        &Request {
            code: &code,
            offset,
            notion,
            strings: StringUse::default(),
            bottleneck: explained,
            ports: explained,
            timeline: 0,
        },
    )
}

/// Cycles per iteration.
pub fn cycles(name: &str, hex: &str, offset: u32, notion: Notion) -> f64 {
    cycles_on(&core(name), hex, offset, notion).expect("a prediction")
}

/// Assert that loops (name, code, code offset, cycles an iteration) take their cycles to within 2 %.
pub fn all_take(name: &str, loops: &[(&str, &str, u32, f64)]) {
    all_are_within(0.02, name, loops, Notion::Loop);
}

/// Assert that blocks take their cycles to within a share of them.
pub fn all_are_within(share: f64, name: &str, blocks: &[(&str, &str, u32, f64)], notion: Notion) {
    let core = core(name);
    for &(what, code, offset, wanted) in blocks {
        let got = cycles_on(&core, code, offset, notion).expect(what);
        assert!(
            (got - wanted).abs() <= share * wanted,
            "{what} at {offset}: {got} cycles, not {wanted}"
        );
    }
}

/// Assert that two numbers of cycles agree within 1 %.
#[track_caller]
pub fn close(got: f64, wanted: f64) {
    assert!((got - wanted).abs() <= 0.01 * wanted, "{got} cycles, not {wanted}");
}
