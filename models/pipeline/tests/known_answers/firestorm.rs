//! What insn_bench_aarch64 and Johnson's tables say of Apple's Firestorm.

use crate::common::{close, cycles};
use loopwright_pipeline::block::Notion::Unrolled;

#[test]
fn firestorm_takes_what_was_measured_on_an_m1() {
    for (code, wanted) in [
        ("1f2003d5", 0.125),       // nop
        ("e10302aa", 0.125),       // mov x1, x2: eliminated
        ("410003ab", 1.0 / 3.0),   // adds x1, x2, x3
        ("200c028b", 1.0 / 3.0),   // add x0, x1, x2, lsl 3: two units, one place
        ("000c018b", 2.0),         // add x0, x0, x1, lsl 3
        ("007c019b", 3.0),         // mul x0, x0, x1
        ("2000029b", 1.0),         // madd x0, x1, x2, x0: the addend is passed on
        ("0008019b", 3.0),         // madd x0, x0, x1, x2
        ("200cc29a", 2.0),         // sdiv x0, x1, x2
        ("20cc224e", 4.0),         // fmla v0.4s, v1.4s, v2.4s
        ("200000f9", 0.5),         // str x0, [x1]
        ("400400a9", 0.5),         // stp x0, x1, [x2]
        ("400440ad", 2.0 / 3.0),   // ldp q0, q1, [x2]
        ("3f0002eb20000054", 0.5), // cmp x1, x2; b.eq, not taken: one uop
    ] {
        close(cycles("firestorm", code, 0, Unrolled), wanted);
    }
}
