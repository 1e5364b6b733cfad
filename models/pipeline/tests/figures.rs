//! What blocks take by each limit alone, of blocks whose limits can be counted.

use crate::common::{close, core, run};
use loopwright_pipeline::block::Notion::{self, Loop, Unrolled};
use loopwright_pipeline::observe::figures::Figure;

fn figures(name: &str, hex: &str, offset: u32, notion: Notion) -> Vec<Figure> {
    run(&core(name), hex, offset, notion).expect("a prediction").limits
}

fn figure(name: &str, hex: &str, offset: u32, notion: Notion, limit: &str) -> Figure {
    let all = figures(name, hex, offset, notion);
    let found = all.iter().find(|f| f.limit == limit);
    found.unwrap_or_else(|| panic!("{name}: no {limit} in {all:?}")).clone()
}

/// movq $0, (rdi); add rdi, 8; dec ecx; jne.
const CLEAR: &str = "48c707000000004883c708ffc975f1";

#[test]
fn a_loop_of_one_cycle_is_held_by_several_limits() {
    for (limit, cycles) in [
        ("ports", 1.0),
        ("dispatch", 0.8), // four instructions, five a cycle
        ("dependencies", 1.0),
        ("op cache", 1.0),
        ("branches", 1.0),
    ] {
        close(figure("zen2", CLEAR, 0, Loop, limit).cycles.expect("a figure"), cycles);
    }
}

#[test]
fn limits_at_rename_by_port_do_not_hide_what_ports_and_retire_take() {
    // A load, a store, two adds, dec and jne: one of Zen 4's ALUs gets one of them a cycle.
    let code = "488b074889064883c7084883c60848ffc975ee";
    for (limit, cycles) in [("ports", 0.75), ("dispatch", 5.0 / 6.0), ("retire", 0.625)] {
        close(figure("zen4", code, 0, Loop, limit).cycles.expect("a figure"), cycles);
    }
}

#[test]
fn a_line_more_is_a_matter_of_the_uop_cache_alone() {
    let across = figures("zen2", CLEAR, 59, Loop);
    let binding: Vec<&str> = across.iter().filter(|f| f.binds).map(|f| f.limit.as_str()).collect();
    assert_eq!(binding, ["op cache"]);
    close(
        figure("zen2", CLEAR, 59, Loop, "op cache").cycles.expect("a figure"),
        2.0,
    );
    close(
        figure("zen2", CLEAR, 59, Loop, "dependencies")
            .cycles
            .expect("a figure"),
        1.0,
    );
}

#[test]
fn a_chain_is_told_in_the_order_in_which_its_instructions_wait() {
    // imul rbx, rax; mov r9, [rdi]; add rax, rbx: three cycles and one.
    for name in ["zen2", "zen4", "sandybridge", "skylake", "goldencove"] {
        let found = figure(name, "480fafd84c8b0f4801d8", 0, Unrolled, "dependencies");
        close(found.cycles.expect("a figure"), 4.0);
        assert_eq!(found.instructions, [0, 2], "{name}");
        // mov rax, [rax]; test; jne: the load alone, whatever stands behind it.
        let found = figure(name, "488b004885c075f8", 0, Loop, "dependencies");
        assert_eq!(found.instructions, [0], "{name}");
    }
}

#[test]
fn ports_are_counted_for_the_uops_that_can_use_no_others() {
    // Three loads: two ports on Haswell, three on Zen 4.
    let loads = "488b07488b5708488b4f10";
    for (name, ports, cycles) in [("haswell", 2, 1.5), ("zen4", 3, 1.0)] {
        let found = figure(name, loads, 0, Unrolled, "ports");
        close(found.cycles.expect("a figure"), cycles);
        assert_eq!(found.ports.count_ones(), ports, "{name}");
        assert_eq!(found.instructions, [0, 1, 2], "{name}");
        assert!(found.binds, "{name}");
    }
}

#[test]
fn the_loop_buffer_begins_again_with_a_group_of_its_own() {
    // Five fused uops, four a cycle.
    let copy = "488b064889074883c6084883c70848ffc975ed";
    close(
        figure("sandybridge", copy, 0, Loop, "loop buffer")
            .cycles
            .expect("a figure"),
        2.0,
    );
    close(
        figure("sandybridge", copy, 0, Loop, "dispatch")
            .cycles
            .expect("a figure"),
        1.25,
    );
}

#[test]
fn what_binds_alone_is_as_long_as_an_iteration() {
    for name in crate::common::CORES {
        let hex = if name == "zen4" {
            // mov [rdi],rax; add rdi,8; dec ecx; jne: the constants of CLEAR delay its additions there.
            "4889074883c708ffc975f5"
        } else if name == "icelake" {
            // imul rax,rax; dec ecx; jne: ports chosen at dispatch delay the additions of CLEAR there.
            "480fafc0ffc975f8"
        } else if crate::common::is_x86(name) {
            CLEAR
        } else {
            "430440f9000400f1c1ffff54"
        };
        let found = run(&core(name), hex, 0, Loop).expect("a prediction");
        let longest = found
            .limits
            .iter()
            .filter(|f| f.binds)
            .filter_map(|f| f.cycles)
            .fold(0.0, f64::max);
        close(longest, found.cycles);
        assert!(
            found
                .limits
                .iter()
                .all(|f| f.cycles.is_none_or(|c| c <= found.cycles * 1.01)),
            "{name}"
        );
    }
}

#[test]
fn a_unit_that_stays_busy_is_counted() {
    // div rcx; add rax, 3; dec esi; jne.
    let found = run(&core("zen2"), "48f7f14883c003ffce75f5", 0, Loop).expect("a prediction");
    let divider = found
        .limits
        .iter()
        .find(|f| f.limit.starts_with("divider"))
        .expect("a divider");
    assert!(divider.binds);
    close(divider.cycles.expect("a figure"), found.cycles);
}

#[test]
fn a_chain_through_memory_is_told_whole() {
    // mov rax, [rdi]; add rax, 1; mov [rdi], rax; dec rsi; jne.
    for name in ["sandybridge", "skylake"] {
        let found = figure(name, "488b074883c00148890748ffce75f1", 0, Loop, "dependencies");
        assert_eq!(found.instructions, [0, 1, 2], "{name}");
    }
}
