//! What was measured of Golden Cove on an Emerald Rapids guest, calibrated TSC.

use crate::common::{core, core_with, cycles, cycles_on};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn two_branches_a_cycle_whether_or_not_they_need_a_port() {
    // 2 to 5 times test rsi,rsi and jz, not taken; a jump; dec and jnz.
    for (pairs, measured) in [(2, 2.0), (3, 2.5), (4, 3.0), (5, 3.5)] {
        let back = 256 - (pairs * 5 + 2 + 5);
        let hex = format!("{}eb0049ffcf75{back:02x}", "4885f67400".repeat(pairs));
        let found = cycles_on(&core("goldencove"), &hex, 0, Loop).unwrap();
        assert!(
            (found / measured - 1.0).abs() < 0.03,
            "{found} cycles, not {measured}: {hex}"
        );
    }
}

/// Within 3 %, or what a measurement is sure of.
#[track_caller]
fn takes(hex: &str, measured: f64) {
    let found = cycles_on(&core("goldencove"), hex, 0, Unrolled).unwrap();
    assert!(
        (found / measured - 1.0).abs() < 0.03,
        "{found} cycles, not {measured}: {hex}"
    );
}

#[test]
fn two_loads_a_cycle_read_one_word() {
    // What set the parameters: six loads of one word, of six, of two in triples; of six lines.
    takes(
        "8b86000000008b8e000000008b96000000008b9e000000008b86000000008b8e00000000",
        3.02,
    );
    takes(
        "8b86000000008b8e040000008b96080000008b9e0c0000008b86100000008b8e14000000",
        2.01,
    );
    takes(
        "8b86000000008b8e000000008b96000000008b9e040000008b86040000008b8e04000000",
        2.01,
    );
    takes(
        "8b86000000008b8e400000008b96800000008b9ec00000008b86000100008b8e40010000",
        3.02,
    );
    // What did not: mov rax, ecx and movzx edx of [rsi], [rsi+4] and [rsi+7].
    takes("488b068b4e040fb65607", 1.51);
    // Three of one word among six; five of three words; nine of three.
    takes("8b068b0e8b168b5e04448b4608448b4e0c", 2.0);
    takes("8b068b0e8b56048b5e04448b4608", 1.67);
    takes("8b068b068b068b46048b46048b46048b46088b46088b4608", 3.0);
    // Loads of instructions that compute: three add of one word, three cmp.
    takes("31c031c931d20306030e0316", 1.51);
    takes("3906390e3916", 1.51);
    takes("488b0424488b0c24488b1424", 1.51);
    // Six loads 20 bytes apart.
    takes("8b068b4e148b56288b5e3c448b4650448b4e64", 2.0);
}

#[test]
fn loads_that_take_a_stores_data_read_no_bank() {
    // A store and three loads of it, by a base and by an index.
    takes("89068b0e8b168b1e", 1.0);
    takes("8904ce8b1cce8b14ce448b04ce", 1.0);
}

#[test]
fn without_the_limit_three_loads_start_a_cycle() {
    let core = core_with("goldencove", &[("memory.bank_loads", "unlimited")]).unwrap();
    let found = cycles_on(&core, "3906390e3916", 0, Unrolled).unwrap();
    assert!((found - 1.0).abs() < 0.01, "{found} cycles");
}

#[test]
fn memory_is_renamed_for_updates_by_constants_alone() {
    // add, xor and sub of a register to [rsp+8], [rsp+24] and [rsi+24].
    for hex in ["01442408", "314c2418", "48294e18"] {
        let found = cycles_on(&core("goldencove"), hex, 0, Unrolled).unwrap();
        assert!((6.5..8.0).contains(&found), "{found} cycles, measured 7.37: {hex}");
    }
    // add dword [rsp+8], 1 was of no one speed, 1 to 2 cycles.
    let found = cycles_on(&core("goldencove"), "8344240801", 0, Unrolled).unwrap();
    assert!((1.0..2.0).contains(&found), "{found} cycles");
}

#[test]
fn lines_that_meet_within_a_branch_are_found_one_a_cycle() {
    // mov [rsi],rcx; add rsi,8; cmp r9,rsi; jne: measured at all offsets.
    let slow = [53, 55, 56];
    for offset in 0..64 {
        let found = cycles("goldencove", "48890e4883c6084939f175f4", offset, Loop);
        assert_eq!(found, if slow.contains(&offset) { 2.0 } else { 1.0 }, "{offset}");
    }
    // A loop of 18 uops takes no longer: movsxd, mov, xor, mov, mov, shl, add, mov, mov, or, mov, add, cmp, jae.
    let long = "4863c2488b734031ffffc24889c148050000002048c1e1044801c0893c0e488b73404883c8014889440e0839533c73d0";
    let found: Vec<f64> = (0..64).map(|offset| cycles("goldencove", long, offset, Loop)).collect();
    assert_eq!(found[20], found[0]);
    // mov rbx,[r14+8]; test rbx,rbx; je out; mov edx,[rbx]; dec edi; je back: an exit not taken, too.
    let slow = [50, 52, 56, 58, 59];
    for offset in 0..64 {
        let found = cycles("goldencove", "498b5e084885db746f8b13ffcf74f1", offset, Loop);
        assert_eq!(found, if slow.contains(&offset) { 2.0 } else { 1.0 }, "{offset}");
    }
}

#[test]
fn a_move_to_itself_is_not_eliminated_and_breaks_no_chain() {
    takes("4889c9", 1.0); // mov rcx,rcx
    takes("0fb6c9", 1.0); // movzx ecx,cl
    takes("4889ca4889d1", 0.374); // mov rdx,rcx and mov rcx,rdx
    takes("0fb6d10fb6ca", 0.374); // the same by movzx edx,cl and movzx ecx,dl
    takes("4801ca0f92c10fb6c9", 3.0); // add rdx,rcx, setc cl, movzx ecx,cl
    takes("660ffeca660f6fc9", 2.0); // paddd xmm1,xmm2, movdqa xmm1,xmm1
}

#[test]
fn a_loop_that_begins_with_a_branch_in_two_lines_reads_both() {
    // sub edi,1, je ahead, movsxd rax,edi, movzx eax,[rbp+rax], cmp eax,ecx, jne back.
    let hex = "83ef0174274863c70fb644050039c875ef";
    for (offset, measured) in [
        (0, 1.48),
        (42, 1.48),
        (48, 2.0),
        (50, 2.0),
        (59, 1.48),
        (60, 2.0),
        (62, 2.0),
        (63, 2.0),
    ] {
        let found = cycles_on(&core("goldencove"), hex, offset, Loop).unwrap();
        assert!(
            (found / measured - 1.0).abs() < 0.05,
            "{found} cycles, not {measured} at {offset}"
        );
    }
}

#[test]
fn what_loads_by_an_index_computes_all_the_same() {
    takes("48030cc7", 1.0); // add rcx,[rdi+rax*8]
    takes("660ffe0c87", 1.0); // paddd xmm1,[rdi+rax*4]
    takes("48030cc70f92c10fb6c9", 3.0); // the first with setc cl and movzx ecx,cl
}

#[test]
fn a_product_takes_a_cycle_more_than_on_redwood_cove() {
    takes("0f59c0", 4.0); // mulps xmm0,xmm0
    takes("f20f59c1", 4.0); // mulsd xmm0,xmm1
    takes("c5f459c0", 4.0); // vmulps ymm0,ymm1,ymm0
    takes("0f59c1660f70c000", 5.0); // mulps xmm0,xmm1; pshufd xmm0,xmm0,0
}

#[test]
fn stores_meet_in_a_line_that_a_move_made_one() {
    // mov 8(rax),rbx and mov rax,rbx: from the second copy on all stores write one address.
    takes("488958084889d8", 0.501);
    // Two stores by registers that nothing tells of, and by one that was copied to the other.
    takes("48894b0848895010", 2.004);
    takes("4889c34889480848895310", 1.002);
}

#[test]
fn a_value_goes_to_a_vector_register_and_back_in_four_cycles() {
    takes("66480f6ec066480f7ec0", 4.009);
    takes("660f6ec0660f7ec0", 4.005);
    takes("66480f6ec0660fd4c166480f7ec0", 5.008);
    takes("66480f6ec066480f7ec04801d8", 5.004);
}

#[test]
fn gathers_and_scatters_take_what_was_measured() {
    for (code, measured) in [
        // From the indices to the result and, by vpand, back: vpgatherdq xmm{k}, vpgatherdd ymm{k}, vpgatherdd xmm.
        ("62010540efffc5fc46d062b2fd0290043662017d48dbf749ffcf75e4", 20.0),
        ("62010540efffc5fc46d062b27d2290043662017d48dbf749ffcf75e4", 29.9),
        ("c44119efe4c5cd76f6c4a24990042ec4417ddbec49ffcf75e7", 29.0),
        // Six kxnorw and vpscatterdq xmm{k}.
        (
            "62010540efffc5fc46d062b2fd02a0043ec5fc46d862b2fd03a00c3ec5fc46e062b2fd04a0143ec5fc46e862b2fd05a01c3e\
             c5fc46f062b2fd06a0243ec5fc46f862b2fd07a02c3e49ffcf75b3",
            29.9,
        ),
    ] {
        let found = cycles_on(&core("goldencove"), code, 0, Loop).unwrap();
        assert!(
            (found / measured - 1.0).abs() < 0.08,
            "{found} cycles, not {measured}: {code}"
        );
    }
}

#[test]
fn a_gather_is_named_by_its_element_and_the_register_of_indices() {
    let refused = |core: &str, code: &str| {
        cycles_on(&crate::common::core(core), code, 0, Unrolled)
            .unwrap_err()
            .to_string()
    };
    // vgatherdpd xmm3, [rsi + xmm2 * 8], xmm1; vpgatherdd zmm3{k1}, [rsi + zmm2 * 4].
    assert_eq!(refused("zen1", "c4e2f1921cd6"), "no figures for vgatherdpd x,m64x,x");
    assert_eq!(
        refused("icelake", "62f27d49901c96"),
        "no figures for vpgatherdd z{k},m32z"
    );
}

/// Loops of code that dec r15 and jne end, within a share of what was measured.
#[track_caller]
fn loops_take(loops: &[(&str, f64)], share: f64) {
    for (hex, measured) in loops {
        let found = cycles_on(&core("goldencove"), hex, 0, Loop).unwrap();
        assert!(
            (found / measured - 1.0).abs() < share,
            "{found} cycles, not {measured}: {hex}"
        );
    }
}

#[test]
fn rename_takes_indexed_operands_apart_in_three_places() {
    loops_take(
        &[
            ("3b540d0090909049ffcf75f4", 1.0),                     // cmp edx, [rbp+rcx] and 3 nops
            ("3b540d009090909049ffcf75f3", 1.333),                 // cmp edx, [rbp+rcx] and 4 nops
            ("3b540d00909090909049ffcf75f2", 1.5),                 // cmp edx, [rbp+rcx] and 5 nops
            ("3b540d0090909090909049ffcf75f1", 2.0),               // cmp edx, [rbp+rcx] and 6 nops
            ("3b540d0090909090909090909049ffcf75ee", 2.0),         // cmp edx, [rbp+rcx] and 9 nops
            ("3b540d009090909090909090909049ffcf75ed", 2.333),     // cmp edx, [rbp+rcx] and 10 nops
            ("3b540d003b540d00909049ffcf75f1", 1.333),             // two of them and 2 nops
            ("3b540d0090903b540d009049ffcf75f0", 2.0),             // 2 nops between them
            ("3b540d003b540d003b540d00909090909049ffcf75ea", 2.5), // three of them and 5 nops
            ("005405004883c001909049ffcf75f1", 1.333),             // add [rbp+rax], dl; add rax, 1; 2 nops
        ],
        0.03,
    );
}

#[test]
fn shifts_wait_for_constants_that_rename_added() {
    loops_take(
        &[
            ("4883c50148d1e549ffcf75f4", 3.0),       // add rbp, 1; shl rbp,1
            ("4883c501c4e3fbf0ed0349ffcf75f1", 3.0), // add rbp, 1; rorx rbp,rbp,3
            ("4883c501480fbaed0149ffcf75f2", 3.0),   // add rbp, 1; bts rbp,1
            ("4883c501480fcd49ffcf75f4", 4.0),       // add rbp, 1; bswap rbp
            ("4883c501488d6c350049ffcf75f2", 1.0),   // add rbp, 1; lea rbp,[rbp+rsi]
            ("4883c501f3480fb8ed49ffcf75f2", 3.0),   // add rbp, 1; popcnt rbp,rbp
        ],
        0.03,
    );
}

#[test]
fn shifts_of_added_constants_take_their_port_twice() {
    loops_take(
        &[
            ("4883c508c4e3fbf0cd0349ffcf75f1", 1.5),             // add rbp,8; rorx rcx,rbp,3
            ("4883c508c4e3fbf0cd03c4e3fbf0d50549ffcf75eb", 2.5), // and rorx rdx,rbp,5
            ("4883c508c4e3fbf0cd03c4e3fbf0d505c4e3fbf0fd0749ffcf75e5", 3.5), // and rorx rdi,rbp,7
            ("4883c508c4e3fbf0cd03c4e3fbf0d00549ffcf75eb", 2.0), // the first with rorx rdx,rax,5
            ("4801dd4889e948c1e90349ffcf75f1", 1.0),             // add rbp,rbx; mov rcx,rbp; shr rcx,3
        ],
        0.06,
    );
}

#[test]
fn sums_of_floats_reach_each_other_a_cycle_sooner() {
    loops_take(
        &[
            ("f30f58ca49ffcf75f7", 2.0),                     // addss xmm1,xmm2
            ("f30f58caf30f59ca49ffcf75f3", 7.0),             // and mulss xmm1,xmm2
            ("f30f58caf30f58caf30f59ca49ffcf75ef", 9.0),     // two addss and mulss
            ("0f58ca0f54ca49ffcf75f5", 4.0),                 // addps and andps
            ("c5f458cac5f459ca49ffcf75f3", 7.0),             // vaddps and vmulps of ymm1
            ("f20fd0ca0f59ca49ffcf75f4", 7.0),               // addsubps and mulps
            ("f30f58ca0f28d9f30f58da0f28cb49ffcf75ed", 4.0), // two addss, a movaps behind each
            ("f20f7cca0f59ca49ffcf75f4", 9.0),               // haddps and mulps
        ],
        0.01,
    );
}

#[test]
fn cmov_and_set_wait_a_cycle_more_for_logic_beside_them() {
    loops_take(
        &[
            ("85ff0f45f149ffcf75f6", 2.0),             // test; cmovne
            ("83ff050f45f149ffcf75f5", 1.0),           // cmp; cmovne
            ("89c685c00f45c149ffcf75f4", 2.67),        // mov; test; cmovne
            ("85ff0f45f10f45f249ffcf75f3", 3.67),      // test and two cmovne in a chain
            ("85ff11ce49ffcf75f7", 1.0),               // test; adc
            ("0fafed85ed89d811c889c549ffcf75f0", 5.0), // imul; test; mov; adc; mov
            ("0f45c5c4e37bf0c00349ffcf75f2", 2.5),     // cmovne behind the dec and jne of the loop; rorx
        ],
        0.03,
    );
}

#[test]
fn extended_bytes_of_some_registers_are_no_moves() {
    loops_take(
        &[
            ("440fb6d74b8d3c3249ffcf75f3", 2.0), // movzx r10d, dil; lea
            ("450fb6d44f8d243249ffcf75f3", 2.0), // movzx r10d, r12b; lea
            ("440fb6d34b8d1c3249ffcf75f3", 1.0), // movzx r10d, bl; lea
            ("410fb6c24e8d143049ffcf75f3", 1.0), // movzx eax, r10b; lea
        ],
        0.03,
    );
}

#[test]
fn memory_is_renamed_at_any_displacement() {
    loops_take(
        &[
            ("488b4424f84809c848894424f849ffcf75ee", 1.0), // mov rax,[rsp-8]; or rax,rcx; mov [rsp-8],rax
            ("488b85682900004809c84889856829000049ffcf75ea", 1.0), // the same at [rbp+0x2968]
        ],
        0.03,
    );
}

#[test]
fn words_and_upper_halves_are_forwarded_but_not_renamed() {
    loops_take(
        &[
            ("668903668b036683e00f49ffcf75f1", 7.7),  // a word stored, loaded and masked
            ("89038b0383e00f49ffcf75f4", 1.0),        // a dword
            ("6683030149ffcf75f7", 7.4),              // add word ptr [rbx], 1
            ("4889038b034883e00f49ffcf75f2", 1.0),    // the lower half
            ("4889038b43044883e00f49ffcf75f1", 7.35), // the upper half
        ],
        0.2,
    );
}

#[test]
fn golden_cove_writes_both_lines_of_a_split_store() {
    takes("4889433c", 2.0); // mov [rbx+60], rax
    takes("4889433c4889837c000000", 4.0); // and mov [rbx+124], rax
}

#[test]
fn microcode_holds_the_uop_cache_up() {
    loops_take(
        &[
            ("48a549ffcf75f9", 5.0),     // movsq
            ("48a548a549ffcf75f7", 9.0), // two of them
        ],
        0.03,
    );
}

/// A loop of `mov` of 64-bit constants, of nops of one byte, `dec` and `jne`.
fn constants_and_nops(count: usize, nops: usize) -> String {
    let moves = ["48bb", "48bd", "48be", "48bf", "48b8"][..count].iter();
    let code: String = moves.map(|opcode| format!("{opcode}0102030405060708")).collect();
    let back = 0x100 - 5 - 10 * count - nops;
    format!("{code}{}49ffcf75{back:02x}", "90".repeat(nops))
}

#[test]
fn a_line_of_the_uop_cache_has_one_constant_of_64_bits() {
    let takes = |count, nops, measured| {
        let hex = constants_and_nops(count, nops);
        loops_take(&[(&hex, measured)], 0.03);
    };
    takes(2, 0, 1.0);
    takes(3, 0, 1.5);
    takes(4, 0, 2.0);
    takes(5, 0, 2.5);
    takes(3, 4, 1.5);
    // Of nine uops and more a read does not go on behind the branch.
    takes(3, 5, 2.0);
    takes(5, 3, 3.0);
    // What 32 bits hold is no such constant.
    loops_take(
        &[(
            "48bbffffffffffffffff48bdffffffffffffffff48beffffffffffffffff49ffcf75dd",
            1.0,
        )],
        0.03,
    );
}

#[test]
fn a_line_of_the_uop_cache_holds_more_uops_than_six_but_six_lines_no_more_than_36() {
    let nops = |count, offset| cycles_on(&core("goldencove"), &constants_and_nops(0, count), offset, Loop).unwrap();
    // Seven nops that end with a line, and the branch in the next one.
    assert!((nops(7, 57) / 1.333 - 1.0).abs() < 0.01);
    assert!((nops(34, 0) / 5.838 - 1.0).abs() < 0.01);
    assert!((nops(36, 0) / 7.0 - 1.0).abs() < 0.01);
}

#[test]
fn avx_sse_transitions_drain_the_pipeline_and_take_some_200_cycles() {
    // vpaddd of 256 bits and pxor; with a vpxor and a pxor more; 10 dependent imul first.
    loops_take(
        &[
            ("c5edfecb660fefe549ffcf75f3", 394.0),
            ("c5edfecb660fefe5c5c9eff7660fefe549ffcf75eb", 789.0),
            (
                "480fafc3480fafc3480fafc3480fafc3480fafc3480fafc3480fafc3480fafc3480fafc3480fafc3c5edfecb660fefe549ffcf75cb",
                422.0,
            ),
        ],
        0.03,
    );
    // No transition: vzeroupper between them, vptest, a store by movups, movd to a general register, ymm16 to ymm18.
    loops_take(
        &[
            ("c5edfecbc5f877660fefe549ffcf75f0", 1.0),
            ("c4e27d17ca660fefe549ffcf75f2", 1.06),
            ("c5edfecb0f112649ffcf75f4", 1.0),
            ("62a17520efc2660fefe549ffcf75f1", 1.01),
        ],
        0.08,
    );
}

#[test]
fn each_uop_for_the_same_ports_in_a_cycle_of_rename_gets_the_next_one() {
    // Random loops of integer instructions, which helped to set the choice.
    loops_take(
        &[
            ("48c1c203480fb6d00fb6d001d24889c049ffcf75eb", 1.0),
            ("4c01da4809d24401db4131db4185d34401db49ffcf75e9", 3.04),
            ("01ff4831c14809c0f7d84801f883cf234883ca28c1cf0549ffcf75e4", 3.22),
            (
                "478d141a4585c2468d14164801f601db4921db4d09c24d01d04501db49ffcf75df",
                3.15,
            ),
        ],
        0.03,
    );
}

#[test]
fn results_of_three_cycles_keep_those_of_one_cycle_out() {
    // imul, popcnt, lzcnt or pdep and three or five chains of one cycle, dec and jne; lea or vpermd in its place.
    let kept_out = [
        ("f34d0fb8c149f7d249f7d348f7d348f7d648f7d749ffcf75e7", 1.93),
        ("4d6bc10549f7d249f7d348f7d348f7d648f7d749ffcf75e8", 1.93),
        ("f34d0fbdc14d01e24d01e34c01e34c01e64c01e749ffcf75e7", 1.93),
        ("c462b3f5c549f7d249f7d348f7d348f7d648f7d749ffcf75e7", 1.92),
    ];
    loops_take(&kept_out, 0.04);
    let three_chains = ("f34d0fb8c149f7d249f7d348f7d349ffcf75ed", 1.68);
    loops_take(&[three_chains], 0.06);
    let others = [
        ("4d8d44e90549f7d249f7d348f7d348f7d648f7d749ffcf75e7", 1.52),
        ("c4e25536e649f7d249f7d348f7d348f7d648f7d749ffcf75e7", 1.61),
    ];
    loops_take(&others, 0.04);
    for (hex, measured) in kept_out.into_iter().chain([three_chains]) {
        let without = core_with("goldencove", &[("ports.result_cycles", "0")]).unwrap();
        assert!(cycles_on(&without, hex, 0, Loop).unwrap() < 0.85 * measured, "{hex}");
    }
}
