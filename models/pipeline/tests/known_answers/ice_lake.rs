//! What uops.info's table of Ice Lake says that Skylake does otherwise.

use crate::common::{close, cycles};
use loopwright_pipeline::block::Notion::Unrolled;

#[test]
fn ice_lake_differs_from_skylake_as_uops_info_measured() {
    for (code, here, skylake) in [
        ("488907", 0.5, 1.0),     // mov [rdi], rax
        ("488d440008", 1.0, 3.0), // lea rax, [rax + rax + 8]
        ("c4e27100c2", 0.5, 1.0), // vpshufb xmm0, xmm1, xmm2
        ("c5f014c2", 1.0, 1.0),   // vunpcklps: not on port 1
        ("f3480fb8c3", 1.0, 3.0), // popcnt rax, rbx: no false dependency
        ("660f38dcc1", 3.0, 4.0), // aesenc xmm0, xmm1
    ] {
        close(cycles("icelake", code, 0, Unrolled), here);
        close(cycles("skylake", code, 0, Unrolled), skylake);
    }
}
