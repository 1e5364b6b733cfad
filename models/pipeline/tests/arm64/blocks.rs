//! What small blocks take: widths, ports, latencies, forwarding, target buffers, accesses across boundaries.

use crate::arm64::{looped, n1, tsv110, unrolled, N1, TSV110};

// nop;nop;nop;nop;nop;nop;nop;nop
pub(crate) const NOPS: [u32; 8] = [
    0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f,
];
// stp x0,x1,[x2]
pub(crate) const STP_X: [u32; 1] = [0xa9000440];
// ldp x0,x1,[x2]
pub(crate) const LDP_X: [u32; 1] = [0xa9400440];
// str x0,[x1]; str x2,[x1,#8]; str x3,[x1,#16]; str x4,[x1,#24]
pub(crate) const STORES: [u32; 4] = [0xf9000020, 0xf9000422, 0xf9000823, 0xf9000c24];
// ldr x0,[x1]; ldr x2,[x1,#8]; ldr x3,[x1,#16]; ldr x4,[x1,#24]
pub(crate) const LOADS: [u32; 4] = [0xf9400020, 0xf9400422, 0xf9400823, 0xf9400c24];
// ldr x0,[x1]; str x2,[x3]; ldr x4,[x1,#8]; str x2,[x3,#8]
pub(crate) const LOAD_STORE: [u32; 4] = [0xf9400020, 0xf9000062, 0xf9400424, 0xf9000462];
// add x0,x8,x9; add x1,x8,x9; add x2,x8,x9; add x3,x8,x9; add x4,x8,x9; add x5,x8,x9
pub(crate) const ADDS3: [u32; 6] = [0x8b090100, 0x8b090101, 0x8b090102, 0x8b090103, 0x8b090104, 0x8b090105];
// add x0,x8,x9,lsl #5; add x1,x8,x9,lsl #5
pub(crate) const SHIFTED: [u32; 2] = [0x8b091500, 0x8b091501];
// add x0,x8,x9,lsl #4; add x1,x8,x9,lsl #4; add x2,x8,x9,lsl #4
pub(crate) const SHIFTED4: [u32; 3] = [0x8b091100, 0x8b091101, 0x8b091102];
// adds x0,x8,x9; subs x1,x8,x9; cmp x8,x9; tst x8,x9
pub(crate) const FLAGS: [u32; 4] = [0xab090100, 0xeb090101, 0xeb09011f, 0xea09011f];
// 1: cbz x0,2f; 2: cbz x1,3f; 3: cbz x2,4f; 4: cbz x3,1b
pub(crate) const BRANCHES: [u32; 4] = [0xb4000020, 0xb4000021, 0xb4000022, 0xb4ffffa3];
// 1: ldr x0,[x1],#8; b 1b
pub(crate) const POST_LOAD: [u32; 2] = [0xf8408420, 0x17ffffff];
// ldr x0,[x1],#8; ldr x2,[x1],#8; ldr x3,[x1],#8; ldr x4,[x1],#8
pub(crate) const POST_LOADS: [u32; 4] = [0xf8408420, 0xf8408422, 0xf8408423, 0xf8408424];
// ldr x0,[x0]
pub(crate) const CHASE: [u32; 1] = [0xf9400000];
// str x0,[x1]; ldr x0,[x1]
pub(crate) const FORWARD: [u32; 2] = [0xf9000020, 0xf9400020];
// mov x0,x1; mov x2,x3; mov x4,x5; mov x6,x7
pub(crate) const MOVES: [u32; 4] = [0xaa0103e0, 0xaa0303e2, 0xaa0503e4, 0xaa0703e6];
// mul x0,x0,x1
pub(crate) const MULS: [u32; 1] = [0x9b017c00];
// adcs x0,x0,x1
pub(crate) const ADC: [u32; 1] = [0xba010000];
// ldp x0,x1,[x2]; add x2,x0,x1
pub(crate) const PAIR_DEP: [u32; 2] = [0xa9400440, 0x8b010002];
// 1: add x0,x0,#1; add x1,x1,#1; add x2,x2,#1; b 1b
pub(crate) const SMALL: [u32; 4] = [0x91000400, 0x91000421, 0x91000442, 0x17fffffd];
// udiv x0,x8,x9
pub(crate) const DIV: [u32; 1] = [0x9ac90900];

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
