//! What limits blocks whose limit is known.

use crate::common::{core, is_x86, run, CORES};
use loopwright_pipeline::block::Notion::{self, Loop, Unrolled};

fn limit(name: &str, hex: &str, offset: u32, notion: Notion) -> String {
    run(&core(name), hex, offset, notion).expect("a prediction").bottleneck
}

/// One block for the x86 cores, one for the others.
fn of<'a>(name: &str, x86: &'a str, arm64: &'a str) -> &'a str {
    if is_x86(name) {
        x86
    } else {
        arm64
    }
}

#[test]
fn a_chain_of_one_instruction_is_named_on_every_core() {
    // Loads of pointers, additions, multiplications: mov, add, imul; ldr, add, mul.
    let chains = [("488b00", "000040f9"), ("4801d8", "0000018b"), ("480fafc3", "007c019b")];
    for name in CORES {
        for (x86, arm64) in chains {
            let found = limit(name, of(name, x86, arm64), 0, Unrolled);
            assert_eq!(found, "dependency chain through instruction 0", "{name} {x86}");
        }
        // Sums of products: vfmadd231pd xmm0, xmm1, xmm2; fmadd d0, d1, d2, d0.
        if !["sandybridge", "ivybridge"].contains(&name) {
            let found = limit(name, of(name, "c4e2f1b8c2", "2000421f"), 0, Unrolled);
            assert_eq!(found, "dependency chain through instruction 0", "{name}");
        }
    }
}

#[test]
fn a_loop_that_waits_for_its_load_is_no_matter_of_the_front_end() {
    // mov rax, [rax]; test rax, rax; jne, at the start and across a line.
    for name in CORES.into_iter().filter(|n| is_x86(n)) {
        for offset in [0, 59] {
            let found = limit(name, "488b004885c075f8", offset, Loop);
            assert_eq!(found, "dependency chain through instruction 0", "{name} at {offset}");
        }
    }
}

#[test]
fn a_chain_names_its_own_instructions() {
    // imul rbx, rax; add rax, rbx; between them what nothing waits for.
    for name in CORES.into_iter().filter(|n| is_x86(n)) {
        let near = limit(name, "480fafd84801d8", 0, Unrolled);
        assert_eq!(near, "dependency chain through instructions 0-1", "{name}");
        let apart = limit(name, "480fafd84c8b074801d8", 0, Unrolled);
        assert_eq!(apart, "dependency chain through instructions 0 and 2", "{name}");
    }
}

#[test]
fn the_ports_of_loads_and_stores_are_named_on_every_core() {
    let loads = [
        ("haswell", "ports 2 and 3"),
        ("zen2", "ports 4 and 5"),
        ("zen3", "ports 4, 5 and 6"),
    ];
    let more = [
        ("sandybridge", "ports 2 and 3"),
        ("ivybridge", "ports 2 and 3"),
        ("skylake", "ports 2 and 3"),
    ];
    let last = [("zen4", "ports 4, 5 and 6"), ("redwoodcove", "ports 2, 3 and A")];
    for (name, ports) in loads.into_iter().chain(more).chain(last) {
        assert_eq!(limit(name, "488b07488b5708488b4f10", 0, Unrolled), ports, "{name}");
    }
    assert_eq!(limit("neoverse-n1", "410040f9430440f9", 0, Unrolled), "ports L and K");
    assert_eq!(limit("tsv110", "410040f9430440f9", 0, Unrolled), "ports L and S");
    for (name, ports) in [("sandybridge", "port 4"), ("skylake", "port 4"), ("zen2", "port s")] {
        assert_eq!(limit(name, "48890748895708", 0, Unrolled), ports, "{name}");
    }
    assert_eq!(limit("tsv110", "410000f9430400f9", 0, Unrolled), "port S");
}

#[test]
fn limits_that_hold_together_are_all_named() {
    // Eight loads and eight stores: two ports that are full of addresses, one of data.
    let copy = "488b06488b5e084c8b46104c8b4e184c8b56204c8b5e284c8b66304c8b6e3848890748895f084c894710\
                4c894f184c8957204c895f284c8967304c896f38488d7640488d7f40ffc975b6";
    assert_eq!(limit("sandybridge", copy, 0, Loop), "ports 2, 3 and 4");
    // Port 7 takes addresses, too.
    assert_eq!(limit("skylake", copy, 0, Loop), "port 4");
    assert_eq!(limit("zen2", copy, 0, Loop), "port s");
    // Five additions that four ports take, and of which rename takes four a cycle.
    let adds = "4801d84801d94801da4801de4801df";
    assert_eq!(
        limit("zen2", adds, 0, Unrolled),
        "port 0, port 1, port 2, port 3 and dispatch"
    );
    // dec ecx; jne. Two loop buffers deliver more than one iteration a cycle.
    for name in CORES
        .into_iter()
        .filter(|n| is_x86(n) && !["icelake", "redwoodcove"].contains(n))
    {
        let found = limit(name, "ffc975fc", 0, Loop);
        assert!(
            found.starts_with("dependency chain through instruction 0"),
            "{name}: {found}"
        );
        assert!(found.contains(" and "), "{name}: {found}");
    }
}

#[test]
fn a_branch_to_itself_is_a_matter_of_branches() {
    for (name, words) in [
        ("haswell", "port 6"),
        ("skylake", "port 6 and branches"),
        ("zen2", "op cache and branches"),
        ("zen4", "op cache and branches"),
        ("redwoodcove", "loop buffer and dispatch"),
    ] {
        assert_eq!(limit(name, "ebfe", 0, Loop), words, "{name}");
    }
    assert_eq!(limit("neoverse-n1", "00000014", 0, Loop), "port B and branches");
    assert_eq!(limit("tsv110", "00000014", 0, Loop), "branches");
}

#[test]
fn the_front_end_is_named_by_what_of_it_limits() {
    for name in ["sandybridge", "ivybridge", "haswell", "skylake", "redwoodcove"] {
        // add ax, 0x101: a prefix that changes the length.
        assert_eq!(limit(name, "6681c00101", 0, Unrolled), "predecode", "{name}");
    }
    // movq $0, (rdi); add rdi, 8; dec ecx; jne, across a line.
    for (name, offset) in [("zen2", 59), ("zen3", 59)] {
        let found = limit(name, "48c707000000004883c708ffc975f1", offset, Loop);
        assert_eq!(found, "op cache", "{name}");
    }
    // Thirteen nops and a branch.
    let nops = "9090909090909090909090909075f1";
    for name in ["zen2", "zen3", "zen4", "redwoodcove"] {
        assert_eq!(limit(name, nops, 0, Loop), "dispatch", "{name}");
    }
    for name in ["haswell", "skylake"] {
        assert_eq!(limit(name, nops, 0, Loop), "dispatch and retire", "{name}");
    }
    assert_eq!(limit("sandybridge", nops, 0, Loop), "loop buffer");
    assert_eq!(
        limit("neoverse-n1", &"1f2003d5".repeat(4), 0, Unrolled),
        "decoders and dispatch"
    );
}

#[test]
fn what_serialises_and_what_stays_busy_is_named() {
    for name in ["sandybridge", "skylake", "zen2", "redwoodcove"] {
        assert_eq!(limit(name, "0faee8", 0, Unrolled), "serialising instruction", "{name}");
    }
    assert_eq!(limit("zen2", "48f7f1", 0, Unrolled), "divider on port 2");
    assert_eq!(limit("zen2", "f3a4", 0, Unrolled), "microcode");
}

#[test]
fn a_load_that_waits_for_stores_is_named() {
    // mov [rsp+16], ebp; mov [rsp+20], ebx; mov rax, [rsp+16]; dec r15; jne.
    let both = "896c2410895c2414488b44241049ffcf75ee";
    for name in CORES.into_iter().filter(|n| is_x86(n)) {
        let found = run(&core(name), both, 0, Loop).expect("a prediction");
        assert!(found.cycles > 13.0, "{name}: {}", found.cycles);
        assert_eq!(found.bottleneck, "failed store-to-load forwarding", "{name}");
    }
}

/// Measured on a Redwood Cove guest.
#[test]
fn redwood_cove_waits_but_for_the_lower_part_of_a_load() {
    let loops = [
        // mov [rsp+16], ebp; mov [rsp+20], ebx; mov rax, [rsp+16]; dec r15; jne.
        ("896c2410895c2414488b44241049ffcf75ee", 17.0),
        // The same, and 8 dependent multiplications behind the load.
        (
            "896c2410895c2414488b442410480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc049ffcf75ce",
            41.0,
        ),
        // mov [rsp+16], ebp; mov rax, [rsp+16]; dec r15; jne.
        ("896c2410488b44241049ffcf75f2", 1.0),
        // mov [rsp+16], rbp; mov [rsp+20], bl; mov rax, [rsp+16]; dec r15; jne.
        ("48896c2410885c2414488b44241049ffcf75ed", 17.0),
    ];
    for (hex, measured) in loops {
        let cycles = run(&core("redwoodcove"), hex, 0, Loop).expect("a prediction").cycles;
        assert!((cycles - measured).abs() < 0.5, "{hex}: {cycles}, measured {measured}");
    }
}

/// Measured on a Redwood Cove guest.
#[test]
fn a_pointer_that_is_loaded_anew_is_the_same_where_no_store_changes_it() {
    let loops = [
        // mov rax, [r12]; add [rax+16], rcx; dec r15; jne: an update of one address.
        ("498b04244801481049ffcf75f3", 7.3),
        // mov rax, [r12]; mov rdx, [r12]; mov [rax+16], rcx; mov rcx, [rdx+16]; dec r15; jne.
        ("498b0424498b142448894810488b4a1049ffcf75eb", 1.0),
    ];
    for (hex, measured) in loops {
        let cycles = run(&core("redwoodcove"), hex, 0, Loop).expect("a prediction").cycles;
        assert!((cycles - measured).abs() < 0.5, "{hex}: {cycles}, measured {measured}");
    }
    // mov rax, [r12]; add [rax+16], rcx; add r12, 8; dec r15; jne: another pointer each time.
    let moving = run(&core("redwoodcove"), "498b0424480148104983c40849ffcf75ef", 0, Loop).expect("a prediction");
    assert!(moving.cycles < 2.0, "{}", moving.cycles);
}

#[test]
fn fused_uops_that_rename_takes_apart_late_in_a_cycle_are_no_unknown_limit() {
    // add rax, 1; cmp rax, rsi; je; cmp [rdi+rax*4], edx; jne: the last pair is taken apart.
    let found = limit("goldencove", "4883c0014839f0740739148775f2", 48, Loop);
    assert!(found.contains("dispatch"), "{found}");
}
