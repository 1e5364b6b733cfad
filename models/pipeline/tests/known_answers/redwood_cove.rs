//! What is known of Redwood Cove, most of it measured on a guest.

use crate::common::{close, core, core_with, cycles, cycles_on, run};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

#[test]
fn redwoodcove_load_of_more_than_was_stored_waits_for_the_cache() {
    // mov [rdi+rsi], rax; mov rax, [rdi+rsi], then a store of al alone.
    close(cycles("redwoodcove", "48890437488b0437", 0, Unrolled), 5.0);
    close(cycles("redwoodcove", "880437488b0437", 0, Unrolled), 19.0);
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
        for offset in 0..slow_from {
            close(cycles("redwoodcove", hex, offset, Loop), quick);
        }
        for offset in slow_from..64 {
            let p = run(&core("redwoodcove"), hex, offset, Loop).unwrap();
            assert!(p.cycles > 1.2 * quick, "{} cycles at {offset}", p.cycles);
            assert_eq!(p.bottleneck, "op cache");
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
        cycles_on(&core, hex, 0, Unrolled).unwrap()
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
