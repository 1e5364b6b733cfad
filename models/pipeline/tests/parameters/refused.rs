//! What is refused of parameters, and in what words.

use crate::common::{bytes, close, core_with, cycles_on, text};
use loopwright_pipeline::block::Notion::Unrolled;
use loopwright_pipeline::block::StringUse;
use loopwright_pipeline::core::Core;
use loopwright_pipeline::predict::{predict, Request};

#[test]
fn what_is_wrong_is_said_with_the_mend() {
    let said = |core: &str, set: &[(&str, &str)]| core_with(core, set).unwrap_err().to_string();
    for (core, name, value, words) in [
        ("skylake", "memory.pointer_chase_gain", "65536", "must be from 0 to 100"),
        (
            "skylake",
            "macro_fusion.pairs",
            "any",
            "none or table or cmp_test or flags",
        ),
        ("skylake", "predecode.block_bytes", "24", "power of two"),
        ("skylake", "uop_cache.region_bytes", "128", "must be from 4 to 64"),
        (
            "skylake",
            "rename.queue",
            "2",
            "at least 6, as decode.width and uop_cache.width",
        ),
        ("skylake", "ports.names", "\"01234566\"", "6 stands twice"),
        (
            "skylake",
            "ports.slots",
            "0191",
            "one to eight of 0, 1, 2, 3, 4, h, l and t",
        ),
        ("skylake", "memory.forward_cycles", "1", "must be from 2 to 1000"),
        (
            "redwoodcove",
            "string.movsb_cycles",
            "[[64, 1, 1], [64, 2, 2]]",
            "bytes must ascend",
        ),
        // What can do nothing on this core.
        (
            "zen2",
            "predecode.width",
            "3",
            "does nothing here: front_end.fetch is blocks",
        ),
        ("zen2", "fetch.block_bytes", "16", "op cache holds all code"),
        ("zen2", "uop_cache.lines", "2", "uop_cache.rule is not region"),
        ("zen2", "ports.tie", "low", "ports.assign is not dispatch_slots"),
        ("zen2", "ports.result_patience", "3", "ports.result_cycles is 0"),
        ("skylake", "ports.borrowed", "01", "ports.assign is not at_issue"),
        ("zen2", "ports.joint_patience", "3", "ports.joint names no ports"),
        ("zen2", "taken_branch.second_bubble", "3", "taken_branch.level is not 1"),
        ("skylake", "loop_buffer.uops", "20", "loop_buffer.enabled is false"),
        ("skylake", "memory.misaligned_by", "4", "are 0"),
        ("neoverse-n1", "uop_cache.width", "4", "uop_cache.rule is none"),
        ("neoverse-n1", "string.movs_rate", "16", "x86-64 alone"),
        (
            "neoverse-n1",
            "memory.load_cycles",
            "5",
            "lists the latency of every load",
        ),
    ] {
        let found = said(core, &[(name, value)]);
        assert!(found.contains(words) && found.contains(name), "{found}");
    }
    assert!(core_with(
        "zen2",
        &[("taken_branch.level", "1"), ("taken_branch.second_bubble", "3")]
    )
    .is_ok());
}

#[test]
fn a_key_of_core_toml_that_is_no_parameter_is_refused() {
    let toml = text("zen2", "core.toml").replace("\nforward_cycles", "\nforwad_cycles");
    let error = Core::new(&toml, &text("zen2", "instructions.csv"), &[]).unwrap_err();
    assert!(
        error.to_string().contains("memory.forwad_cycles: no such parameter"),
        "{error}"
    );
}

#[test]
fn string_instructions_take_what_their_bytes_take_or_are_refused() {
    let cycles = |count: u32| {
        let core = core_with("zen2", &[]).unwrap();
        let strings = StringUse {
            count: Some(count),
            destination: None,
            ..StringUse::default()
        };
        let request = Request {
            code: &bytes("f3a4"),
            offset: 0,
            notion: Unrolled,
            strings,
            bottleneck: true,
            ports: false,
            timeline: 0,
        };
        predict(&core, &request).map(|p| p.cycles)
    };
    close(cycles(4 << 20).unwrap(), 35.0 + f64::from(4 << 20) / 32.0);
    close(cycles(16 << 20).unwrap(), 35.0 + f64::from(16 << 20) / 32.0);
    let error = cycles(40 << 20).unwrap_err().to_string();
    assert!(
        error.contains("takes 1310755 cycles: at most 1000000 are simulated"),
        "{error}"
    );
    assert!(cycles(u32::MAX).is_err());
}

#[test]
fn a_limit_may_be_none_by_a_word() {
    let moves = "4889d84889c3";
    let with = |slots: &str| {
        let core = core_with("skylake", &[("rename.move_slots_gpr", slots)]).unwrap();
        cycles_on(&core, moves, 0, Unrolled).unwrap()
    };
    assert!(with("unlimited") < with("0"), "{} cycles", with("unlimited"));
    let wrong = core_with("skylake", &[("rename.move_slots_gpr", "endless")]).unwrap_err();
    assert!(
        wrong.to_string().contains("must be a whole number or unlimited"),
        "{wrong}"
    );
    assert!(core_with("skylake", &[("rename.width", "unlimited")]).is_err());
}
