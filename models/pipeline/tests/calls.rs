//! Whole calls: what they must share with loops, and what is known of them alone.

mod common;

use common::{bytes, close, core, core_with, cycles};
use loopwright_pipeline::block::Notion::Loop;
use loopwright_pipeline::calls::{run_all, CallCost, Request};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::isa::inst::{Decoded, Effect, Mem, NO_REG, REGS};
use loopwright_pipeline::isa::{decode, Isa};

/// A step as a trace packs it.
fn step(at: u32, repeats: u32, load: i64, store: i64) -> Vec<u8> {
    let head = [at, repeats].map(u32::to_le_bytes).concat();
    let addresses = [load, store].map(i64::to_le_bytes).concat();
    [head, addresses].concat()
}

fn ask(core: &Core, code: &[u8], offset: u32, steps: Vec<u8>) -> Result<CallCost, Error> {
    let request = Request {
        code: code.to_vec(),
        offset,
        steps,
    };
    run_all(core, &[request], 1).remove(0)
}

/// Runs code: every register starts at an address of its own, aligned to 4096 bytes, indices at 0.
struct Registers([i64; REGS]);

impl Registers {
    fn new(code: &[Decoded]) -> Registers {
        let mut values = [0; REGS];
        for (n, value) in values.iter_mut().enumerate() {
            // Different places of a page, in whole lines.
            *value = (n as i64 + 1) * 0x10_0000 + 256 * n as i64;
        }
        for mem in code.iter().flat_map(|d| &d.mems).filter(|m| m.index != NO_REG) {
            values[usize::from(mem.index)] = 0;
        }
        Registers(values)
    }

    fn address(&self, mem: &Mem) -> i64 {
        let value = |reg: u8| if reg == NO_REG { 0 } else { self.0[usize::from(reg)] };
        value(mem.base) + value(mem.index) * i64::from(mem.scale) + mem.disp
    }

    fn step(&mut self, d: &Decoded) -> Vec<u8> {
        let find = |wanted: fn(&Mem) -> bool| d.mems.iter().find(|m| wanted(m)).map_or(-1, |m| self.address(m));
        let (load, store) = (find(|m| m.read), find(|m| m.write));
        for effect in &d.effects {
            if let Effect::Offset { to, from, add } = *effect {
                self.0[usize::from(to)] = self.0[usize::from(from)] + add;
            }
        }
        step(d.offset, 1, load, store)
    }
}

/// A call that turns a loop so many times, and then jumps back to its start.
fn turns(isa: Isa, hex: &str, count: usize) -> (Vec<u8>, Vec<u8>) {
    let mut code = bytes(hex);
    let body = decode(isa, &code).expect("code");
    let (end, mut registers) = (code.len(), Registers::new(&body));
    let mut steps: Vec<u8> = (0..count)
        .flat_map(|_| body.iter().flat_map(|d| registers.step(d)).collect::<Vec<_>>())
        .collect();
    match isa {
        Isa::X86 => {
            code.push(0xe9);
            code.extend((-(end as i32 + 5)).to_le_bytes());
        }
        Isa::Arm64 => code.extend((0x1400_0000 | (-(end as i32 / 4)) as u32 & 0x3ff_ffff).to_le_bytes()),
    }
    steps.extend(step(end as u32, 1, -1, -1));
    (code, steps)
}

/// Cycles that a turn more takes.
fn slope(core: &Core, hex: &str, offset: u32) -> f64 {
    let call = |count| {
        let (code, steps) = turns(core.params.isa, hex, count);
        ask(core, &code, offset, steps).expect("a prediction").cycles
    };
    (call(512) - call(128)) / 384.0
}

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
        let core = core(name);
        for (hex, offset) in X86_LOOPS {
            let (wanted, got) = (cycles(name, hex, offset, Loop), slope(&core, hex, offset));
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
        let (wanted, got) = (cycles(name, hex, 0, Loop), slope(&core(name), hex, 0));
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
        let core = core(name);
        for hex in LOOPS {
            let (wanted, got) = (cycles(name, hex, 0, Loop), slope(&core, hex, 0));
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
        chain(0x0ffc) >= f64::from(p.failed_forward_cycles),
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
fn what_no_history_knows_costs_the_penalty_once() {
    let loops = |set: &[(&str, &str)], count| {
        let core = core_with("zen2", set).expect("a core");
        let (code, steps) = turns(Isa::X86, "48ffc975fb", count);
        ask(&core, &code, 0, steps).expect("a prediction")
    };
    let short = loops(&[], 20);
    close(short.mispredicted, short.cycles);
    let long = loops(&[], 300);
    let more = long.mispredicted - long.cycles;
    assert!((13.0..=19.0).contains(&more), "{more} cycles more, not some 16");
    let dear = loops(&[("mispredict.cycles", "116")], 300);
    close(dear.cycles, long.cycles);
    close(dear.mispredicted - long.mispredicted, 100.0);
    let known = loops(&[("mispredict.history", "301")], 300);
    close(known.mispredicted, known.cycles);
    let forgotten = loops(&[("mispredict.history", "3")], 20);
    assert!(forgotten.mispredicted >= short.cycles + 10.0);
}

#[test]
fn leaving_a_loop_costs_the_bubble_of_the_core() {
    let loops = |bubble: &str| {
        let core = core_with("skylake", &[("taken_branch.exit_bubble", bubble)]).expect("a core");
        let (code, steps) = turns(Isa::X86, "48ffc975fb", 20);
        ask(&core, &code, 0, steps).expect("a prediction").cycles
    };
    close(loops("7") - loops("2"), 5.0);
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
fn a_microcoded_return_goes_on_in_what_is_cached() {
    // The caller's counter is in the uop cache, what follows rep movsq up to the return is decoded.
    let code = bytes("4889d1f348a54889c831c0c39090909048ffcdebeb");
    let at = |n: u32, load, store| step(n, 8, load, store);
    let steps = [
        at(0, -1, -1),
        at(3, 0x1000, 0x2000),
        at(6, -1, -1),
        at(9, -1, -1),
        at(11, 0x3000, -1),
        at(16, -1, -1),
        at(19, -1, -1),
    ];
    for name in ["sandybridge", "skylake", "goldencove", "zen2"] {
        let call = ask(&core(name), &code, 0, steps.concat()).expect("a prediction");
        assert!((10.0..120.0).contains(&call.cycles), "{name}: {}", call.cycles);
    }
}

#[test]
fn one_call_alone_takes_its_latency() {
    let core = core("zen2");
    // Ten multiplications that depend on each other, and ten that do not.
    let call = |body: &str| {
        let code = bytes(&format!("{}ebd6", body.repeat(10)));
        let steps = (0..11).flat_map(|n| step(4 * n, 1, -1, -1)).collect();
        ask(&core, &code, 0, steps).expect("a prediction")
    };
    let (chain, free) = (call("480fafc0"), call("480fafc3"));
    assert!((30.0..45.0).contains(&chain.alone), "{}", chain.alone);
    assert_eq!(chain.instructions, 11);
    let apart = call("480faf07");
    assert!(apart.cycles < apart.alone, "calls overlap");
    close(free.cycles, chain.cycles);
}

#[test]
fn long_calls_are_shortened_and_say_so() {
    for (name, hex) in [
        ("zen2", "4889074883c70848ffc975f4"),
        ("sandybridge", "488b040e4889040f4883c1084839d175ef"),
    ] {
        let core = core(name);
        let (code, steps) = turns(Isa::X86, hex, 40_000);
        let call = ask(&core, &code, 0, steps).expect("a prediction");
        let wanted = 40_000.0 * cycles(name, hex, 0, Loop);
        assert!(
            (call.cycles - wanted).abs() <= 0.005 * wanted,
            "{name}: {} not {wanted}",
            call.cycles
        );
        assert!(call.mispredicted >= call.cycles);
        assert!(call
            .caveats
            .iter()
            .any(|c| c.contains("iterations of loops are not simulated")));
        let (code, steps) = turns(Isa::X86, hex, 100);
        let short = ask(&core, &code, 0, steps).expect("a prediction");
        assert_eq!(short.caveats, Vec::<String>::new());
    }
}

#[test]
fn damaged_steps_are_errors_that_say_where() {
    let core = core("zen2");
    // add rax,rbx; jne -5; jmp -7
    let code = bytes("4801d875fbebf9");
    let steps = |places: &[u32]| places.iter().flat_map(|at| step(*at, 1, -1, -1)).collect();
    let said = |steps: Vec<u8>| ask(&core, &code, 0, steps).unwrap_err().to_string();
    assert!(ask(&core, &code, 0, steps(&[0, 3, 0, 3, 5])).is_ok());
    for (places, words) in [
        (&[][..], "a call without steps"),
        (
            &[0, 5],
            "step 0: control cannot go from add r64,r64 at byte 0 to byte 5",
        ),
        (
            &[0, 3, 5, 3],
            "step 2: control cannot go from jmp rel at byte 5 to byte 3",
        ),
        (&[0], "to byte 0, the first step"),
        (&[0, 3, 99], "a step at byte 99, beyond the 7 bytes of code"),
    ] {
        let error = said(steps(places));
        assert!(error.contains(words), "{places:?}: {error}");
    }
    assert!(said(vec![0; 25]).contains("25 bytes of steps"));
    let invalid = ask(&core, &bytes("06ebfd"), 0, steps(&[0, 1])).unwrap_err();
    assert_eq!(invalid.to_string(), "invalid code at byte 0");
    // An instruction within another.
    let within = bytes("66b890c3eb00ebf8");
    let odd = [step(0, 1, -1, -1), step(4, 1, -1, -1), step(6, 1, -1, -1)].concat();
    assert!(ask(&core, &within, 0, odd).is_ok());
    // An instruction without figures.
    let unknown = ask(&core, &bytes("0f05ebfc"), 0, steps(&[0, 2]))
        .unwrap_err()
        .to_string();
    assert!(unknown.contains("syscall") || unknown.contains("control"), "{unknown}");
    // Too much that does not repeat.
    let mut places = Vec::new();
    for n in 0..200_000u32 {
        places.extend(if n % 3 == 0 || n % 7 == 0 || n % 11 == 0 {
            &[0, 3, 5][..]
        } else {
            &[0, 3][..]
        });
    }
    places.extend([0, 3, 5]);
    assert!(said(steps(&places)).contains("at most 20000"));
}

#[test]
fn calls_are_answered_in_order_by_any_number_of_threads() {
    let core = core("goldencove");
    let requests: Vec<Request> = (1..40)
        .map(|count| {
            let (code, steps) = turns(Isa::X86, "48ffc975fb", count);
            Request { code, offset: 0, steps }
        })
        .collect();
    let all = |threads| -> Vec<f64> {
        let answers = run_all(&core, &requests, threads).into_iter();
        answers.map(|a| a.expect("a prediction").cycles).collect()
    };
    assert_eq!(all(1), all(2));
    assert!(all(2).windows(2).all(|pair| pair[0] <= pair[1] + 1.0));
}
