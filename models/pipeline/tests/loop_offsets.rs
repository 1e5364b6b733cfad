//! Loops at every code offset at once are those of 64 predictions, to the last bit.

use crate::common::{bytes, core, core_with, CORES};
use loopwright_pipeline::batch::{run, Job};
use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::isa::Isa;
use loopwright_pipeline::loop_offsets::{run_all, Loop};
use loopwright_pipeline::predict::{predict, Prediction, Request};

/// Loops of x86-64: short, of many lines, with prefixes that change lengths, calls of microcode, pairs.
const X86: [&str; 9] = [
    "4801d875fb",
    "4883c0014839c875f7",
    "488b06488907488b4608488947084883c6104883c7104883e91075e4",
    "c4e27d18064883c620c5fc29074883c720ffc975eb",
    "6681c001014801d86681c301024829c87cee",
    "0fa2ffc975fa",
    "48b801020304050607084801c348ffc975ee",
    "48893748897708488977104889771848897720488977284889773048897738488d7f40ffc975d9",
    "f3480f2ac0f20f58c1f20f59c2f20f5ec3660fefc048f7f148ffc975e3",
];

/// Loops of AArch64.
const ARM64: [&str; 4] = [
    "0000018bffffff17",
    "0004008b210400f1c1ffff54",
    "020440f8220400f8630400f1a1ffff54",
    "040c40a9240c00a90040009121400091630400f161ffff54",
];

fn loops(core: &Core) -> Vec<Loop> {
    let hex = match core.params.isa {
        Isa::X86 => &X86[..],
        Isa::Arm64 => &ARM64[..],
    };
    let whole = |hex: &&str| Loop {
        code: bytes(hex),
        path: None,
    };
    hex.iter().map(whole).collect()
}

fn alone(core: &Core, code: &[u8], offset: u32) -> Result<f64, String> {
    let request = Request {
        code,
        offset,
        notion: Notion::Loop,
        strings: StringUse::default(),
        bottleneck: false,
        ports: false,
        timeline: 0,
    };
    let found = predict(core, &request).map(|p| p.cycles);
    found.map_err(|e| e.to_string())
}

/// Hold loops at all offsets to predictions of each; how many have a number.
fn hold(core: &Core, loops: &[Loop]) -> usize {
    let step = if core.params.isa == Isa::X86 { 1 } else { 4 };
    let mut answered = 0;
    for (one, found) in loops.iter().zip(run_all(core, loops, 1)) {
        for offset in 0..64 {
            let wanted = alone(core, &one.code, offset as u32);
            match &found {
                Ok(found) if offset % step == 0 => assert_eq!(Ok(found[offset]), wanted, "{one:?} at {offset}"),
                Ok(found) => assert!(found[offset].is_nan(), "{one:?} at {offset}"),
                Err(error) => assert_eq!(Err(error.to_string()), wanted, "{one:?} at {offset}"),
            }
        }
        answered += usize::from(found.is_ok());
    }
    answered
}

#[test]
fn all_cores_answer_as_at_each_offset_alone() {
    for name in CORES {
        let core = core(name);
        let loops = loops(&core);
        let answered = hold(&core, &loops);
        assert!(answered * 2 > loops.len(), "{name}: {answered} of {}", loops.len());
    }
}

#[test]
fn parameters_of_places_count() {
    let set = |name: &str, parameter: &str, value: &str| core_with(name, &[(parameter, value)]).unwrap();
    for core in [
        set("skylake", "uop_cache.rule", "none"),
        set("skylake", "uop_cache.rule", "entry"),
        set("haswell", "uop_cache.one_region", "true"),
        set("goldencove", "uop_cache.cut_branch_apart", "false"),
        set("haswell", "macro_fusion.boundary_bytes", "64"),
        set("haswell", "loop_buffer.enabled", "false"),
        set("haswell", "front_end.mode", "ideal"),
    ] {
        assert!(hold(&core, &loops(&core)) > 0);
    }
}

#[test]
fn a_place_changes_what_some_loops_take() {
    let core = core("zen2");
    let found = run_all(&core, &loops(&core), 0);
    let changes = |cycles: &[f64; 64]| cycles.iter().any(|c| *c != cycles[0]);
    assert!(found.iter().flatten().any(changes));
}

#[test]
fn equal_loops_get_equal_answers_and_others_their_own() {
    let core = core("zen2");
    let mut twice = loops(&core);
    twice.extend(loops(&core));
    let (found, each) = (run_all(&core, &twice, 2), run_all(&core, &loops(&core), 1));
    let bits = |found: &[Result<[f64; 64], _>]| -> Vec<Option<[u64; 64]>> {
        let of = |r: &Result<[f64; 64], _>| r.as_ref().ok().map(|cycles| cycles.map(f64::to_bits));
        found.iter().map(of).collect()
    };
    assert_eq!(bits(&found), [bits(&each), bits(&each)].concat());
}

fn path(core: &Core, hex: &str, stretches: &[(u32, u32)]) -> Result<[f64; 64], String> {
    let one = Loop {
        code: bytes(hex),
        path: Some(stretches.to_vec()),
    };
    run_all(core, &[one], 1).remove(0).map_err(|e| e.to_string())
}

// add rax,rbx; jmp over two nops; dec ecx; jnz to the start.
const OVER: &str = "4801d8eb029090ffc975f5";

#[test]
fn all_of_a_loop_in_one_stretch_is_the_loop() {
    for name in ["zen2", "sandybridge", "skylake"] {
        let core = core(name);
        for one in loops(&core) {
            let hex: String = one.code.iter().map(|b| format!("{b:02x}")).collect();
            let whole = run_all(&core, std::slice::from_ref(&one), 1).remove(0);
            let found = path(&core, &hex, &[(0, one.code.len() as u32)]);
            assert_eq!(found.is_ok(), whole.is_ok(), "{hex}");
            if let (Ok(found), Ok(whole)) = (found, whole) {
                assert_eq!(found.map(f64::to_bits), whole.map(f64::to_bits), "{hex}");
            }
        }
    }
}

#[test]
fn a_loop_without_a_path_follows_its_jumps_forward() {
    for name in ["zen2", "skylake", "icelake"] {
        let core = core(name);
        // Over nops, over a division, over what does not decode, over nothing.
        for (hex, second) in [
            (OVER, 7),
            ("4801d8eb0348f7f1ffc975f4", 8),
            ("4801d8eb03060606ffc975f4", 8),
            ("4801d8eb00ffc975f7", 5),
        ] {
            let end = hex.len() as u32 / 2;
            let along = path(&core, hex, &[(0, 5), (second, end)]).unwrap();
            let whole = run_all(
                &core,
                &[Loop {
                    code: bytes(hex),
                    path: None,
                }],
                1,
            );
            assert_eq!(whole[0].as_ref().unwrap(), &along, "{name} {hex}");
            assert_eq!(alone(&core, &bytes(hex), 0).unwrap(), along[0], "{name} {hex}");
            // Two taken branches an iteration.
            assert_eq!(along[0], 2.0, "{name} {hex}");
        }
    }
}

#[test]
fn what_a_jump_leaves_out_is_not_executed() {
    let core = core("zen2");
    let around = path(&core, OVER, &[(0, 5), (7, 11)]).unwrap();
    // A second taken branch an iteration takes a cycle.
    assert_eq!(around[0], 2.0);
    let straight = path(&core, "4801d8ffc975f9", &[(0, 7)]).unwrap();
    assert_eq!(straight[0], 1.0);
    // A division in the gap is of no account, nor is what does not decode.
    for gap in ["48f7f1", "060606"] {
        let hex = format!("4801d8eb03{gap}ffc975f4");
        assert_eq!(path(&core, &hex, &[(0, 5), (8, 12)]).unwrap()[0], 2.0, "{gap}");
    }
    // The same loop from its other half on.
    assert_eq!(path(&core, OVER, &[(7, 11), (0, 5)]).unwrap(), around);
}

#[test]
fn a_path_that_control_cannot_take_is_an_error() {
    let core = core("zen2");
    let whys = [
        (vec![], "no code"),
        (vec![(0, 5)], "control cannot go from jmp"),
        (vec![(0, 5), (6, 11)], "control cannot go from jmp"),
        (vec![(0, 3), (7, 11)], "control cannot go from add"),
        (vec![(0, 5), (7, 9)], "control cannot go from dec"),
        (vec![(0, 5), (7, 12)], "no stretch of 11 bytes of code: 7 to 12"),
        (vec![(5, 5), (7, 11)], "no stretch of 11 bytes of code: 5 to 5"),
        (vec![(0, 4), (7, 11)], "invalid code at byte 3"),
    ];
    for (stretches, why) in whys {
        let found = path(&core, OVER, &stretches).unwrap_err();
        assert!(found.starts_with(why), "{stretches:?}: {found}");
    }
}

#[test]
fn blocks_of_one_code_in_a_batch_answer_as_alone() {
    for name in ["zen2", "zen4", "skylake"] {
        let core = core(name);
        for notion in [Notion::Loop, Notion::Unrolled] {
            let places = (0..64)
                .step_by(5)
                .flat_map(|offset| loops(&core).into_iter().map(move |one| (one.code, offset)));
            let jobs: Vec<Job> = places
                .map(|(code, offset)| Job {
                    code,
                    offset,
                    notion,
                    bottleneck: false,
                    ..Job::default()
                })
                .collect();
            for (job, found) in jobs.iter().zip(run(&core, &jobs, 2)) {
                let request = Request {
                    code: &job.code,
                    offset: job.offset,
                    notion,
                    strings: job.strings,
                    bottleneck: false,
                    ports: false,
                    timeline: 0,
                };
                let told = |p: Result<Prediction, _>| p.map(|p| (p.cycles.to_bits(), p.steady, p.simulated, p.caveats));
                assert_eq!(told(found), told(predict(&core, &request)), "{name}: {job:?}");
            }
        }
    }
}
