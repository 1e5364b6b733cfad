//! What the front ends of Intel cores are known to do: predecode, uop cache, loop buffer, macro-fusion.

use crate::common::{close, core, core_with, cycles, cycles_on, run};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn sandy_bridge_loop_buffer_dispatches_whole_groups() {
    // Five fused uops a loop take two cycles, whatever the offset.
    for offset in [0, 7, 31, 50] {
        close(
            cycles("sandybridge", "488b064889074883c6084883c708ffc975f0", offset, Loop),
            2.0,
        );
    }
}

#[test]
fn a_branch_that_starts_a_line_does_not_fuse() {
    // dec and jne: one uop, or two where jne starts a line.
    let dec_jne = |core: &str, offset| {
        let p = run(&crate::common::core(core), "48ffc975fb", offset, Loop).unwrap();
        p.ports.unwrap().iter().flatten().sum::<f64>().round()
    };
    for core in ["sandybridge", "ivybridge", "haswell", "skylake"] {
        assert_eq!((dec_jne(core, 0), dec_jne(core, 61)), (1.0, 2.0), "{core}");
    }
    // The clear loop whose sub ends a line: not fused, so no branch touches the boundary and it
    // stays in the uop cache; uiCA says 1.0.
    close(cycles("skylake", "4889074883c7084883e90873f3", 53, Loop), 1.0);
}

#[test]
fn a_loop_that_is_cached_in_part_decodes_the_rest_ahead() {
    // A copy of 32 bytes whose end is kept out of the cache by its branch; uiCA says 4.0.
    let copy = "488b06488907488b460848894708488b461048894710488b4618488947184883c6204883c7204883e92073d4";
    for offset in 50..60 {
        close(cycles("skylake", copy, offset, Loop), 4.0);
    }
}

#[test]
fn a_64_bit_immediate_ends_what_the_uop_cache_delivers_in_a_cycle() {
    // mov r64, imm64 twice, two adds, dec and jne: six places in one line, but three cycles.
    let hex = "48b8010203040506070848bb01020304050607084801c84801cbffc975e4";
    let cycles = |ends| {
        let set = [("loop_buffer.enabled", "false"), ("uop_cache.wide_ends", ends)];
        cycles_on(&core_with("sandybridge", &set).unwrap(), hex, 0, Loop).unwrap()
    };
    assert!(cycles("true") > cycles("false") + 0.9);
}

#[test]
fn skylake_reads_on_behind_a_taken_branch_to_another_region() {
    // Two loads, two lea, two mov, dec and jne, these in the next 32 bytes: seven uops; uiCA says 1.75.
    let two = "4c8b4c2428488b542458488db424e00000004c8d8424500100004c89f14c89ff49ffcf75db";
    close(cycles("skylake", two, 0, Loop), 1.75);
    // mov, sub by memory, mov, shr, sub, cmp, dec and jne in 20 bytes: seven uops; uiCA says 2.0.
    close(
        cycles("skylake", "89f2412b565489f7c1ef0329ca39fa49ffcf75ec", 0, Loop),
        2.0,
    );
}

#[test]
fn length_changing_prefixes_stall_predecode() {
    let plain = cycles("skylake", "81c001010101", 0, Unrolled);
    assert!(cycles("skylake", "6681c00101", 0, Unrolled) > 2.0 * plain);
}

#[test]
fn an_ideal_front_end_is_never_slower() {
    let hex = "6681c001016681c301016681c101016681c20101";
    let real = run(&core("skylake"), hex, 0, Unrolled).unwrap();
    let ideal = run(
        &core_with("skylake", &[("front_end", "ideal")]).unwrap(),
        hex,
        0,
        Unrolled,
    )
    .unwrap();
    assert!(ideal.cycles < real.cycles);
    assert_eq!(real.bottleneck, "predecode");
}

#[test]
fn a_cut_instruction_waits_for_room_in_the_queue() {
    // 32 instructions in 7 blocks of 16 bytes, one of them cut: 9 cycles; BHive measures 0.57.
    let real = cycles("ivybridge", "84c0488b742430", 0, Unrolled);
    close(real, 9.0 / 16.0);
    let roomy = core_with("ivybridge", &[("predecode.queue", "40")]).unwrap();
    close(cycles_on(&roomy, "84c0488b742430", 0, Unrolled).unwrap(), 0.5);
}
