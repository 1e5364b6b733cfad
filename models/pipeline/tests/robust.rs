//! Any bytes, tables and parameters give a number or an error, never a panic.

use crate::common::{core, core_with, CORES};
use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::figures::FigureTable;
use loopwright_pipeline::core::params::Params;
use loopwright_pipeline::core::Core;
use loopwright_pipeline::predict::{predict, Request};
use proptest::prelude::*;

fn check(core: &Core, code: &[u8], offset: u32, notion: Notion) {
    let request = Request {
        code,
        offset,
        notion,
        strings: StringUse::default(),
        bottleneck: true,
        ports: true,
        timeline: 2,
    };
    if let Ok(p) = predict(core, &request) {
        assert!(p.cycles.is_finite() && p.cycles >= 0.0);
    }
}

/// Instructions that decode, so that more than the decoder is reached.
fn snippet() -> impl Strategy<Value = Vec<u8>> {
    let known = prop_oneof![
        Just("4801d8"),
        Just("48031e"),
        Just("480106"),
        Just("4c8d640a08"),
        Just("f7e1"),
        Just("48f7f1"),
        Just("50"),
        Just("415c"),
        Just("f3a4"),
        Just("48abf3"),
        Just("c5fc5806"),
        Just("c5fe6f06"),
        Just("c5fe7f06"),
        Just("660fefc0"),
        Just("0faee8"),
        Just("f0480fc106"),
        Just("6681c00101"),
        Just("48b80102030405060708"),
        Just("4839d8"),
        Just("7500"),
        Just("9090"),
        Just("89c3"),
        Just("4883c401"),
        Just("0fa2"),
        Just("ffe0"),
    ];
    prop::collection::vec(known, 1..24).prop_map(|parts| crate::common::bytes(&parts.concat()))
}

/// Of one byte there is no half: the cache takes two such stores one by one.
#[test]
fn stores_commit_by_single_bytes() {
    for name in ["redwoodcove", "skylake", "zen4"] {
        let core = core_with(name, &[("memory.commit_bytes", "1"), ("memory.commit_middle", "true")]).expect(name);
        let code = crate::common::bytes("8807884701");
        let request = Request {
            code: &code,
            offset: 0,
            notion: Notion::Unrolled,
            strings: StringUse::default(),
            bottleneck: false,
            ports: false,
            timeline: 0,
        };
        assert_eq!(predict(&core, &request).expect(name).cycles, 2.0, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(code in prop::collection::vec(any::<u8>(), 0..48), offset in any::<u32>(), which in 0usize..8, looped: bool) {
        check(&core(CORES[which]), &code, offset, if looped { Notion::Loop } else { Notion::Unrolled });
    }

    #[test]
    fn any_known_instructions(code in snippet(), offset in 0u32..64, which in 0usize..6, looped: bool) {
        let mut code = code;
        if looped {
            code.extend([0x75, 0x80]);
        }
        check(&core(CORES[which]), &code, offset, if looped { Notion::Loop } else { Notion::Unrolled });
    }

    #[test]
    fn any_parameter(name in prop::sample::select(Params::names()), value in "[-a-z0-9.]{0,6}|[0-9]{1,4}|true|false", which in 0usize..8) {
        if let Ok(core) = core_with(CORES[which], &[(name, &value)]) {
            let code = if which < 6 { "4801d8480106488b06415c75f2" } else { "c72000a9272040a9420001f1aafeff54" };
            check(&core, &crate::common::bytes(code), 3, Notion::Loop);
            check(&core, &crate::common::bytes(code), 3, Notion::Unrolled);
        }
    }

    #[test]
    fn any_table(text in "(mnemonic\n)?[a-z0-9,;:+*>|\" \n]{0,200}") {
        let params = &core(CORES[0]).params;
        let _ = FigureTable::parse(&text, params);
        let _ = Params::parse(&text, &[]);
    }
}
