//! What is known of Neoverse N1 and TSV110.

use crate::common::{close, core_with, cycles, run};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn tsv110_stores_a_pair_of_q_registers_as_two_of_16_bytes() {
    // stp q0, q1, [x0]; at 16 bytes and at 8 beyond an aligned address.
    for (off, wanted) in [("0", 2.0), ("16", 2.0), ("8", 4.0)] {
        let core = core_with("tsv110", &[("memory.misaligned_by", off)]).unwrap();
        close(run(&core, "000400ad", 0, Unrolled).unwrap().cycles, wanted);
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
