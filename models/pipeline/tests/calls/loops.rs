//! Calls of loops and of straight code, held to those.

use crate::calls::calling::{ask, slope, Registers};
use crate::common::{bytes, core, core_with, cycles, cycles_on};
use loopwright_pipeline::block::Notion::Loop;
use loopwright_pipeline::isa::{decode, Isa};

const X86_LOOPS: [(&str, u32); 13] = [
    ("48ffc975fb", 0),
    ("48ffc975fb", 61),
    ("ffc975fc", 0),
    ("4889d84889c34889d94889cbffc975f0", 0),
    ("4889074883c70848ffc975f4", 0),
    ("c5fc1007c5fc1147204883c720ffc975ef", 0),
    ("9090909090909090909090909090ffc975ee", 0),
    ("480107ffc975f9", 0),
    ("0f29070f5807ffc975f6", 0),
    ("488b040e4889040f4883c1084839d175ef", 0),
    ("f77f08ffc975f9", 0),
    ("4889442418488944242849ffcf75f1", 0),
    ("c5fc11074883c71048ffc975f3", 0),
];

#[test]
fn a_turn_more_takes_what_a_loop_takes() {
    let (mut seen, mut off) = (0, Vec::new());
    for name in ["sandybridge", "haswell", "skylake", "goldencove", "zen2", "zen4"] {
        // A call walks over the ends of pages; a loop knows of none.
        let without: &[_] = match name {
            "zen4" => &[("memory.commit_page_cycles", "0")],
            _ => &[],
        };
        let core = core_with(name, without).expect("a core");
        for (hex, offset) in X86_LOOPS {
            let (wanted, got) = (cycles(name, hex, offset, Loop), slope(&core, hex, offset, 256));
            if (got - wanted).abs() > 0.01 * wanted {
                off.push(format!("{name} {hex} at {offset}: {got} a turn, {wanted} as a loop"));
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 6 * X86_LOOPS.len());
    assert_eq!(off, Vec::<String>::new());
}

#[test]
fn a_turn_of_what_fills_all_ports_takes_about_what_a_loop_takes() {
    // Which port a uop takes follows from what came before, as far back as where the call began.
    let hex = "4883c0014801d84883c2014801daffc975ee";
    for name in ["sandybridge", "haswell", "skylake", "goldencove"] {
        let (wanted, got) = (cycles(name, hex, 0, Loop), slope(&core(name), hex, 0, 128));
        assert!(
            (got - wanted).abs() <= 0.12 * wanted,
            "{name}: {got}, {wanted} as a loop"
        );
    }
}

#[test]
fn a_turn_more_takes_what_a_loop_takes_on_aarch64() {
    // A copy by pairs, stores of pairs of vectors, sums, a count, a chain of loads.
    const LOOPS: [&str; 5] = [
        "2414c1a8041481a8420400f1a1ffff54",
        "000400ad00800091420400f1a1ffff54",
        "246863f863200091a500048b7f0002eb81ffff54",
        "210400f1e1ffff54",
        "010040f9e2ffff54",
    ];
    for name in ["neoverse-n1", "tsv110"] {
        // Where rename chooses ports, a loop does not always get the same ones.
        let core = core_with(name, &[("ports.assign", "at_issue")]).unwrap();
        for hex in LOOPS {
            let (wanted, got) = (cycles_on(&core, hex, 0, Loop).unwrap(), slope(&core, hex, 0, 128));
            assert!(
                (got - wanted).abs() <= 0.01 * wanted,
                "{name} {hex}: {got} a turn, {wanted} as a loop"
            );
        }
    }
}

#[test]
fn a_call_of_straight_code_takes_what_that_takes_as_a_loop() {
    for name in ["sandybridge", "skylake", "goldencove", "zen2", "zen4"] {
        let core = core(name);
        // Additions, multiplications, loads and stores, each with a jump to the start.
        for body in [
            "4801d84801d94801da",
            "480fafc3480fafcb",
            "488b07488b4f0848894710",
            "90909090909090",
        ] {
            let hex = format!("{body}eb{:02x}", 254 - body.len() / 2);
            let code = bytes(&hex);
            let decoded = decode(Isa::X86, &code).expect("code");
            let mut registers = Registers::new(&decoded);
            let steps = decoded.iter().flat_map(|d| registers.step(d)).collect();
            let call = ask(&core, &code, 0, steps).expect("a prediction");
            let wanted = cycles(name, &hex, 0, Loop);
            let buffered = core.params.loop_buffer.enabled;
            let off = if buffered { 0.5 } else { 0.01 * wanted };
            assert!(
                (call.cycles - wanted).abs() <= off,
                "{name} {hex}: {} not {wanted}",
                call.cycles
            );
        }
    }
}
