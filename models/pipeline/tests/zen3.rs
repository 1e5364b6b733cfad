//! What stores and loads of the same bytes take on an EPYC Zen 3 guest, measured with a calibrated TSC.
//!
//! `rsp` is renamed; by any other address loops alone are as quick, as predicted pairs. Not among them, as the
//! prediction is off: push and pop, or a store and a load, of one register 1.0 (0.67), two of them 2.0.

use crate::common::{core, cycles_on};
use loopwright_pipeline::block::Notion::{Loop, Unrolled};

const LOOP: &str = "49ffcf75"; // dec r15; jne

/// Name, code, cycles as copies back to back and as a loop.
const MEASURED: [(&str, &str, f64, f64); 8] = [
    ("add qword [rsp+8],1", "488344240801", 1.0, 1.0),
    ("add qword [rbx+8],1", "4883430801", 7.9, 1.0),
    ("add qword [rsp+rcx*8],1", "488304cc01", 7.9, 1.0),
    ("add qword [rsp+0x1000],1", "488384240010000001", 1.0, 1.0),
    ("add dword [rsp+4],1", "8344240401", 1.0, 1.0),
    ("mov [rsp+8],rax; mov eax,[rsp+12]", "48894424088b44240c", 6.6, 6.0),
    (
        "mov [rsp+8],ax; movzx eax,word [rsp+8]",
        "66894424080fb7442408",
        6.3,
        6.0,
    ),
    ("movaps [rsp],xmm0; movaps xmm0,[rsp]", "0f2904240f280424", 9.0, 9.0),
];

#[test]
fn zen3_renames_the_stack_and_predicts_pairs_in_loops() {
    let zen3 = core("zen3");
    for (name, code, straight, looped) in MEASURED {
        let back = format!("{code}{LOOP}{:02x}", 256 - code.len() / 2 - 5);
        for (code, notion, wanted) in [(code, Unrolled, straight), (&back, Loop, looped)] {
            let got = cycles_on(&zen3, code, 0, notion).expect(name);
            assert!(
                (got - wanted).abs() <= 0.1 * wanted,
                "{name}, {notion:?}: {got} cycles, not {wanted}"
            );
        }
    }
}

#[test]
fn zen3_writes_bytes_to_a_line_again_after_others_slowly() {
    let zen3 = core("zen3");
    let cycles = |code| cycles_on(&zen3, code, 0, Unrolled).expect("a prediction");
    for (name, code, measured) in [
        ("mov [rbx],cl; mov [rbx+64],cl", "880b884b40", 5.0),
        ("mov [rbx],cx; mov [rbx+64],cx", "66890b66894b40", 5.0),
        ("mov [rbx],ecx; mov [rbx+64],ecx", "890b894b40", 2.0),
        (
            "mov [rbx],cl; mov [rbx+1],cl; mov [rbx+64],rcx",
            "880b884b0148894b40",
            5.0,
        ),
        ("mov [rbx],cl; mov [rbx+1],cl", "880b884b01", 1.0),
    ] {
        let got = cycles(code);
        assert!((got - measured).abs() < 0.1, "{name}: {got} cycles, not {measured}");
    }
}

#[test]
fn zen3_predicts_two_dozen_pairs() {
    let zen3 = core("zen3");
    let at = |count: usize| {
        let body = "48830301".repeat(count); // add qword [rbx],1
        let code = format!("{body}{LOOP}{:02x}", 256 - body.len() / 2 - 5);
        cycles_on(&zen3, &code, 0, Loop).expect("a prediction") / count as f64
    };
    // Measured: 1.00 each of 24, 7.5 each of 28.
    assert!((at(24) - 1.0).abs() < 0.05, "{}", at(24));
    assert!((at(28) - 7.5).abs() < 0.75, "{}", at(28));
}
