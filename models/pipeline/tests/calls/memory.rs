//! Splits, forwarding and strings at known addresses.

use crate::calls::calling::{ask, step};
use crate::common::{bytes, close, core, core_with};
use loopwright_pipeline::core::Core;

/// Cycles of a call that makes one access after the other and jumps back.
fn accesses(core: &Core, hex: &str, lengths: &[u32], addresses: &[(i64, i64)]) -> f64 {
    let end: u32 = lengths.iter().sum();
    let code = [bytes(hex), vec![0xeb, (254 - end) as u8]].concat();
    let mut steps = Vec::new();
    let mut at = 0;
    for (length, (load, store)) in lengths.iter().zip(addresses) {
        steps.extend(step(at, 1, *load, *store));
        at += length;
    }
    steps.extend(step(end, 1, -1, -1));
    ask(core, &code, 0, steps).expect("a prediction").cycles
}

#[test]
fn accesses_are_split_at_their_own_addresses() {
    // Zen 2 writes 16 bytes in two cycles where they cross a multiple of 16.
    let zen2 = core("zen2");
    let store = |at: i64| accesses(&zen2, "0f1107", &[3], &[(-1, 0x1000 + at)]);
    assert_eq!([0, 4, 15, 16, 64].map(store), [1.0, 2.0, 2.0, 1.0, 1.0]);
    // A load of 32 bytes that crosses 32, twice: two ports.
    let loads = |at: i64| accesses(&zen2, "c5fc1007c5fc1006", &[4, 4], &[(at, -1), (at + 4096, -1)]);
    assert_eq!([0, 32].map(loads), [1.0, 1.0]);
    assert_eq!([1, 33].map(loads), [2.0, 2.0]);
}

#[test]
fn a_store_across_a_page_holds_those_behind_it() {
    // Of 8 bytes: within a line, across one, across a page; alone, and with three stores elsewhere.
    let zen4 = core("zen4");
    let alone = |at: i64| accesses(&zen4, "488907", &[3], &[(-1, at)]);
    assert_eq!([0x1ff8, 0x1fbc, 0x1ffc].map(alone), [1.0, 2.0, 34.0]);
    let beside = |at: i64| {
        let elsewhere = [0x5000, 0x5008, 0x5010].map(|at| (-1, at));
        accesses(
            &zen4,
            "4889074889064889460848894610",
            &[3, 3, 4, 4],
            &[&[(-1, at)], &elsewhere[..]].concat(),
        )
    };
    assert_eq!(beside(0x1fbc), 3.0);
    // 35 measured; less while the store queue fills.
    assert!((33.0..=35.0).contains(&beside(0x1ffc)), "{}", beside(0x1ffc));
    // What does not store goes on: 34 cycles in all with 20 additions that wait for each other.
    let sums = format!("488907{}", "4883c301".repeat(20));
    let lengths = [vec![3], vec![4; 20]].concat();
    let addresses = [vec![(-1, 0x1ffc)], vec![(-1, -1); 20]].concat();
    assert_eq!(accesses(&zen4, &sums, &lengths, &addresses), 34.0);
    // A load takes no longer than across a line.
    let load = |at: i64| accesses(&zen4, "488b06", &[3], &[(at, -1)]);
    assert_eq!(load(0x1ffc), load(0x1fbc));
}

#[test]
fn loads_take_from_stores_by_their_addresses() {
    let golden = core("goldencove");
    // mov [rdi],eax and mov rax,[rsi]: what was stored, its place, and what is loaded.
    let chain = |load: i64| accesses(&golden, "8907488b06", &[2, 3], &[(-1, 0x1000), (load, -1)]);
    let p = &golden.params.memory;
    assert!(
        chain(0x1000) >= f64::from(p.failed_forward_cycles),
        "only a part was stored"
    );
    assert!(
        chain(0x0ffc) >= f64::from(p.failed_forward_wait_cycles),
        "the upper half was stored"
    );
    for elsewhere in [0x1004, 0x0ff8, 0x2000] {
        assert!(chain(elsewhere) <= 2.0, "{elsewhere:x} was not stored to");
    }
    // Of eight bytes stored, four are loaded: forwarded from within.
    let part = |load: i64| accesses(&golden, "4889078b06", &[3, 2], &[(-1, 0x1000), (load, -1)]);
    assert!(part(0x1000) <= f64::from(p.forward_cycles) + 1.0);
    // The next call loads what the one before it stored.
    let later = accesses(&golden, "488b06488907", &[3, 3], &[(0x1000, -1), (-1, 0x1000)]);
    let apart = accesses(&golden, "488b06488907", &[3, 3], &[(0x1000, -1), (-1, 0x2000)]);
    assert!(apart <= 2.0, "{apart}");
    assert!(later >= apart, "{later}");
}

#[test]
fn strings_take_their_own_count_and_alignment() {
    let skylake = core("skylake");
    // rep movsq and a jump back.
    let copy = |words: u32, load: i64, store: i64| {
        let steps = [step(0, words, load, store), step(3, 1, -1, -1)].concat();
        ask(&skylake, &bytes("f348a5ebfb"), 0, steps)
            .expect("a prediction")
            .cycles
    };
    let p = &skylake.params.string;
    let aligned = copy(192, 0x1000, 0x2000) - copy(64, 0x1000, 0x2000);
    close(aligned, 128.0 * 8.0 / p.movs_rate);
    let odd = copy(192, 0x1000, 0x2001) - copy(64, 0x1000, 0x2001);
    close(odd, 128.0 * 8.0 / p.movs_rate_unaligned);
    let whole = copy(64, 0x1000, 0x2000);
    assert!(whole >= p.movs_startup + 64.0 * 8.0 / p.movs_rate, "{whole}");
    // Golden Cove copies words slowly where either side is at no multiple of 8.
    let golden = core("goldencove");
    let copy = |load: i64, store: i64| {
        let steps = [step(0, 16, load, store), step(3, 1, -1, -1)].concat();
        ask(&golden, &bytes("f348a5ebfb"), 0, steps)
            .expect("a prediction")
            .cycles
    };
    assert!(copy(0x1001, 0x2000) > copy(0x1000, 0x2000) + 40.0);
    close(copy(0x1001, 0x2000), copy(0x1000, 0x2001));
}

/// Cycles of a string instruction of 512 bytes, 24 dependent additions and a jump back on zen4 with a setting.
fn string_then_additions(string: &str, times: u32, setting: (&str, &str)) -> f64 {
    let length = string.len() as u32 / 2;
    let code = format!("{string}{}eb{:02x}", "4883c001".repeat(24), 158 - length);
    let core = core_with("zen4", &[setting]).expect("a core");
    let behind = (0..25).flat_map(|n| step(length + 4 * n, 1, -1, -1));
    let steps = step(0, times, 0x1000, 0x2000).into_iter().chain(behind).collect();
    ask(&core, &bytes(&code), 0, steps).expect("a prediction").cycles
}

#[test]
fn strings_hold_what_follows_them_where_the_core_says_so() {
    let movsq = |holds| string_then_additions("f348a5", 64, ("string.holds_rename", holds));
    assert!(movsq("true") >= movsq("false") + 3.0);
}

#[test]
fn strings_of_short_elements_need_not_hold_rename() {
    let movsb = |from| string_then_additions("f3a4", 512, ("string.hold_bytes", from));
    assert!(movsb("1") >= movsb("2") + 3.0);
}

#[test]
fn zen4_fills_and_copies_by_where_they_start_and_end() {
    let zen4 = core("zen4");
    let cycles = |code: &str, repeats: u32, store: i64| {
        let steps = [step(0, repeats, 0x1000, store), step(3, 1, -1, -1)].concat();
        ask(&zen4, &bytes(code), 0, steps).expect("a prediction").cycles
    };
    let words = |bytes: u32, store: i64| cycles("f348a5ebfb", bytes / 8, store);
    // 512 bytes measured as calls: 44 cycles to multiples of 32 and up to 7 bytes beyond, else 52.
    close(words(512, 0x2007), words(512, 0x2000));
    close(words(512, 0x2008) - words(512, 0x2000), 8.0);
    close(words(512, 0x201f), words(512, 0x2008));
    // 264 bytes 41, 256 bytes 38; what is short takes the same anywhere.
    assert!(words(264, 0x2000) > words(256, 0x2000) + 2.0);
    close(words(64, 0x2009), words(200, 0x2000));
}

#[test]
fn a_side_at_no_multiple_of_the_element_costs_more_than_one_off_the_line() {
    let copy = |side: &str, load: i64, store: i64| {
        let set = [("string.movs_odd_line_cycles", "10"), ("string.odd_side", side)];
        let core = core_with("skylake", &set).expect("a core");
        let steps = [step(0, 64, load, store), step(3, 1, -1, -1)].concat();
        ask(&core, &bytes("f348a5ebfb"), 0, steps).expect("a prediction").cycles
    };
    for side in ["destination", "either"] {
        // 512 bytes: from 32 bytes a cycle to 16, and eight lines of 10 cycles.
        close(copy(side, 0x1000, 0x2008) - copy(side, 0x1000, 0x2000), 16.0);
        close(copy(side, 0x1000, 0x2001) - copy(side, 0x1000, 0x2008), 80.0);
    }
    close(copy("destination", 0x1001, 0x2008), copy("destination", 0x1000, 0x2008));
    close(copy("either", 0x1001, 0x2008), copy("either", 0x1000, 0x2001));
}

#[test]
fn a_destination_that_has_to_end_aligned_may_start_anywhere() {
    let copy = |at: &str, repeats: u32, store: i64| {
        let points = [
            ("string.aligned_at", at),
            ("string.movsb_cycles", "[[64,10,30],[128,10,30]]"),
        ];
        let core = core_with("skylake", &points).expect("a core");
        let steps = [step(0, repeats, 0x1000, store), step(2, 1, -1, -1)].concat();
        ask(&core, &bytes("f3a4ebfc"), 0, steps).expect("a prediction").cycles
    };
    close(copy("start", 88, 0x2008) - copy("start", 88, 0x2000), 20.0);
    close(copy("end", 96, 0x2008) - copy("end", 88, 0x2008), 20.0);
    close(copy("end", 88, 0x2008), copy("end", 96, 0x2000));
}
