//! Words that are no instructions, or have no figures, and that any word gets an answer.

use crate::arm64::blocks::{BRANCHES, DIV, FLAGS, NOPS, SHIFTED};
use crate::arm64::copies::{FROM_USER_BATCHED, NOPAN, TO_USER_PAIRS};
use crate::arm64::{cycles, overrides, N1, TSV110};
use loopwright_pipeline::block::Notion;
use loopwright_pipeline::core::Core;
use loopwright_pipeline::error::Error;
use loopwright_pipeline::isa::arm64::decode;
use proptest::prelude::*;

#[test]
fn what_has_no_figures_is_named() {
    let name = |word: u32| {
        cycles(&N1, &[word], 0, Notion::Unrolled)
            .expect_err("no number")
            .to_string()
    };
    assert_eq!(name(0xd50b_7420), "no figures for dc zva");
    assert_eq!(name(0xd503_3fdf), "no figures for isb");
    assert_eq!(name(0xd503_3b9f), "no figures for dsb");
    assert_eq!(name(0xd53b_e040), "no figures for mrs");
    assert_eq!(name(0xd503_205f), "no figures for wfe");
    assert_eq!(name(0xc85f_7c20), "no figures for ldxr");
    assert_eq!(name(0xd400_0001), "no figures for svc");
}

#[test]
fn words_that_are_no_instructions_are_refused() {
    let two = |word: u32| decode(&[[0x1f, 0x20, 0x03, 0xd5], word.to_le_bytes()].concat()).map(|_| ());
    let at_four = Err(Error::Decode(4));
    // Unallocated; add with a reserved shift; 32-bit add shifted by 40; a mask of all ones;
    // bitfield of mixed widths; load whose base is overwritten both ways; ldp of twice the same.
    for word in [
        0xffff_ffff,
        0x8bc2_0020,
        0x0b02_a020,
        0x9240_fc20,
        0x9300_0020,
        0xf840_8421,
        0xa940_0440 & !(31 << 10),
    ] {
        assert_eq!(two(word), at_four, "{word:08x}");
    }
    assert_eq!(decode(&[0x1f, 0x20, 0x03]).map(|_| ()), Err(Error::Decode(0)));
    assert_eq!(decode(&[0x1f, 0x20, 0x03, 0xd5, 0]).map(|_| ()), Err(Error::Decode(4)));
}

#[test]
fn forms_tell_apart_what_costs_differently() {
    let form = |word: u32| {
        decode(&word.to_le_bytes())
            .map(|d| d[0].form.clone())
            .unwrap_or_default()
    };
    assert_eq!(form(0x8b02_1020), "add x,x,x,lsl4");
    assert_eq!(form(0x8b02_1420), "add x,x,x,shift");
    assert_eq!(form(0x8b22_4820), "add x,x,x,ext");
    assert_eq!(form(0xaa01_03e0), "mov x,x");
    assert_eq!(form(0xf840_8420), "ldr x,[x],i");
    assert_eq!(form(0xf840_8c20), "ldr x,[x,i]!");
    assert_eq!(form(0xf862_7820), "ldr x,[x,x,3]");
    assert_eq!(form(0x3862_c820), "ldrb w,[x,w]");
    assert_eq!(form(0xf840_8820), "ldtr x,[x,i]");
    assert_eq!(form(0xa8c1_0440), "ldp x,x,[x],i");
    assert_eq!(form(0xad01_0440), "stp q,q,[x,i]");
    assert_eq!(form(0x4cdf_a000), "ld1 2q,[x],i");
    assert_eq!(form(0xd503_245f), "nop");
}

/// Words near real instructions: the copy loops with some bits changed.
fn words() -> impl Strategy<Value = Vec<u32>> {
    let real = [
        &NOPS[..],
        &TO_USER_PAIRS,
        &FROM_USER_BATCHED,
        &NOPAN,
        &FLAGS,
        &BRANCHES,
        &SHIFTED,
        &DIV,
    ]
    .concat();
    let near =
        (0..real.len(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(move |(n, a, b, c)| real[n] ^ a & b & c);
    proptest::collection::vec(prop_oneof![near, any::<u32>()], 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_give_a_number_or_an_error(words in words(), offset in 0..64u32, on_n1: bool, looped: bool) {
        let notion = if looped { Notion::Loop } else { Notion::Unrolled };
        let core = if on_n1 { &*N1 } else { &*TSV110 };
        if let Ok(found) = cycles(core, &words, offset, notion) {
            prop_assert!(found.is_finite() && found > 0.0, "{found}");
        }
    }

    #[test]
    fn any_word_gives_a_number_or_an_error(word: u32, bits: u32, n in 0..NOPAN.len()) {
        for word in [word, NOPAN[n] ^ word & bits] {
            for core in [&*N1, &*TSV110] {
                if let Ok(found) = cycles(core, &[word], 0, Notion::Unrolled) {
                    prop_assert!(found.is_finite() && found > 0.0, "{found}");
                }
            }
        }
    }

    #[test]
    fn any_table_gives_a_number_or_an_error(
        rows in proptest::collection::vec(("[0-5]", "[ABCMLSFG]{1,3}([+][ABCMLSFG]{1,2}){0,4}|", "[*af]:[0-9]{1,3}|", "tp=[0-9]|elim|"), 5),
        lines in 0..3u32,
    ) {
        let forms = ["ldp,\"x,x,[x,i]\"", "stp,\"x,x,[x,i]\"", "add,\"x,x,i\"", "subs,\"x,x,i\"", "b.cond,"];
        let mut table = String::from("mnemonic,operands,slots,mite,ms,decoder,ports,latency,flags,indexed,same\n");
        for (form, (slots, ports, latency, flags)) in forms.iter().zip(&rows) {
            table += &format!("{form},{slots},{slots},0,,{ports},{latency},{flags},,\n");
        }
        let set = overrides(&[("memory.stream_line_cycles", &lines.to_string())]);
        if let Ok(core) = Core::new(include_str!("../../../tsv110/core.toml"), &table, &set) {
            for notion in [Notion::Loop, Notion::Unrolled] {
                if let Ok(found) = cycles(&core, &NOPAN, 0, notion) {
                    prop_assert!(found.is_finite() && found > 0.0, "{found}");
                }
            }
        }
    }
}
