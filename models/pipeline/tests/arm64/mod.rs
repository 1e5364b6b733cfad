//! Known answers on Neoverse N1 and TSV110, and that any word gets an answer.

mod blocks;
mod catalogue;
mod copies;
mod words;

use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::predict::{predict, Request};
use std::sync::LazyLock;

pub(crate) static N1: LazyLock<Core> = LazyLock::new(|| n1(&[]));
pub(crate) static TSV110: LazyLock<Core> = LazyLock::new(|| tsv110(&[]));

pub(crate) fn overrides(set: &[(&str, &str)]) -> Vec<(String, String)> {
    set.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

pub(crate) fn n1(set: &[(&str, &str)]) -> Core {
    let (core, table) = (
        include_str!("../../../neoverse-n1/core.toml"),
        include_str!("../../../neoverse-n1/instructions.csv"),
    );
    Core::new(core, table, &overrides(set)).expect("neoverse-n1")
}

pub(crate) fn tsv110(set: &[(&str, &str)]) -> Core {
    let (core, table) = (
        include_str!("../../../tsv110/core.toml"),
        include_str!("../../../tsv110/instructions.csv"),
    );
    Core::new(core, table, &overrides(set)).expect("tsv110")
}

pub(crate) fn cycles(core: &Core, words: &[u32], offset: u32, notion: Notion) -> Result<f64, Error> {
    let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let request = Request {
        code: &code,
        offset,
        notion,
        strings: StringUse::default(),
        bottleneck: true,
        ports: false,
        timeline: 0,
    };
    predict(core, &request).map(|p| p.cycles)
}

#[track_caller]
pub(crate) fn unrolled(core: &Core, words: &[u32], expected: f64) {
    let found = cycles(core, words, 0, Notion::Unrolled).expect("a number");
    assert!((found - expected).abs() < 0.02, "{found} cycles, expected {expected}");
}

#[track_caller]
pub(crate) fn looped(core: &Core, words: &[u32], offset: u32, expected: f64) {
    let found = cycles(core, words, offset, Notion::Loop).expect("a number");
    assert!((found - expected).abs() < 0.02, "{found} cycles, expected {expected}");
}
