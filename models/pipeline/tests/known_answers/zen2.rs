//! What is known of Zen 2.

use crate::common::{close, core, core_with, cycles, cycles_on, run};
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
        cycles_on(&core, hex, 0, notion).unwrap()
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
        close(cycles_on(&core, copy, 0, Unrolled).unwrap(), measured);
        close(cycles_on(&core, &looped, 0, Loop).unwrap(), measured);
    }
    // Of stores by 32 bytes that move on by 16 every second is aligned.
    close(cycles("zen2", "c5fc11074883c71048ffc975f3", 0, Loop), 1.5);
}

#[test]
fn zen2_slower_target_buffers_cost_bubbles() {
    for (level, wanted) in [("0", 1.0), ("1", 2.0), ("2", 5.0)] {
        let core = core_with("zen2", &[("taken_branch.level", level)]).unwrap();
        close(cycles_on(&core, "ffc975fc", 0, Loop).unwrap(), wanted);
    }
}
