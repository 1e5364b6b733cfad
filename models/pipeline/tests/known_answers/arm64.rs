//! What is known of AArch64 cores.

use crate::common::{close, core, core_with, cycles, cycles_on, run};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn tsv110_stores_a_pair_of_q_registers_as_two_of_16_bytes() {
    // stp q0, q1, [x0]; at 16 bytes and at 8 beyond an aligned address.
    for (off, wanted) in [("0", 2.0), ("16", 2.0), ("8", 4.0)] {
        let core = core_with("tsv110", &[("memory.misaligned_by", off)]).unwrap();
        close(cycles_on(&core, "000400ad", 0, Unrolled).unwrap(), wanted);
    }
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
fn n1_multiplies_in_one_pipe_that_takes_other_uops_in_the_meantime() {
    // mul x0, x1, x2 (3 cycles); umulh x3, x1, x2 (4); add x4, x1, x2, lsl 12 (1); extr of two registers (1).
    close(cycles("neoverse-n1", "207c029b237cc29b", 0, Unrolled), 7.0);
    close(cycles("neoverse-n1", "207c029b2430028b", 0, Unrolled), 3.0);
    close(cycles("neoverse-n1", "237cc29b250cc293", 0, Unrolled), 4.0);
    // Additions with a shift and extr of two registers need M itself, a rotation (extr of one) any pipe.
    close(
        cycles("neoverse-n1", "237cc29b2430028b250cc293250cc293250cc293", 0, Unrolled),
        5.0,
    );
    close(
        cycles("neoverse-n1", "237cc29b260cc193260cc193260cc193260cc193", 0, Unrolled),
        4.0,
    );
}

#[test]
fn vector_instructions_share_a_uop_with_the_one_whose_result_they_replace() {
    // eor v0, v0, v1; eor v0, v0, v2: one uop of two cycles; with another destination two.
    close(cycles("tsv110", "001c216e001c226e", 0, Unrolled), 2.0);
    close(cycles("neoverse-n1", "001c216e001c226e", 0, Unrolled), 4.0);
    close(cycles("tsv110", "031c216e601c226e", 0, Unrolled), 4.0);
    // aese v0, v1; aesmc v0, v0: on the one pipe of both a pair a cycle in four chains, else two.
    let pairs = |apart: &str| -> String {
        [
            "2048284e0068284e",
            "2348284e6368284e",
            "2448284e8468284e",
            "2548284ea568284e",
        ]
        .map(|pair| format!("{}{apart}{}", &pair[..8], &pair[8..]))
        .concat()
    };
    close(cycles("neoverse-n1", &pairs(""), 0, Unrolled), 4.0);
    close(cycles("neoverse-n1", &pairs("1f2003d5"), 0, Unrolled), 8.0);
}

#[test]
fn uops_of_some_ports_wait_in_a_scheduler_of_their_own() {
    // Chains of vector instructions behind a divider leave the additions and a product alone.
    let block = "2018621e0328601e6428631e8528641e2100028b2100028b837c059b";
    let set =
        |pools: &str| [("scheduler.pool_entries", "4"), ("scheduler.pools", pools)].map(|(n, v)| (n, v.to_string()));
    let cycles = |pools: &str| {
        let chosen = set(pools);
        let core = core_with("neoverse-n1", &chosen.each_ref().map(|(n, v)| (*n, v.as_str()))).unwrap();
        cycles_on(&core, block, 0, Unrolled).unwrap()
    };
    assert!(cycles("B STM LKDE VW") < cycles("BSTMLKDEVW"));
    let wrong = |pools: &str| {
        core_with("neoverse-n1", &[("scheduler.pools", pools)])
            .unwrap_err()
            .to_string()
    };
    assert!(wrong("STX").contains("STX is not among"));
    assert!(wrong("ST TM").contains("a port of TM stands twice"));
    let pair = core_with("neoverse-n1", &[("macro_fusion.dependent", "eor eor")]).unwrap_err();
    assert!(pair.to_string().contains("eor must be FIRST+SECOND"));
}

#[test]
fn v2_dispatches_eight_but_four_additions_a_cycle() {
    const ADD: &str = "2000028b2300028b2400028b2500028b";
    const FADD: &str = "2028621e2328621e2428621e2528621e";
    close(cycles("neoverse-v2", ADD, 0, Unrolled), 1.0);
    close(cycles("neoverse-v2", &format!("{ADD}{FADD}"), 0, Unrolled), 1.0);
}

#[test]
fn pairs_of_64_bits_need_two_paths_each() {
    // ldp of two x registers, twice: of three paths one pair a cycle, of four two.
    for (core, wanted) in [("neoverse-v1", 2.0), ("neoverse-v2", 1.0), ("neoverse-n2", 2.0)] {
        close(cycles(core, "400440a9431041a9", 0, Unrolled), wanted);
        close(cycles(core, "490040f94a0440f94b0840f9", 0, Unrolled), 1.0);
    }
}

#[test]
fn later_neoverse_cores_forward_sums() {
    for core in ["neoverse-v1", "neoverse-v2", "neoverse-n2"] {
        close(cycles(core, "20cc224e", 0, Unrolled), 2.0);
    }
}

#[test]
fn v1_sets_flags_three_a_cycle() {
    close(cycles("neoverse-v1", "260002ab270002ab280002ab", 0, Unrolled), 1.0);
}

#[test]
fn instructions_of_sve_are_named_as_such() {
    // add z0.d, z1.d, z2.d; whilelo p0.d, x1, x2.
    for (hex, name) in [("2000e204", "add (SVE)"), ("201ce225", "whilelo (SVE)")] {
        let refused = run(&core("neoverse-v1"), hex, 0, Unrolled).unwrap_err();
        assert_eq!(refused.to_string(), format!("no figures for {name}"));
    }
}
