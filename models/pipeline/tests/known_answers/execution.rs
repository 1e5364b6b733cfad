//! What execution is known to do: ports, branches, forwarding, fences, string instructions.

use crate::common::{close, core, core_with, cycles, cycles_on, run};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn a_high_byte_is_merged_alone_before_its_register_is_read() {
    // mov ah, bl; add rax, rdx; dec r15; jnz: add and merge, each of the other's result.
    close(cycles("skylake", "88dc4801d049ffcf75f6", 0, Loop), 2.0);
    // The loop buffer, which ends a group behind an iteration, holds no loop that writes a high byte.
    close(cycles("sandybridge", "88dc4801d049ffcf75f6", 0, Loop), 2.0);
    // mov ah, bl; add al, dl; dec r15; jnz: only bytes are read.
    close(cycles("skylake", "88dc00d049ffcf75f7", 0, Loop), 1.0);
}

#[test]
fn slots_of_eliminated_moves_are_free_again_some_cycles_later() {
    // mov rax, rbx; add rax, 1; mov rbx, rax; dec r15; jnz: as uiCA says.
    let hex = "4889d84883c0014889c349ffcf75f1";
    for (core, wanted) in [("ivybridge", 1.75), ("haswell", 1.33), ("skylake", 1.33)] {
        let found = cycles(core, hex, 0, Loop);
        assert!((found - wanted).abs() < 0.01, "{core}: {found}");
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
        let p = run(&crate::common::core(core), "740848d1e048ffc975f6", 0, Loop).unwrap();
        assert!((1.5..1.6).contains(&p.cycles), "{} cycles", p.cycles);
        let uses = p.ports.unwrap();
        assert!(uses[2][6] > 0.99, "{uses:?}");
        assert!(uses[0][0] > 0.5, "{uses:?}");
    }
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
fn sandy_bridge_forwards_stores() {
    close(cycles("sandybridge", "488907488b07", 0, Unrolled), 5.0);
}

#[test]
fn string_instructions_take_start_up_and_rate() {
    let core = core_with("zen2", &[("string.count", "4096")]).unwrap();
    close(cycles_on(&core, "f3a4", 0, Unrolled).unwrap(), 35.0 + 4096.0 / 32.0);
    let unaligned = core_with("zen2", &[("string.destination", "3")]).unwrap();
    assert!(run(&unaligned, "f3a4", 0, Unrolled)
        .unwrap_err()
        .to_string()
        .contains("unaligned"));
}

#[test]
fn bottlenecks_are_named() {
    let name = |core: &str, hex: &str, notion| run(&crate::common::core(core), hex, 0, notion).unwrap().bottleneck;
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
        "predecode, decoders, dispatch and retire"
    );
}

#[test]
fn a_port_that_others_could_relieve_is_no_bottleneck() {
    // The clear loop across a line: adds share port 0 with the branch, and could go elsewhere.
    let straddling = run(&core("zen2"), "48c707000000004883c708ffc975f1", 59, Loop).unwrap();
    close(straddling.cycles, 2.0);
    assert_eq!(straddling.bottleneck, "op cache");
}

#[test]
fn skylake_forwards_stores_in_four_cycles() {
    close(cycles("skylake", "4883442418ff", 0, Unrolled), 5.0);
    close(cycles("haswell", "4883442418ff", 0, Unrolled), 6.0);
}

#[test]
fn what_is_only_written_is_waited_for_where_it_was_measured() {
    // popcnt rax, rbx; dec r15; jnz, and the same of tzcnt, which Skylake mended.
    for core in ["sandybridge", "haswell", "skylake"] {
        close(cycles(core, "f3480fb8c349ffcf75f6", 0, Loop), 3.0);
    }
    close(cycles("haswell", "f3480fbcc349ffcf75f6", 0, Loop), 3.0);
    close(cycles("skylake", "f3480fbcc349ffcf75f6", 0, Loop), 1.0);
}

#[test]
fn string_pointers_and_the_stack_pointer_do_not_wait_for_what_is_loaded() {
    // lodsq; leave goes through rbp alone.
    for core in ["sandybridge", "ivybridge", "haswell", "skylake"] {
        close(cycles(core, "48ad", 0, Unrolled), 1.0);
        close(cycles(core, "c9", 0, Unrolled), 6.0);
        assert!(cycles(core, "ac", 0, Unrolled) < 1.4);
    }
}

#[test]
fn one_unit_alone_pauses() {
    close(cycles("skylake", "f390", 0, Unrolled), 140.0);
    close(cycles("haswell", "f390", 0, Unrolled), 9.0);
    close(cycles("sandybridge", "0faef8", 0, Unrolled), 6.0);
    close(cycles("skylake", "f30f1efa", 0, Unrolled), 0.25);
}
