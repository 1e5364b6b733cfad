//! Instructions that cost cycles more beside certain others: shifts, logic and what picks by its flags.

use crate::block::uops::{Expansion, Role};
use crate::block::Traits;
use crate::isa::inst::Decoded;

/// Operations whose flags are those of logic.
const LOGIC: [&str; 12] = [
    "test", "and", "or", "xor", "andn", "blsr", "blsi", "blsmsk", "bt", "bts", "btr", "btc",
];
/// Additions of one whose flags are the same where they are fused with a branch.
const STEPS: [&str; 2] = ["inc", "dec"];
/// Operations of the unit that shifts.
const SHIFTS: [&str; 14] = [
    "shl", "shr", "sar", "rol", "ror", "rorx", "shlx", "shrx", "sarx", "bts", "btr", "btc", "bswap", "bextr",
];

/// The traits of an instruction, which is `fused` with a branch or not.
pub(crate) fn traits(d: &Decoded, expansion: &Expansion, fused: bool) -> Traits {
    let name = d.form.split(' ').next().unwrap_or_default();
    let computes = expansion.uops.iter().filter(|u| u.role == Role::Compute).count();
    Traits {
        logic: LOGIC.contains(&name) || fused && STEPS.contains(&name),
        picks: (name.starts_with("cmov") || name.starts_with("set")) && computes == 1,
        shifts: SHIFTS.contains(&name),
        sums: sums(name) && !d.bits512,
    }
}

/// Whether an operation adds or subtracts floats.
fn sums(name: &str) -> bool {
    let name = name.strip_prefix('v').unwrap_or(name);
    let kind = name.strip_suffix(['s', 'd']).and_then(|n| n.strip_suffix(['s', 'p']));
    kind.is_some_and(|kind| ["add", "sub", "addsub"].contains(&kind))
}

/// Whether a register's low byte has a name that no older code uses: `spl`, `dil`, `r12b` and so on.
pub(crate) fn extends_odd_byte(d: &Decoded) -> bool {
    let byte = d.form.strip_prefix("movzx ").is_some_and(|o| o.ends_with(",r8"));
    byte && d.reads.iter().any(|r| r.1 & 4 != 0)
}
