//! Known answers on Neoverse N1 and TSV110, and that any word gets an answer.

use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::isa::arm64::decode;
use loopwright_pipeline::predict::{predict, Request};
use proptest::prelude::*;
use std::sync::LazyLock;

static N1: LazyLock<Core> = LazyLock::new(|| n1(&[]));
static TSV110: LazyLock<Core> = LazyLock::new(|| tsv110(&[]));

fn overrides(set: &[(&str, &str)]) -> Vec<(String, String)> {
    set.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
}

fn n1(set: &[(&str, &str)]) -> Core {
    let (core, table) = (
        include_str!("../../neoverse-n1/core.toml"),
        include_str!("../../neoverse-n1/instructions.csv"),
    );
    Core::new(core, table, &overrides(set)).expect("neoverse-n1")
}

fn tsv110(set: &[(&str, &str)]) -> Core {
    let (core, table) = (
        include_str!("../../tsv110/core.toml"),
        include_str!("../../tsv110/instructions.csv"),
    );
    Core::new(core, table, &overrides(set)).expect("tsv110")
}

fn cycles(core: &Core, words: &[u32], offset: u32, notion: Notion) -> Result<f64, Error> {
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
fn unrolled(core: &Core, words: &[u32], expected: f64) {
    let found = cycles(core, words, 0, Notion::Unrolled).expect("a number");
    assert!((found - expected).abs() < 0.02, "{found} cycles, expected {expected}");
}

#[track_caller]
fn looped(core: &Core, words: &[u32], offset: u32, expected: f64) {
    let found = cycles(core, words, offset, Notion::Loop).expect("a number");
    assert!((found - expected).abs() < 0.02, "{found} cycles, expected {expected}");
}

// nop;nop;nop;nop;nop;nop;nop;nop
const NOPS: [u32; 8] = [
    0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f,
];
// stp x0,x1,[x2]
const STP_X: [u32; 1] = [0xa9000440];
// ldp x0,x1,[x2]
const LDP_X: [u32; 1] = [0xa9400440];
// str x0,[x1]; str x2,[x1,#8]; str x3,[x1,#16]; str x4,[x1,#24]
const STORES: [u32; 4] = [0xf9000020, 0xf9000422, 0xf9000823, 0xf9000c24];
// ldr x0,[x1]; ldr x2,[x1,#8]; ldr x3,[x1,#16]; ldr x4,[x1,#24]
const LOADS: [u32; 4] = [0xf9400020, 0xf9400422, 0xf9400823, 0xf9400c24];
// ldr x0,[x1]; str x2,[x3]; ldr x4,[x1,#8]; str x2,[x3,#8]
const LOAD_STORE: [u32; 4] = [0xf9400020, 0xf9000062, 0xf9400424, 0xf9000462];
// add x0,x8,x9; add x1,x8,x9; add x2,x8,x9; add x3,x8,x9; add x4,x8,x9; add x5,x8,x9
const ADDS3: [u32; 6] = [0x8b090100, 0x8b090101, 0x8b090102, 0x8b090103, 0x8b090104, 0x8b090105];
// add x0,x8,x9,lsl #5; add x1,x8,x9,lsl #5
const SHIFTED: [u32; 2] = [0x8b091500, 0x8b091501];
// add x0,x8,x9,lsl #4; add x1,x8,x9,lsl #4; add x2,x8,x9,lsl #4
const SHIFTED4: [u32; 3] = [0x8b091100, 0x8b091101, 0x8b091102];
// adds x0,x8,x9; subs x1,x8,x9; cmp x8,x9; tst x8,x9
const FLAGS: [u32; 4] = [0xab090100, 0xeb090101, 0xeb09011f, 0xea09011f];
// 1: cbz x0,2f; 2: cbz x1,3f; 3: cbz x2,4f; 4: cbz x3,1b
const BRANCHES: [u32; 4] = [0xb4000020, 0xb4000021, 0xb4000022, 0xb4ffffa3];
// 1: ldr x0,[x1],#8; b 1b
const POST_LOAD: [u32; 2] = [0xf8408420, 0x17ffffff];
// ldr x0,[x1],#8; ldr x2,[x1],#8; ldr x3,[x1],#8; ldr x4,[x1],#8
const POST_LOADS: [u32; 4] = [0xf8408420, 0xf8408422, 0xf8408423, 0xf8408424];
// ldr x0,[x0]
const CHASE: [u32; 1] = [0xf9400000];
// str x0,[x1]; ldr x0,[x1]
const FORWARD: [u32; 2] = [0xf9000020, 0xf9400020];
// mov x0,x1; mov x2,x3; mov x4,x5; mov x6,x7
const MOVES: [u32; 4] = [0xaa0103e0, 0xaa0303e2, 0xaa0503e4, 0xaa0703e6];
// mul x0,x0,x1
const MULS: [u32; 1] = [0x9b017c00];
// adcs x0,x0,x1
const ADC: [u32; 1] = [0xba010000];
// ldp x0,x1,[x2]; add x2,x0,x1
const PAIR_DEP: [u32; 2] = [0xa9400440, 0x8b010002];
// 1: add x0,x0,#1; add x1,x1,#1; add x2,x2,#1; b 1b
const SMALL: [u32; 4] = [0x91000400, 0x91000421, 0x91000442, 0x17fffffd];
// udiv x0,x8,x9
const DIV: [u32; 1] = [0x9ac90900];

// The large loops of kernels/arm64/copy_user.
const TO_USER_PAIRS: [u32; 18] = [
    0xf80008c7, 0xf80088c8, 0x910040c6, 0xa8c12027, 0xf80008c9, 0xf80088ca, 0x910040c6, 0xa8c12829, 0xf80008cb,
    0xf80088cc, 0x910040c6, 0xa8c1302b, 0xf80008cd, 0xf80088ce, 0x910040c6, 0xa8c1382d, 0xf1010042, 0x54fffdea,
];
const TO_USER_BATCHED: [u32; 16] = [
    0xf80008c7, 0xf80088c8, 0xa9402027, 0xf80108c9, 0xf80188ca, 0xa9412829, 0xf80208cb, 0xf80288cc, 0xa942302b,
    0xf80308cd, 0xf80388ce, 0xa943382d, 0x910100c6, 0x91010021, 0xf1010042, 0x54fffe2a,
];
const NOPAN: [u32; 12] = [
    0xa90020c7, 0xa9402027, 0xa90128c9, 0xa9412829, 0xa90230cb, 0xa942302b, 0xa90338cd, 0xa943382d, 0x910100c6,
    0x91010021, 0xf1010042, 0x54fffeaa,
];
const FROM_USER_PAIRS: [u32; 18] = [
    0xa88120c7, 0xf8400827, 0xf8408828, 0x91004021, 0xa88128c9, 0xf8400829, 0xf840882a, 0x91004021, 0xa88130cb,
    0xf840082b, 0xf840882c, 0x91004021, 0xa88138cd, 0xf840082d, 0xf840882e, 0x91004021, 0xf1010042, 0x54fffdea,
];
const FROM_USER_BATCHED: [u32; 16] = [
    0xa90020c7, 0xf8400827, 0xf8408828, 0xa90128c9, 0xf8410829, 0xf841882a, 0xa90230cb, 0xf842082b, 0xf842882c,
    0xa90338cd, 0xf843082d, 0xf843882e, 0x910100c6, 0x91010021, 0xf1010042, 0x54fffe2a,
];

#[test]
fn n1_decodes_four_instructions_a_cycle() {
    unrolled(&N1, &NOPS, 2.0);
}

#[test]
fn n1_takes_one_branch_a_cycle() {
    looped(&N1, &BRANCHES, 0, 4.0);
    looped(&N1, &SMALL, 0, 1.0);
}

#[test]
fn n1_pairs_go_one_a_cycle() {
    unrolled(&N1, &STP_X, 1.0);
    unrolled(&N1, &LDP_X, 1.0);
}

#[test]
fn n1_adds_three_a_cycle_and_shifts_on_one_pipe() {
    unrolled(&N1, &ADDS3, 2.0);
    unrolled(&N1, &SHIFTED4, 1.0);
    unrolled(&N1, &SHIFTED, 2.0);
    unrolled(&N1, &FLAGS, 4.0 / 3.0);
}

#[test]
fn n1_loads_and_stores_two_a_cycle() {
    unrolled(&N1, &LOADS, 2.0);
    unrolled(&N1, &STORES, 2.0);
    unrolled(&N1, &CHASE, 4.0);
}

#[test]
fn n1_divides_five_cycles_apart() {
    unrolled(&N1, &DIV, 5.0);
}

#[test]
fn tsv110_stores_one_a_cycle() {
    unrolled(&TSV110, &STORES, 4.0);
    unrolled(&TSV110, &STP_X, 1.0);
}

#[test]
fn tsv110_loads_two_or_loads_and_stores_one_a_cycle() {
    unrolled(&TSV110, &LOADS, 2.0);
    unrolled(&TSV110, &LOAD_STORE, 2.0);
    unrolled(&TSV110, &LDP_X, 0.5);
}

#[test]
fn tsv110_sets_flags_two_a_cycle_and_adds_three() {
    unrolled(&TSV110, &FLAGS, 2.0);
    unrolled(&TSV110, &ADDS3, 2.0);
    unrolled(&TSV110, &SHIFTED, 2.0);
    looped(&TSV110, &SMALL, 0, 4.0 / 3.0);
}

#[test]
fn tsv110_eliminates_moves() {
    unrolled(&TSV110, &MOVES, 1.0);
    unrolled(&N1, &MOVES, 4.0 / 3.0);
}

#[test]
fn chains_take_their_latencies() {
    for core in [&*N1, &*TSV110] {
        unrolled(core, &MULS, 4.0);
        unrolled(core, &ADC, 1.0);
        unrolled(core, &PAIR_DEP, 5.0);
    }
}

#[test]
fn an_updated_base_is_ready_after_a_cycle() {
    for core in [&*N1, &*TSV110] {
        looped(core, &POST_LOAD, 0, 1.0);
        unrolled(core, &POST_LOADS, 4.0);
    }
}

#[test]
fn a_store_is_forwarded_to_a_load() {
    // Measured: 5.5.
    unrolled(&N1, &FORWARD, 6.0);
    unrolled(&TSV110, &FORWARD, 6.0);
    // stp x3, x0, [x1]; ldr x0, [x1, #8], then ldr x0, [x1, #16].
    unrolled(&TSV110, &[0xa900_0023, 0xf940_0420], 6.0);
    unrolled(&TSV110, &[0xa900_0023, 0xf940_0820], 1.0);
    unrolled(&tsv110(&[("memory.forward_cycles", "9")]), &FORWARD, 9.0);
}

#[test]
fn loops_that_straddle_a_fetch_block_take_a_cycle_more() {
    looped(&N1, &SMALL, 16, 1.0);
    looped(&N1, &SMALL, 24, 2.0);
    looped(&TSV110, &SMALL, 16, 4.0 / 3.0);
    looped(&TSV110, &SMALL, 24, 2.0);
}

#[test]
fn slower_target_buffers_cost_cycles() {
    looped(&n1(&[("taken_branch.level", "1")]), &SMALL, 0, 2.0);
    looped(&n1(&[("taken_branch.level", "2")]), &SMALL, 0, 2.0);
    looped(&tsv110(&[("taken_branch.level", "1")]), &SMALL, 0, 3.0);
    // cbz x1, out; subs x0, x0, #1; b.ne loop: a second branch in the same 32 bytes.
    let dense = [0xb400_0061, 0xf100_0400, 0x54ff_ffc1];
    looped(&n1(&[]), &dense, 0, 2.0);
    looped(&n1(&[("taken_branch.level", "2")]), &dense, 0, 3.0);
    looped(&tsv110(&[("taken_branch.level", "1")]), &dense, 0, 4.0);
}

#[test]
fn accesses_across_16_bytes_take_a_second_slot_on_tsv110() {
    // str q0, [x1]; str q0, [x1, #16], then with ldr.
    let (stores, loads) = ([0x3d80_0020, 0x3d80_0420], [0x3dc0_0020, 0x3dc0_0421]);
    let off = tsv110(&[("memory.misaligned_by", "4")]);
    unrolled(&TSV110, &stores, 2.0);
    unrolled(&off, &stores, 4.0);
    unrolled(&TSV110, &loads, 1.0);
    unrolled(&off, &loads, 2.0);
}

/// Port limits give 100 and 50 %; published for 16 KiB on Kunpeng 920 are 79.7 and 42.3 %, which lie
/// between them and what a pause of a cycle for each line gives: its range in core.toml.
#[test]
fn tsv110_copies_without_unprivileged_accesses_are_as_much_faster_as_ports_say() {
    let pausing = tsv110(&[("memory.stream_line_cycles", "1")]);
    for offset in (0..64).step_by(16) {
        let faster = |core: &Core, before: &[u32]| {
            let at = |words: &[u32]| cycles(core, words, offset, Notion::Loop).expect("a number");
            100.0 * (at(before) / at(&NOPAN) - 1.0)
        };
        for (before, ports, published) in [(&TO_USER_PAIRS[..], 100.0, 79.7), (&FROM_USER_PAIRS[..], 50.0, 42.3)] {
            assert!(
                (faster(&TSV110, before) - ports).abs() < 1.0,
                "{}",
                faster(&TSV110, before)
            );
            assert!(
                faster(&pausing, before) < published + 1.0,
                "{}",
                faster(&pausing, before)
            );
        }
    }
}

#[test]
fn moving_pointers_once_an_iteration_is_no_slower() {
    let at = |words: &[u32]| cycles(&TSV110, words, 0, Notion::Loop).expect("a number");
    assert!(at(&TO_USER_BATCHED) <= at(&TO_USER_PAIRS));
    assert!(at(&FROM_USER_BATCHED) <= at(&FROM_USER_PAIRS));
}

#[test]
fn the_store_port_limits_copies() {
    let limit = |core: &Core, words: &[u32]| {
        let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let request = Request {
            code: &code,
            offset: 0,
            notion: Notion::Loop,
            strings: StringUse::default(),
            bottleneck: true,
            ports: false,
            timeline: 0,
        };
        predict(core, &request).map(|p| p.bottleneck)
    };
    assert_eq!(limit(&TSV110, &TO_USER_PAIRS), Ok("port S".into()));
    assert!(limit(&TSV110, &NOPAN).is_ok_and(|l| l == "port S" || l == "port L"));
    // Loads and addresses of stores share two ports.
    assert_eq!(limit(&N1, &NOPAN), Ok("ports L and K".into()));
}

#[test]
fn what_has_no_figures_is_named() {
    let name = |word: u32| {
        cycles(&N1, &[word], 0, Notion::Unrolled)
            .expect_err("no number")
            .to_string()
    };
    assert_eq!(name(0xd50b_7420), "no figures for dc zva");
    assert_eq!(name(0xd503_3fdf), "no figures for isb");
    assert_eq!(name(0xd503_3b9f), "no figures for dsb");
    assert_eq!(name(0xd53b_e040), "no figures for mrs");
    assert_eq!(name(0xd503_205f), "no figures for wfe");
    assert_eq!(name(0xc85f_7c20), "no figures for ldxr");
    assert_eq!(name(0xd400_0001), "no figures for svc");
}

#[test]
fn words_that_are_no_instructions_are_refused() {
    let two = |word: u32| decode(&[[0x1f, 0x20, 0x03, 0xd5], word.to_le_bytes()].concat()).map(|_| ());
    let at_four = Err(Error::Decode(4));
    // Unallocated; add with a reserved shift; 32-bit add shifted by 40; a mask of all ones;
    // bitfield of mixed widths; load whose base is overwritten both ways; ldp of twice the same.
    for word in [
        0xffff_ffff,
        0x8bc2_0020,
        0x0b02_a020,
        0x9240_fc20,
        0x9300_0020,
        0xf840_8421,
        0xa940_0440 & !(31 << 10),
    ] {
        assert_eq!(two(word), at_four, "{word:08x}");
    }
    assert_eq!(decode(&[0x1f, 0x20, 0x03]).map(|_| ()), Err(Error::Decode(0)));
    assert_eq!(decode(&[0x1f, 0x20, 0x03, 0xd5, 0]).map(|_| ()), Err(Error::Decode(4)));
}

#[test]
fn forms_tell_apart_what_costs_differently() {
    let form = |word: u32| {
        decode(&word.to_le_bytes())
            .map(|d| d[0].form.clone())
            .unwrap_or_default()
    };
    assert_eq!(form(0x8b02_1020), "add x,x,x,lsl4");
    assert_eq!(form(0x8b02_1420), "add x,x,x,shift");
    assert_eq!(form(0x8b22_4820), "add x,x,x,ext");
    assert_eq!(form(0xaa01_03e0), "mov x,x");
    assert_eq!(form(0xf840_8420), "ldr x,[x],i");
    assert_eq!(form(0xf840_8c20), "ldr x,[x,i]!");
    assert_eq!(form(0xf862_7820), "ldr x,[x,x,3]");
    assert_eq!(form(0x3862_c820), "ldrb w,[x,w]");
    assert_eq!(form(0xf840_8820), "ldtr x,[x,i]");
    assert_eq!(form(0xa8c1_0440), "ldp x,x,[x],i");
    assert_eq!(form(0xad01_0440), "stp q,q,[x,i]");
    assert_eq!(form(0x4cdf_a000), "ld1 2q,[x],i");
    assert_eq!(form(0xd503_245f), "nop");
}

/// Words near real instructions: the copy loops with some bits changed.
fn words() -> impl Strategy<Value = Vec<u32>> {
    let real = [
        &NOPS[..],
        &TO_USER_PAIRS,
        &FROM_USER_BATCHED,
        &NOPAN,
        &FLAGS,
        &BRANCHES,
        &SHIFTED,
        &DIV,
    ]
    .concat();
    let near =
        (0..real.len(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(move |(n, a, b, c)| real[n] ^ a & b & c);
    proptest::collection::vec(prop_oneof![near, any::<u32>()], 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_give_a_number_or_an_error(words in words(), offset in 0..64u32, on_n1: bool, looped: bool) {
        let notion = if looped { Notion::Loop } else { Notion::Unrolled };
        let core = if on_n1 { &*N1 } else { &*TSV110 };
        if let Ok(found) = cycles(core, &words, offset, notion) {
            prop_assert!(found.is_finite() && found > 0.0, "{found}");
        }
    }

    #[test]
    fn any_word_gives_a_number_or_an_error(word: u32, bits: u32, n in 0..NOPAN.len()) {
        for word in [word, NOPAN[n] ^ word & bits] {
            for core in [&*N1, &*TSV110] {
                if let Ok(found) = cycles(core, &[word], 0, Notion::Unrolled) {
                    prop_assert!(found.is_finite() && found > 0.0, "{found}");
                }
            }
        }
    }

    #[test]
    fn any_table_gives_a_number_or_an_error(
        rows in proptest::collection::vec(("[0-5]", "[ABCMLSFG]{1,3}([+][ABCMLSFG]{1,2}){0,4}|", "[*af]:[0-9]{1,3}|", "tp=[0-9]|elim|"), 5),
        lines in 0..3u32,
    ) {
        let forms = ["ldp,\"x,x,[x,i]\"", "stp,\"x,x,[x,i]\"", "add,\"x,x,i\"", "subs,\"x,x,i\"", "b.cond,"];
        let mut table = String::from("mnemonic,operands,issue,mite,ms,decoder,ports,latency,flags,indexed,same\n");
        for (form, (issue, ports, latency, flags)) in forms.iter().zip(&rows) {
            table += &format!("{form},{issue},{issue},0,,{ports},{latency},{flags},,\n");
        }
        let set = overrides(&[("memory.stream_line_cycles", &lines.to_string())]);
        if let Ok(core) = Core::new(include_str!("../../tsv110/core.toml"), &table, &set) {
            for notion in [Notion::Loop, Notion::Unrolled] {
                if let Ok(found) = cycles(&core, &NOPAN, 0, notion) {
                    prop_assert!(found.is_finite() && found > 0.0, "{found}");
                }
            }
        }
    }
}
