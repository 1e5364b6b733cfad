//! The large loops of kernels/arm64/copy_user.

use crate::arm64::{cycles, tsv110, N1, TSV110};
use loopwright_pipeline::block::{Notion, StringUse};
use loopwright_pipeline::core::Core;
use loopwright_pipeline::predict::{predict, Request};

pub(crate) const TO_USER_PAIRS: [u32; 18] = [
    0xf80008c7, 0xf80088c8, 0x910040c6, 0xa8c12027, 0xf80008c9, 0xf80088ca, 0x910040c6, 0xa8c12829, 0xf80008cb,
    0xf80088cc, 0x910040c6, 0xa8c1302b, 0xf80008cd, 0xf80088ce, 0x910040c6, 0xa8c1382d, 0xf1010042, 0x54fffdea,
];
pub(crate) const TO_USER_BATCHED: [u32; 16] = [
    0xf80008c7, 0xf80088c8, 0xa9402027, 0xf80108c9, 0xf80188ca, 0xa9412829, 0xf80208cb, 0xf80288cc, 0xa942302b,
    0xf80308cd, 0xf80388ce, 0xa943382d, 0x910100c6, 0x91010021, 0xf1010042, 0x54fffe2a,
];
pub(crate) const NOPAN: [u32; 12] = [
    0xa90020c7, 0xa9402027, 0xa90128c9, 0xa9412829, 0xa90230cb, 0xa942302b, 0xa90338cd, 0xa943382d, 0x910100c6,
    0x91010021, 0xf1010042, 0x54fffeaa,
];
pub(crate) const FROM_USER_PAIRS: [u32; 18] = [
    0xa88120c7, 0xf8400827, 0xf8408828, 0x91004021, 0xa88128c9, 0xf8400829, 0xf840882a, 0x91004021, 0xa88130cb,
    0xf840082b, 0xf840882c, 0x91004021, 0xa88138cd, 0xf840082d, 0xf840882e, 0x91004021, 0xf1010042, 0x54fffdea,
];
pub(crate) const FROM_USER_BATCHED: [u32; 16] = [
    0xa90020c7, 0xf8400827, 0xf8408828, 0xa90128c9, 0xf8410829, 0xf841882a, 0xa90230cb, 0xf842082b, 0xf842882c,
    0xa90338cd, 0xf843082d, 0xf843882e, 0x910100c6, 0x91010021, 0xf1010042, 0x54fffe2a,
];

/// Port limits give 100 and 50 %; published for 16 KiB on Kunpeng 920 are 79.7 and 42.3 %, which lie
/// between them and what a pause of a cycle for each line gives: its range in core.toml.
#[test]
fn tsv110_copies_without_unprivileged_accesses_are_as_much_faster_as_ports_say() {
    let pausing = tsv110(&[("memory.stream_line_cycles", "1")]);
    for offset in (0..64).step_by(16) {
        let faster = |core: &Core, before: &[u32]| {
            let at = |words: &[u32]| cycles(core, words, offset, Notion::Loop).expect("a number");
            100.0 * (at(before) / at(&NOPAN) - 1.0)
        };
        for (before, ports, published) in [(&TO_USER_PAIRS[..], 100.0, 79.7), (&FROM_USER_PAIRS[..], 50.0, 42.3)] {
            assert!(
                (faster(&TSV110, before) - ports).abs() < 1.0,
                "{}",
                faster(&TSV110, before)
            );
            assert!(
                faster(&pausing, before) < published + 1.0,
                "{}",
                faster(&pausing, before)
            );
        }
    }
}

#[test]
fn moving_pointers_once_an_iteration_is_no_slower() {
    let at = |words: &[u32]| cycles(&TSV110, words, 0, Notion::Loop).expect("a number");
    assert!(at(&TO_USER_BATCHED) <= at(&TO_USER_PAIRS));
    assert!(at(&FROM_USER_BATCHED) <= at(&FROM_USER_PAIRS));
}

#[test]
fn the_store_port_limits_copies() {
    let limit = |core: &Core, words: &[u32]| {
        let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let request = Request {
            code: &code,
            offset: 0,
            notion: Notion::Loop,
            strings: StringUse::default(),
            bottleneck: true,
            ports: false,
            timeline: 0,
        };
        predict(core, &request).map(|p| p.bottleneck)
    };
    assert_eq!(limit(&TSV110, &TO_USER_PAIRS), Ok("port S".into()));
    assert!(limit(&TSV110, &NOPAN).is_ok_and(|l| l == "port S" || l == "port L"));
    // Loads and addresses of stores share two ports.
    assert_eq!(limit(&N1, &NOPAN), Ok("ports L and K".into()));
}
