//! Which schedulers the uops of a cycle go to, as measured on a Zen 4 guest.
//!
//! Behind a fence, one of the uops waits for a value that uops in known schedulers wait for as well: the chain of the
//! later one takes a cycle more where both are in the same scheduler.

use loopwright_pipeline::engine::slots_of_schedulers::{assign, Cycle};

/// Zen 4: the scheduler with the branch unit takes a second uop.
const ZEN4: Cycle = Cycle {
    schedulers: 0b1111,
    second: 0b1000,
};

/// f: lea, all four; c: cmov; r: rorx; i: imul; x: movd to a vector; j: a load and an addition.
fn schedulers(uops: &str) -> Vec<u32> {
    let of = |kind| match kind {
        'c' => 0b1001,
        'r' => 0b0110,
        'i' => 0b0010,
        'x' => 0b0001,
        'j' => 0b0111,
        _ => 0b1111,
    };
    uops.chars().map(of).collect()
}

fn chosen(uops: &str, load: [u32; 4]) -> String {
    let chosen = assign(&ZEN4, &schedulers(uops), &load);
    chosen.iter().map(|n| n.to_string()).collect()
}

#[test]
fn uops_go_to_the_schedulers_of_the_machine() {
    for (uops, measured) in [
        ("f", "0"),
        ("ffff", "0123"),
        ("fc", "10"),
        ("ffc", "120"),
        ("fcf", "102"),
        ("fffc", "0123"),
        ("fcff", "0312"),
        ("ffcc", "1203"),
        ("rf", "10"),
        ("frr", "012"),
        ("ffrr", "0312"),
        ("ri", "21"),
        ("ffi", "021"),
        ("fcri", "0321"),
        ("cif", "012"),
        ("rfci", "2031"),
        ("cffff", "30123"),
        ("fffcf", "01233"),
        ("cfcfc", "01323"),
        ("ifif", "1012"),
        ("iifff", "11023"),
        ("rcff", "1023"),
        ("xcff", "0312"),
        ("fcxf", "1302"),
    ] {
        assert_eq!(chosen(uops, [0; 4]), measured, "{uops}");
    }
}

#[test]
fn a_cycle_ends_before_a_uop_that_finds_no_scheduler() {
    for (uops, taken) in [
        ("fffff", 4),
        ("rrr", 2),
        ("cccc", 3),
        ("iii", 2),
        ("cfffff", 5),
        ("rrff", 4),
        ("cccff", 5),
        ("xcfff", 5),
        ("xccfff", 2),
        ("ccxff", 2),
        ("jjjcc", 4),
        ("jcjcj", 4),
        ("jfjcc", 5),
        ("jjccc", 5),
    ] {
        assert_eq!(chosen(uops, [0; 4]).len(), taken, "{uops}");
    }
}

#[test]
fn schedulers_with_fewer_uops_go_first() {
    for (load, last) in [
        ([1, 0, 0, 0], ["1", "2", "3", "3"]),
        ([0, 1, 0, 0], ["0", "2", "3", "3"]),
        ([1, 0, 1, 1], ["1", "1", "2", "3"]),
        ([2, 0, 1, 1], ["1", "2", "3", "3"]),
        ([2, 1, 0, 1], ["2", "2", "3", "3"]),
        ([1, 1, 1, 0], ["3", "3", "3", "3"]),
        ([0, 1, 2, 1], ["0", "1", "3", "3"]),
    ] {
        for (n, measured) in last.iter().enumerate() {
            let all = chosen(&"f".repeat(n + 1), load);
            assert!(all.ends_with(measured), "{load:?}: {all}");
        }
    }
}
