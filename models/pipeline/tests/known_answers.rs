//! What is known of the cores, from measurements and vendors' texts.

mod common;

use common::{close, core, core_with, cycles, run};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn zen2_loads_two_a_cycle_and_stores_one() {
    close(cycles("zen2", "488b07488b5f08488b4f10", 0, Unrolled), 1.5);
    close(cycles("zen2", "4889074889470848894710", 0, Unrolled), 3.0);
    close(cycles("zen2", "488b07488b5f084889471048894718", 0, Unrolled), 2.0);
}

#[test]
fn zen2_dispatches_five_nops_a_cycle() {
    close(cycles("zen2", &"90".repeat(6), 0, Unrolled), 1.2);
}

#[test]
fn zen2_fuses_compare_and_branch() {
    let p = run(&core("zen2"), "4839c375fb", 0, Loop).unwrap();
    close(p.cycles, 1.0);
    let uses: f64 = p.ports.unwrap().iter().flatten().sum();
    assert!((uses - 1.0).abs() < 0.1, "{uses} uops");
}

#[test]
fn zen2_scaled_lea_takes_two_cycles() {
    close(cycles("zen2", "488d0498", 0, Unrolled), 2.0);
}

#[test]
fn zen2_zero_idioms_take_an_alu() {
    close(cycles("zen2", "31c031db31c931d2", 0, Unrolled), 1.0);
}

#[test]
fn zen2_renames_memory() {
    close(cycles("zen2", "480107", 0, Unrolled), 1.0);
    close(cycles("zen2", "5058", 0, Unrolled), 1.0);
}

#[test]
fn zen2_clear_loop_that_straddles_a_line_is_half_as_fast() {
    let clear = "48c707000000004883c708ffc975f1";
    let aligned = cycles("zen2", clear, 0, Loop);
    for offset in [51, 52, 56, 60, 63] {
        close(cycles("zen2", clear, offset, Loop), 2.0 * aligned);
    }
    for offset in [0, 16, 32, 48] {
        close(cycles("zen2", clear, offset, Loop), aligned);
    }
}

#[test]
fn zen2_misaligned_stores_take_two_cycles() {
    let off = |name: &str, hex: &str, notion| {
        let core = core_with(name, &[("memory.misaligned_by", "4")]).unwrap();
        run(&core, hex, 0, notion).unwrap().cycles
    };
    // movups and vmovups of four and two places in a row.
    let (by_16, by_32) = ("0f11070f1147100f1147200f114730", "c5fc1107c5fc114720");
    close(cycles("zen2", by_16, 0, Unrolled), 4.0);
    close(off("zen2", by_16, Unrolled), 8.0);
    close(off("zen2", by_32, Unrolled), 4.0);
    // Loads of 16 bytes: every second crosses 32 bytes; of 32 bytes, measured 0.92 to 1.04, all do.
    close(off("zen2", "0f10070f104f100f1057200f105f30", Unrolled), 3.0);
    close(off("zen2", "c5fc1007c5fc104f20", Unrolled), 2.0);
    // Of 8-byte stores that move on every second crosses 16 bytes.
    close(
        off("zen2", "48890748 83c708ffc975f5".replace(' ', "").as_str(), Loop),
        1.5,
    );
    // Measured 1.0 and 1.5 cycles a store, 0.51 a load; the ports are not always all in use.
    for (hex, measured) in [(by_16, 4.0), (by_32, 3.0), ("c5fc1007c5fc104f20", 1.02)] {
        let cycles = off("redwoodcove", hex, Unrolled);
        assert!(
            (cycles / measured - 1.0).abs() < 0.05,
            "{cycles} cycles, not {measured}"
        );
    }
}

#[test]
fn zen2_stores_32_aligned_bytes_in_one_cycle() {
    // InstLatx64: VMOVUPD [m256], ymm 1.0, at base + 4 2.0.
    close(cycles("zen2", "c5fc1107", 0, Unrolled), 1.0);
    // The same 16 bytes further on, which is no multiple of its size.
    close(cycles("zen2", "c5fc114710", 0, Unrolled), 2.0);
    // An AVX copy of 4 x 32 bytes, unrolled and as a loop: 1.0 a store where stores are aligned to
    // 32 bytes, 2.0 where not. sub rcx, -128 and add rsi, add rdi keep it in place.
    let copy = "c5fc1006c5fc1107c5fc104620c5fc114720c5fc104640c5fc114740c5fc104660c5fc114760";
    let looped = format!("{copy}4883ee804883ef804883c18075ce");
    for (off, measured) in [("0", 4.0), ("16", 8.0), ("1", 8.0)] {
        let core = core_with("zen2", &[("memory.misaligned_by", off)]).unwrap();
        close(run(&core, copy, 0, Unrolled).unwrap().cycles, measured);
        close(run(&core, &looped, 0, Loop).unwrap().cycles, measured);
    }
    // Of stores by 32 bytes that move on by 16 every second is aligned.
    close(cycles("zen2", "c5fc11074883c71048ffc975f3", 0, Loop), 1.5);
}

#[test]
fn tsv110_stores_a_pair_of_q_registers_as_two_of_16_bytes() {
    // stp q0, q1, [x0]; at 16 bytes and at 8 beyond an aligned address.
    for (off, wanted) in [("0", 2.0), ("16", 2.0), ("8", 4.0)] {
        let core = core_with("tsv110", &[("memory.misaligned_by", off)]).unwrap();
        close(run(&core, "000400ad", 0, Unrolled).unwrap().cycles, wanted);
    }
}

#[test]
fn zen2_slower_target_buffers_cost_bubbles() {
    for (level, wanted) in [("0", 1.0), ("1", 2.0), ("2", 5.0)] {
        let core = core_with("zen2", &[("taken_branch.level", level)]).unwrap();
        close(run(&core, "ffc975fc", 0, Loop).unwrap().cycles, wanted);
    }
}

#[test]
fn branches_that_are_not_taken_share_the_branch_ports() {
    // cmp and je out once and twice, then dec and jne back; cbz out once and twice, then cbnz back.
    let (once, twice) = ("39f27408ffc975f8", "39f2740839f27408ffc975f4");
    for core in ["haswell", "skylake", "redwoodcove", "zen2"] {
        close(cycles(core, once, 0, Loop), 1.0);
        close(cycles(core, twice, 0, Loop), 1.5);
    }
    // One branch port.
    for core in ["sandybridge", "ivybridge"] {
        close(cycles(core, once, 0, Loop), 2.0);
        close(cycles(core, twice, 0, Loop), 3.0);
    }
    let (once, twice) = ("410000b4e0ffffb5", "610000b4410000b4c0ffffb5");
    close(cycles("neoverse-n1", once, 0, Loop), 2.0);
    close(cycles("neoverse-n1", twice, 0, Loop), 3.0);
    close(cycles("tsv110", once, 0, Loop), 1.0);
    close(cycles("tsv110", twice, 0, Loop), 1.5);
}

#[test]
fn taken_branches_keep_to_one_port_on_haswell_and_skylake() {
    // je out, shl, then dec and jne: three uops for ports 0 and 6, of which the last takes 6.
    for core in ["haswell", "skylake"] {
        let p = run(&common::core(core), "740848d1e048ffc975f6", 0, Loop).unwrap();
        assert!((1.5..1.6).contains(&p.cycles), "{} cycles", p.cycles);
        let uses = p.ports.unwrap();
        assert!(uses[2][6] > 0.99, "{uses:?}");
        assert!(uses[0][0] > 0.5, "{uses:?}");
    }
}

#[test]
fn redwoodcove_load_of_more_than_was_stored_waits_for_the_cache() {
    // mov [rdi+rsi], rax; mov rax, [rdi+rsi], then a store of al alone.
    close(cycles("redwoodcove", "48890437488b0437", 0, Unrolled), 5.0);
    close(cycles("redwoodcove", "880437488b0437", 0, Unrolled), 19.0);
}

#[test]
fn n1_decodes_four_and_branches_once() {
    close(cycles("neoverse-n1", &"1f2003d5".repeat(8), 0, Unrolled), 2.0);
    // Three branches, two of them not taken.
    close(cycles("neoverse-n1", "010000b4e2ffffb4feffff17", 0, Loop), 3.0);
}

#[test]
fn n1_stores_one_pair_a_cycle() {
    close(cycles("neoverse-n1", "010800a9", 0, Unrolled), 1.0);
}

#[test]
fn tsv110_shares_its_store_pipe() {
    close(cycles("tsv110", "010000f9", 0, Unrolled), 1.0);
    close(cycles("tsv110", "010040f9020440f9", 0, Unrolled), 1.0);
    close(cycles("tsv110", "010040f9020400f9", 0, Unrolled), 1.0);
}

#[test]
fn redwood_cove_adds_constants_at_rename() {
    close(cycles("redwoodcove", "4883c001", 0, Unrolled), 1.0 / 6.0);
    // 32-bit additions are executed.
    close(cycles("redwoodcove", "83c001", 0, Unrolled), 1.0);
    // A sum outside [-1024, 1023] needs a real addition now and then.
    assert!(cycles("redwoodcove", "480500010000", 0, Unrolled) > 1.2 / 6.0);
}

#[test]
fn redwood_cove_runs_chains_and_streams_as_measured() {
    for (hex, measured) in [
        ("480fafc0", 3.0),                 // imul rax, rax
        ("4811d8", 1.0),                   // adc rax, rbx
        ("480fafc34883c001", 3.0),         // imul rax, rbx; add rax, 1
        ("4831d8", 1.0),                   // xor rax, rbx: the flags come a cycle later
        ("488d0418", 1.0),                 // lea rax, [rax+rbx]
        ("480545230100", 1.0),             // add rax, 0x12345
        ("488b00", 5.0),                   // mov rax, [rax]
        ("488b07488b07", 0.667),           // two of mov rax, [rdi]
        ("488907488907488907488907", 2.0), // four of mov [rdi], rax
    ] {
        close(cycles("redwoodcove", hex, 0, Unrolled), measured);
    }
}

#[test]
fn redwood_cove_loops_take_what_was_measured_at_every_offset() {
    // dec rcx; jnz: where jnz starts a line the two do not fuse, and rename does dec.
    for offset in 0..64 {
        let measured = if offset == 61 { 0.5 } else { 1.0 };
        close(cycles("redwoodcove", "48ffc975fb", offset, Loop), measured);
    }
    // The clear loop of 15 bytes (measured 1.047) and a negative-index copy of 24.
    let clear = "48c707000000004883c708ffc975f1";
    let copy = "488b040e488b540e084889040f4889540f084883c11075e8";
    for (hex, quick, slow_from) in [(clear, 1.0, 50), (copy, 1.154, 41)] {
        for offset in 0..64 {
            let p = run(&core("redwoodcove"), hex, offset, Loop).unwrap();
            if offset < slow_from {
                close(p.cycles, quick);
            } else {
                assert!(p.cycles > 1.2 * quick, "{} cycles at {offset}", p.cycles);
                assert_eq!(p.bottleneck, "uop cache");
            }
        }
    }
    // 64 bytes in eight words; add, add, sub, cmp, jae.
    let unrolled = "4c8b064c8b4e084c8b56104c8b5e184c89074c894f084c8957104c895f184c8b46204c8b4e284c8b56304c8b5e38\
                    4c8947204c894f284c8957304c895f384883c6404883c7404883e9404883f94073a5";
    for offset in [0, 16, 32, 48, 55] {
        close(cycles("redwoodcove", unrolled, offset, Loop), 4.63);
    }
}

#[test]
fn redwood_cove_string_copies_take_what_was_measured() {
    let call = |hex: &str, count: u32, destination: u32| {
        let strings = [
            ("string.count", count.to_string()),
            ("string.destination", destination.to_string()),
        ];
        let overrides: Vec<_> = strings.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let core = core_with("redwoodcove", &overrides).unwrap();
        run(&core, hex, 0, Unrolled).unwrap().cycles
    };
    let (movsb, movsq) = ("f3a4", "f348a5");
    for (bytes, by_bytes, by_words, odd) in [
        (64, [10.0, 10.0], [40.0, 40.0], 94.0),
        (256, [30.0, 30.0], [40.0, 40.0], 118.0),
        (1024, [44.0, 52.0], [49.0, 57.0], 214.0),
        (8192, [134.0, 174.0], [134.0, 177.0], 1152.0),
    ] {
        close(call(movsb, bytes, 0), by_bytes[0]);
        close(call(movsb, bytes, 1), by_bytes[1]);
        close(call(movsq, bytes / 8, 0), by_words[0]);
        close(call(movsq, bytes / 8, 8), by_words[1]);
        close(call(movsq, bytes / 8, 3), odd);
    }
    // Between two sizes, below the least and above the greatest measured.
    close(call(movsb, 384, 0), 34.5_f64.round());
    close(call(movsb, 8, 0), 10.0);
    close(call(movsb, 12288, 0), 198.0);
}

#[test]
fn sandy_bridge_loop_buffer_issues_whole_groups() {
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
        let p = run(&common::core(core), "48ffc975fb", offset, Loop).unwrap();
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
    let core = core_with("skylake", &[("uop_cache.wide_ends", "false")]).unwrap();
    let freely = run(&core, hex, 0, Loop).unwrap().cycles;
    assert!(cycles("skylake", hex, 0, Loop) > freely + 0.9);
}

#[test]
fn work_after_lfence_waits_until_it_has_retired() {
    // T times imul eax, eax; lfence; T times imul edx, edx; dec and jne. Measured on one core from
    // Sandy Bridge to Haswell, model not said: Stack Overflow question 51986046.
    for (times, measured) in [(10, 42.05), (20, 75.10), (30, 108.03), (40, 140.15)] {
        let body = format!("{}0faee8{}ffc9", "0fafc0".repeat(times), "0fafd2".repeat(times));
        let back = -(body.len() as i32 / 2 + 6);
        let hex = format!("{body}0f85{:08x}", (back as u32).swap_bytes());
        for core in ["sandybridge", "ivybridge", "haswell"] {
            let found = cycles(core, &hex, 0, Loop);
            assert!((found / measured - 1.0).abs() < 0.05, "{core}: {found} for {measured}");
        }
    }
}

#[test]
fn ivy_bridge_spreads_an_adc_loop_over_its_three_ports() {
    // jrcxz out; adc rdx, [rdi+rcx]; lea rcx, [rcx+8]; jmp: six uops; uiCA says 2.0.
    close(cycles("ivybridge", "e30a4813140f488d4908ebf4", 26, Loop), 2.0);
}

#[test]
fn sandy_bridge_forwards_stores() {
    close(cycles("sandybridge", "488907488b07", 0, Unrolled), 5.0);
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
fn string_instructions_take_start_up_and_rate() {
    let core = core_with("zen2", &[("string.count", "4096")]).unwrap();
    close(run(&core, "f3a4", 0, Unrolled).unwrap().cycles, 35.0 + 4096.0 / 32.0);
    let unaligned = core_with("zen2", &[("string.destination", "3")]).unwrap();
    assert!(run(&unaligned, "f3a4", 0, Unrolled)
        .unwrap_err()
        .to_string()
        .contains("unaligned"));
}

#[test]
fn bottlenecks_are_named() {
    let name = |core: &str, hex: &str, notion| run(&common::core(core), hex, 0, notion).unwrap().bottleneck;
    assert_eq!(name("sandybridge", "488907", Unrolled), "port 4");
    assert_eq!(
        name("sandybridge", "488b064889074883c6084883c708ffc975f0", Loop),
        "loop buffer"
    );
    assert_eq!(
        name("sandybridge", "480fafd84801d8", Unrolled),
        "dependency chain through instructions 0-1"
    );
    // Four a cycle is what each of them does.
    assert_eq!(
        name("skylake", &"90".repeat(8), Unrolled),
        "predecode, decode, issue and retirement"
    );
}

#[test]
fn a_port_that_others_could_relieve_is_no_bottleneck() {
    // The clear loop across a line: adds share port 0 with the branch, and could go elsewhere.
    let straddling = run(&core("zen2"), "48c707000000004883c708ffc975f1", 59, Loop).unwrap();
    close(straddling.cycles, 2.0);
    assert_eq!(straddling.bottleneck, "uop cache");
}

#[test]
fn a_cut_instruction_waits_for_room_in_the_queue() {
    // 32 instructions in 7 blocks of 16 bytes, one of them cut: 9 cycles; BHive measures 0.57.
    let real = cycles("ivybridge", "84c0488b742430", 0, Unrolled);
    close(real, 9.0 / 16.0);
    let roomy = core_with("ivybridge", &[("predecode.queue", "40")]).unwrap();
    close(run(&roomy, "84c0488b742430", 0, Unrolled).unwrap().cycles, 0.5);
}

#[test]
fn skylake_forwards_stores_in_four_cycles() {
    close(cycles("skylake", "4883442418ff", 0, Unrolled), 5.0);
    close(cycles("haswell", "4883442418ff", 0, Unrolled), 6.0);
}
