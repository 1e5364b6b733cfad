//! What a prediction says that it leaves out.

use crate::common::{core, is_x86, run, CORES};
use loopwright_pipeline::block::Notion::Unrolled;

/// What is left out of a block, but for that of the whole core.
fn caveats(name: &str, hex: &str) -> Vec<String> {
    let mut said = run(&core(name), hex, 0, Unrolled).expect("a prediction").caveats;
    said.retain(|sentence| !sentence.starts_with("unvalidated: "));
    said
}

#[test]
fn a_core_that_nothing_measured_was_held_against_says_so() {
    let said = |name: &str| run(&core(name), "90", 0, Unrolled).expect("a prediction").caveats;
    assert!(said("broadwell")[0].starts_with("unvalidated: no measurement of Broadwell"));
    let word = run(&core("neoverse-n2"), "1f2003d5", 0, Unrolled)
        .expect("a prediction")
        .caveats;
    assert!(word[0].starts_with("unvalidated: no measurement of Neoverse N2"));
    assert_eq!(said("haswell"), [""; 0]);
    assert_eq!(said("icelake"), [""; 0]);
}

#[test]
fn what_goes_past_the_caches_says_that_write_combining_is_not_simulated() {
    for name in CORES {
        // movnti [rdi], rax; movntps [rdi], xmm0; movntdq [rdi], xmm0; stnp x0, x1, [x2].
        let stores: &[&str] = if is_x86(name) {
            &["480fc307", "0f2b07", "660fe707"]
        } else {
            &["400400a8"]
        };
        for hex in stores {
            let said = caveats(name, hex);
            assert!(
                said.len() == 1 && said[0].contains("write-combining"),
                "{name}: {said:?}"
            );
        }
    }
    // A load of that kind takes what any load takes: movntdqa xmm0, [rdi].
    assert_eq!(caveats("skylake", "660f382a07"), [""; 0]);
}

#[test]
fn what_takes_as_long_as_its_operands_want_says_so() {
    for name in CORES {
        // div rcx; idiv ecx; sqrtsd xmm0, xmm1; sdiv and udiv x0, x1, x2.
        let codes: &[(&str, &str)] = if is_x86(name) {
            &[("48f7f1", "div"), ("f7f9", "idiv"), ("f20f51c1", "sqrtsd")]
        } else {
            &[("200cc29a", "sdiv"), ("2008c29a", "udiv")]
        };
        for (hex, instruction) in codes {
            let said = caveats(name, hex);
            assert!(said.len() == 1 && said[0].contains("operands"), "{name}: {said:?}");
            assert!(said[0].starts_with(&format!("{instruction}: ")), "{name}: {said:?}");
        }
    }
    // pext eax, eax, ecx: microcode on Zen 2, one uop elsewhere.
    assert!(caveats("zen2", "c4e27af5c1")[0].contains("mask"));
    for name in ["haswell", "skylake", "zen3", "zen4"] {
        assert_eq!(caveats(name, "c4e27af5c1"), [""; 0], "{name}");
    }
}

#[test]
fn a_kind_is_said_once_with_all_its_instructions() {
    // div rcx; idiv ecx; div rcx; movnti [rdi], rax.
    let said = caveats("skylake", "48f7f1f7f948f7f1480fc307");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].starts_with("div, idiv: "), "{said:?}");
}

#[test]
fn a_load_of_more_than_was_stored_says_so_where_no_figure_is_known() {
    // strb w0, [x1]; ldr x2, [x1]: known of Neoverse N1, not of TSV110.
    assert!(caveats("tsv110", "20000039220040f9")[0].contains("store before it wrote"));
    assert_eq!(caveats("neoverse-n1", "20000039220040f9"), [""; 0]);
    // mov [rdi], al; mov rax, [rdi].
    assert_eq!(caveats("redwoodcove", "8807488b07"), [""; 0]);
    // Past it, and all of it.
    assert_eq!(caveats("skylake", "8807488b4708"), [""; 0]);
    assert_eq!(caveats("skylake", "488907488b07"), [""; 0]);
}

#[test]
fn a_repetition_without_a_known_count_has_no_number() {
    // repe cmpsb; repne scasb.
    for name in ["sandybridge", "skylake", "zen2", "zen4"] {
        for hex in ["f3a6", "f2ae"] {
            let error = run(&core(name), hex, 0, Unrolled).unwrap_err().to_string();
            assert!(error.contains("how often it repeats"), "{name}: {error}");
        }
    }
}

#[test]
fn plain_code_says_nothing() {
    for name in CORES {
        // add rax, rcx; mov rdx, [rdi]; mov [rdi + 8], rdx, or ldr and str.
        let hex = if is_x86(name) {
            "4801c8488b1748895708"
        } else {
            "2000028b230040f9230400f9"
        };
        assert_eq!(caveats(name, hex), [""; 0], "{name}");
    }
}
