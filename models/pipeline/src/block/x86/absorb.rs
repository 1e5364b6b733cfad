//! Macro-fusion of a move or a load with the operation behind it, which reads and replaces its result.

use crate::block::builder::Builder;
use crate::block::uops::{Case, Expansion, From, Regs, Uop};
use crate::block::x86::expand;
use crate::core::figures::Figures;
use crate::core::params::Params;
use crate::isa::inst::{Branch, Decoded, Mem, NO_REG};
use crate::isa::label::FLAGS;

/// Moves between registers that an operation absorbs.
const MOVES: [&str; 7] = ["mov", "movaps", "movapd", "movups", "movupd", "movdqa", "movdqu"];
/// Loads that an operation absorbs. An aligned load of a vector is none: the operation could read memory itself.
const LOADS: [&str; 5] = ["mov", "movups", "movupd", "movdqu", "lddqu"];

/// An instruction with its figures and what it accesses.
pub(crate) type Known<'a> = (&'a Decoded, &'a Figures, Case);

/// Mnemonic and first operand of a form, for example `add` and `r64`.
fn parts(d: &Decoded) -> (&str, &str) {
    let (name, operands) = d.form.split_once(' ').unwrap_or((&d.form, ""));
    (name, operands.split(',').next().unwrap_or_default())
}

impl Builder<'_> {
    /// Whether the second instruction fuses with the first, a move or a load of a whole register.
    pub(crate) fn absorbs(&self, first: &Decoded, second: &Decoded) -> bool {
        let fusion = &self.params.macro_fusion;
        if fusion.move_ops.is_empty() && fusion.load_ops.is_empty() {
            return false;
        }
        let ((mover, width), (name, operand)) = (parts(first), parts(second));
        let listed = |ops: &str| ops.split_whitespace().any(|op| op == name);
        let moves = first.mems.is_empty() && MOVES.contains(&mover) && listed(&fusion.move_ops);
        let loads = first.mems.len() == 1 && LOADS.contains(&mover) && listed(&fusion.load_ops);
        let [(_, to)] = first.writes[..] else { return false };
        let replaced = second.writes.iter().filter(|w| w.0 != FLAGS).all(|w| w.1 == to);
        let reads = second.reads.iter().filter(|r| r.1 == to).count();
        let plain = second.mems.is_empty() && second.branch == Branch::No && second.high.is_empty();
        let whole = width == operand && ["r32", "r64", "x"].contains(&width);
        let addressed = |m: &Mem| m.read && m.index == NO_REG && !first.ip_relative;
        let readable = moves && first.reads.len() == 1
            || loads && first.mems.iter().all(addressed) && reads == 1 && !second.has_immediate;
        let apart = self.begins_at_boundary(second);
        readable && replaced && reads > 0 && plain && whole && !apart && !second.writes.is_empty()
    }
}

/// The one fused uop of both, which a renamed load cannot serve; `None` where the second has several uops.
pub(crate) fn fused_with(first: Known<'_>, second: Known<'_>, params: &Params) -> Option<Expansion> {
    let ((mover, row, case), (d, figures, other)) = (first, second);
    let to = mover.writes.first()?.1;
    let operation = expand(d, figures, other, params);
    let [work] = &operation.uops[..] else { return None };
    let mut work = work.clone();
    let read_from = |work: &mut Uop, from: From| {
        let reads = work.sources.iter_mut().filter(|s| s.from == From::Reg(to));
        reads.for_each(|s| s.from = from);
    };
    let uops = if mover.mems.is_empty() {
        read_from(&mut work, From::Reg(mover.reads.first()?.1));
        vec![work]
    } else {
        let parted = Case {
            exact: [false; 2],
            lower: [false; 2],
            ..case
        };
        let [mut load] = <[_; 1]>::try_from(expand(mover, row, parted, params).uops).ok()?;
        load.outputs.iter_mut().for_each(|o| o.regs = Regs::new());
        read_from(&mut work, From::Inner(0));
        vec![load, work]
    };
    Some(Expansion {
        fused: vec![vec![(0..uops.len() as u16).collect()]],
        ms: 0,
        uops,
    })
}
