//! Errors, overrides and reports.

use crate::common::{bytes, core, core_with, cycles_on, run, text, CORES};
use loopwright_pipeline::batch::{run as batch, Job};
use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::params::Params;
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::predict::{predict, Request};

#[test]
fn an_unknown_instruction_is_an_error_that_names_it() {
    let error = run(&core("sandybridge"), "d9fe", 0, Notion::Unrolled).unwrap_err();
    assert!(error.to_string().contains("fsin"), "{error}");
}

#[test]
fn bad_code_is_an_error() {
    assert_eq!(
        run(&core("haswell"), "06", 0, Notion::Unrolled).unwrap_err(),
        Error::Decode(0)
    );
    assert_eq!(
        run(&core("tsv110"), "ffffffff", 0, Notion::Unrolled).unwrap_err(),
        Error::Decode(0)
    );
    assert!(run(&core("haswell"), "", 0, Notion::Unrolled).is_err());
}

#[test]
fn a_loop_must_end_in_a_branch() {
    assert!(matches!(
        run(&core("haswell"), "90", 0, Notion::Loop),
        Err(Error::Block(_))
    ));
}

#[test]
fn a_core_without_tables_has_no_model() {
    let toml = "name = \"x\"\nisa = \"x86_64\"\n";
    assert_eq!(Core::new(toml, "", &[]).unwrap_err(), Error::NoModel);
}

#[test]
fn overrides_are_checked() {
    assert!(core_with("zen2", &[("rename.width", "0")]).is_err());
    assert!(core_with("zen2", &[("rename.wdith", "4")]).is_err());
    assert!(core_with("zen2", &[("ports.load", "zz")]).is_err());
    let narrow = core_with("zen2", &[("rename.instructions", "2")]).unwrap();
    crate::common::close(cycles_on(&narrow, &"90".repeat(6), 0, Notion::Unrolled).unwrap(), 3.0);
}

#[test]
fn every_parameter_has_a_source() {
    for name in CORES {
        let table: toml::Table = text(name, "core.toml").parse().unwrap();
        for parameter in Params::names() {
            let (section, key) = parameter.split_once('.').unwrap();
            let Some(item) = table.get(section).and_then(|t| t.get(key)) else {
                continue;
            };
            for part in ["value", "source", "confidence"] {
                assert!(item.get(part).is_some(), "{name}: {parameter} has no {part}");
            }
        }
    }
}

#[test]
fn the_batch_keeps_order_and_agrees_with_single_calls() {
    let core = core("skylake");
    let blocks = ["90", "4801c0", "06", "488b00", "4883c001"];
    let jobs: Vec<Job> = blocks
        .iter()
        .map(|h| Job {
            code: bytes(h),
            notion: Notion::Unrolled,
            ..Job::default()
        })
        .collect();
    for (hex, result) in blocks.iter().zip(batch(&core, &jobs, 2)) {
        let single = run(&core, hex, 0, Notion::Unrolled);
        assert_eq!(result.map(|p| p.cycles), single.map(|p| p.cycles));
    }
}

#[test]
fn the_timeline_is_in_order() {
    let code = bytes("488b064889074883c6084883c708ffc975f0");
    let request = Request {
        code: &code,
        offset: 0,
        notion: Notion::Loop,
        strings: StringUse::default(),
        bottleneck: true,
        ports: false,
        timeline: 3,
    };
    let timeline = predict(&core("sandybridge"), &request).unwrap().timeline.unwrap();
    let stored = timeline.rows.iter().find(|r| r.role == Some("store data")).unwrap();
    assert_eq!((stored.inst, stored.how, stored.port), (1, "micro-fused", Some('4')));
    assert_eq!(stored.waited_for, "operand from instruction 0");
    for row in &timeline.rows {
        assert!(row.iteration < 3);
        if row.how == "macro-fused" && row.inst == 5 {
            assert_eq!((row.uop, row.dispatched), (None, None));
            continue;
        }
        let steps = [
            row.decoded,
            row.dispatched,
            row.ready,
            row.issued,
            row.executed,
            row.retired,
        ];
        assert!(steps.iter().all(Option::is_some), "{row:?}");
        assert!(steps.is_sorted(), "{row:?}");
        assert!(!row.waited_for.is_empty(), "{row:?}");
    }
    assert_eq!(timeline.rows.len(), 3 * 7);
}

#[test]
fn the_timeline_says_what_a_uop_waited_for() {
    let waits = |name: &str, hex: &str| -> Vec<String> {
        let code = bytes(hex);
        let request = Request {
            code: &code,
            offset: 0,
            notion: Notion::Unrolled,
            strings: StringUse::default(),
            bottleneck: true,
            ports: false,
            timeline: 100,
        };
        let rows = predict(&core(name), &request).unwrap().timeline.unwrap().rows;
        rows.into_iter().rev().map(|r| r.waited_for).collect()
    };
    // imul rax, rax: each waits for the one before.
    assert_eq!(waits("haswell", "480fafc0")[0], "operand from instruction 0");
    // imul eax, ebx, 1: no chain, and port 1 alone multiplies.
    assert!(waits("haswell", "6bc301")[..60].contains(&"port 1 busy".to_string()));
    // cmp rax, [rbx]: the comparison waits for its load and nothing else.
    assert!(waits("haswell", "483b03").contains(&"its own load".to_string()));
    // Nops wait for nothing but the front end or the dispatch slots.
    assert!(waits("haswell", "90")
        .iter()
        .all(|w| w.starts_with("front end") || w == "dispatch width"));
}

#[test]
fn a_timeline_too_long_is_refused() {
    let request = Request {
        code: &[0x90],
        offset: 0,
        notion: Notion::Unrolled,
        strings: StringUse::default(),
        bottleneck: true,
        ports: false,
        timeline: u32::MAX,
    };
    let error = predict(&core("haswell"), &request).unwrap_err();
    assert!(error.to_string().contains("at most 200000"), "{error}");
}

#[test]
fn an_eliminated_move_has_no_port() {
    let request = Request {
        code: &bytes("4889c3"),
        offset: 0,
        notion: Notion::Unrolled,
        strings: StringUse::default(),
        bottleneck: true,
        ports: false,
        timeline: 5,
    };
    let rows = predict(&core("zen2"), &request).unwrap().timeline.unwrap().rows;
    assert!(
        rows.iter().all(|r| r.how == "eliminated" && r.port.is_none()),
        "{rows:?}"
    );
}

#[test]
fn x87_registers_are_told_by_the_top_of_their_stack() {
    let rows = "fld,other,1,1,0,,0,*:1,,,,test\n\
        fld1,,1,1,0,,0,*:1,,,,test\n\
        fstp,other,1,1,0,,0,*:1,,,,test\n\
        fmul,\"other,other\",1,1,0,,1,*:7,,,,test\n\
        fmulp,\"other,other\",1,1,0,,1,*:7,,,,test\n\
        fxch,\"other,other\",1,1,0,,,*:0,elim,,,test\n";
    let others = text("zen2", "instructions.csv");
    let others: String = others
        .split_inclusive('\n')
        .filter(|row| !row.starts_with('f'))
        .collect();
    let table = format!("{others}{rows}");
    let known = Core::new(&text("zen2", "core.toml"), &table, &[]).unwrap();
    for (hex, cycles) in [
        ("d9e8dec9", 7.0),         // fld1; fmulp: a chain in what is st(0) between two of them
        ("d9c1d8c9ddda", 9.0),     // fld st(1); fmul st, st(1); fstp st(2): what it loads next
        ("d9c1d8c9ddd8", 2.0),     // the same, dropped: two uops for one port
        ("d9c9d8c9", 7.0),         // fxch; fmul st, st(1): of the last two products
        ("d9c9d8cad9c9d8ca", 7.0), // fxch; fmul st, st(2), twice: two chains by turns
    ] {
        let found = run(&known, hex, 0, Notion::Unrolled).unwrap().cycles;
        assert!((found - cycles).abs() < 0.01, "{hex}: {found}");
    }
}

#[test]
fn port_uses_add_up() {
    let p = run(&core("haswell"), "488b0748894608", 0, Notion::Unrolled).unwrap();
    let uses: f64 = p.ports.unwrap().iter().flatten().sum();
    assert!((uses - 3.0).abs() < 1e-9, "{uses}");
}

#[test]
fn an_outline_says_what_code_needs_and_where_it_goes() {
    use loopwright_pipeline::isa::outline::outline;
    use loopwright_pipeline::isa::Isa;
    let of = |isa, hex: &str| outline(isa, &bytes(hex));
    let named = |isa, hex: &str| -> Vec<String> { of(isa, hex).unwrap().extensions.into_iter().collect() };
    // vfmadd231ps %ymm2, %ymm1, %ymm0; the same of zmm; tzcnt; endbr64.
    assert_eq!(named(Isa::X86, "c4e275b8c2"), ["FMA"]);
    assert_eq!(named(Isa::X86, "62f27548b8c2"), ["AVX512F"]);
    assert!(named(Isa::X86, "f3480fbcc1").contains(&"BMI1".to_string()));
    assert!(named(Isa::X86, "f30f1efa").is_empty());
    // ldadd x0, x1, [x2]; add z0.b, z1.b, z2.b; paciasp; add x0, x1, x2.
    assert_eq!(named(Isa::Arm64, "410020f8"), ["LSE"]);
    assert_eq!(named(Isa::Arm64, "20002204"), ["SVE"]);
    assert!(named(Isa::Arm64, "3f2303d5").is_empty());
    assert!(named(Isa::Arm64, "2000028b").is_empty());
    for (isa, hex, branch, straight) in [
        (Isa::X86, "48ffc975fb", true, true),   // dec; jne
        (Isa::X86, "75fb90", false, true),      // jne; nop
        (Isa::X86, "f348a5", false, false),     // rep movsq
        (Isa::X86, "e800000000", false, false), // call
        (Isa::X86, "ffe0", false, false),       // jmp *%rax
        (Isa::Arm64, "c1ffff54", true, true),   // b.ne
        (Isa::Arm64, "00000094", false, false), // bl
        (Isa::Arm64, "c0035fd6", false, false), // ret
        (Isa::Arm64, "00000014", true, true),   // b
        (Isa::Arm64, "200000b4", true, true),   // cbz
    ] {
        let found = of(isa, hex).unwrap();
        assert_eq!((found.ends_in_branch, found.straight), (branch, straight), "{hex}");
    }
    assert_eq!(of(Isa::X86, "9006"), Err(1));
    assert_eq!(of(Isa::X86, "4889"), Err(0));
    assert_eq!(of(Isa::Arm64, "1f2003d5ff"), Err(4));
    assert_eq!(of(Isa::Arm64, "ffffffff"), Err(0));
}
