//! Loops with jumps in what an iteration executes, one at a time: as at every place, with what limits them.

use crate::common::{bytes, core, CORES};
use loopwright_pipeline::batch::{run, Job};
use loopwright_pipeline::block::path::Stretch;
use loopwright_pipeline::block::Notion;
use loopwright_pipeline::isa::Isa;
use loopwright_pipeline::loop_offsets::{run_all, Loop};

/// add rax,rbx; jmp over two nops; dec ecx; jnz to the start.
const OVER: (&str, [Stretch; 2]) = ("4801d8eb029090ffc975f5", [(0, 5), (7, 11)]);
/// imul rax,rbx; jmp over two bytes that are no instruction; dec ecx; jnz to the start.
const CHAIN: (&str, [Stretch; 2]) = ("480fafc3eb020606ffc975f4", [(0, 6), (8, 12)]);
/// umulh x0,x0,x1; b over a udf; subs x2,x2,1; b.ne to the start.
const ARM64: (&str, [Stretch; 2]) = ("007cc19b0200001400000000420400f181ffff54", [(0, 8), (12, 20)]);

fn job((hex, path): (&str, [Stretch; 2]), offset: u32) -> Job {
    Job {
        code: bytes(hex),
        path: Some(path.to_vec()),
        offset,
        ..Job::default()
    }
}

#[test]
fn a_path_takes_what_it_does_at_every_place() {
    for name in CORES {
        let core = core(name);
        let (given, apart) = match core.params.isa {
            Isa::X86 => (vec![OVER, CHAIN], 1),
            Isa::Arm64 => (vec![ARM64], 4),
        };
        for one in given {
            let wanted = Loop {
                code: bytes(one.0),
                path: Some(one.1.to_vec()),
            };
            let wanted = run_all(&core, &[wanted], 1).remove(0).unwrap();
            for brief in [true, false] {
                let step = if brief { apart } else { 16 * apart }; // limits are found by many runs
                let jobs = (0..64).step_by(step).map(|offset| Job {
                    bottleneck: !brief,
                    ..job(one, offset)
                });
                for (n, found) in run(&core, &jobs.collect::<Vec<Job>>(), 0).into_iter().enumerate() {
                    let cycles = found.unwrap().cycles;
                    assert_eq!(cycles.to_bits(), wanted[n * step].to_bits(), "{name}: {} at {n}", one.0);
                }
            }
        }
    }
}

#[test]
fn what_limits_a_path_is_named_by_the_instructions_that_it_executes() {
    for name in CORES {
        let core = core(name);
        let one = match core.params.isa {
            Isa::X86 => CHAIN,
            Isa::Arm64 => ARM64,
        };
        let found = run(&core, &[job(one, 0)], 1).remove(0).unwrap();
        assert_eq!(found.bottleneck, "dependency chain through instruction 0", "{name}");
    }
    let over = run(&core("zen2"), &[job(OVER, 0)], 1).remove(0).unwrap();
    // Each of the two stretches is a line of its own.
    assert_eq!((over.cycles, over.bottleneck.as_str()), (2.0, "op cache and branches"));
}

#[test]
fn the_timeline_of_a_path_has_what_is_executed() {
    let timed = Job {
        timeline: 2,
        bottleneck: false,
        ..job(OVER, 0)
    };
    let rows = run(&core("zen2"), &[timed], 1)
        .remove(0)
        .unwrap()
        .timeline
        .unwrap()
        .rows;
    let executed: Vec<u32> = rows.iter().filter(|r| r.iteration == 1).map(|r| r.inst).collect();
    assert_eq!(executed, [0, 1, 2, 3]);
}

#[test]
fn equal_code_with_other_paths_is_kept_apart() {
    // Around the two nops, and through them.
    let (hex, around) = ("4801d875029090ffc975f5", vec![(0, 5), (7, 11)]);
    let each = |path| Job {
        bottleneck: false,
        path,
        ..job((hex, OVER.1), 0)
    };
    let core = core("zen2");
    let found = run(&core, &[each(Some(around)), each(None)], 1);
    let cycles: Vec<f64> = found.into_iter().map(|f| f.unwrap().cycles).collect();
    assert!(cycles[1] < cycles[0], "{cycles:?}");
}

#[test]
fn a_path_is_one_of_a_loop() {
    let unrolled = Job {
        notion: Notion::Unrolled,
        ..job(OVER, 0)
    };
    let why = run(&core("zen2"), &[unrolled], 1).remove(0).unwrap_err().to_string();
    assert!(why.contains("path of stretches"), "{why}");
    let broken = job((OVER.0, [(0, 5), (6, 11)]), 0);
    let why = run(&core("zen2"), &[broken], 1).remove(0).unwrap_err().to_string();
    assert!(why.contains("control cannot go from jmp"), "{why}");
}
