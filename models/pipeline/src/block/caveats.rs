//! The parts that a prediction leaves out, by instruction.

use crate::block::uops::Case;
use crate::core::figures::Figures;
use crate::core::params::Params;
use crate::error::Error;
use crate::isa::inst::Decoded;

/// Something that the simulator has no figures for, or only those of its quickest case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caveat {
    /// Stores that go past the caches.
    NonTemporal,
    /// A division or a square root.
    Operands,
    /// Microcode that takes as long as its mask has bits.
    Mask,
    /// Lines that leave the caches.
    Flush,
    /// An instruction that waits for all before it and has no parameter for that.
    Waits,
    /// Input and output.
    Device,
    /// A unit that all cores share.
    Shared,
    /// A load of more than the store before it wrote, and the core has no figure for that.
    Overlap,
}

impl Caveat {
    /// The part that is not simulated, in words that follow the instruction's name.
    fn text(self) -> &'static str {
        match self {
            Caveat::NonTemporal => "write-combining buffers are not simulated, it may take longer",
            Caveat::Operands => "its time depends on the operands, a quick case is taken",
            Caveat::Mask => "its time depends on the bits of the mask, a quick case is taken",
            Caveat::Flush => "lines that leave the caches are not simulated, it may take longer",
            Caveat::Waits => "that it waits for what comes before is not simulated, it may take longer",
            Caveat::Device => "the device is not simulated, it takes longer",
            Caveat::Shared => "its unit is shared with other cores, it may take longer",
            Caveat::Overlap => "it reads more than a store before it wrote, which may take longer; no figure is known",
        }
    }
}

/// Mnemonics by their starts; a `$` ends a whole mnemonic.
const KINDS: &[(Caveat, &[&str])] = &[
    (
        Caveat::NonTemporal,
        &["movnt", "vmovnt", "maskmov", "vmaskmovdqu", "stnp", "movdir"],
    ),
    (
        Caveat::Operands,
        &["div", "idiv", "vdiv", "sqrt", "vsqrt", "udiv", "sdiv", "fdiv", "fsqrt"],
    ),
    (
        Caveat::Flush,
        &["clflush", "clwb", "cldemote", "clzero", "wbinvd", "wbnoinvd", "invd$"],
    ),
    (
        Caveat::Waits,
        &[
            "cpuid",
            "rdtscp",
            "wrmsr",
            "xsetbv",
            "iret",
            "invlpg",
            "invpcid",
            "lgdt",
            "lidt",
            "lldt",
            "ltr",
            "lmsw",
            "clts",
            "sysret",
            "syscall",
            "sysenter",
            "serialize",
            "rsm",
        ],
    ),
    (
        Caveat::Device,
        &["in$", "out$", "insb", "insw", "insd", "outsb", "outsw", "outsd"],
    ),
    (Caveat::Shared, &["rdrand", "rdseed"]),
];

fn mnemonic(d: &Decoded) -> &str {
    d.form.split([' ', '.']).next().unwrap_or_default()
}

/// The part of an instruction that the simulator leaves out.
pub(crate) fn of(d: &Decoded, figures: &Figures, case: &Case) -> Option<Caveat> {
    let name = mnemonic(d);
    if case.overlaps {
        return Some(Caveat::Overlap);
    }
    if matches!(name, "pdep" | "pext") && figures.shape.ports.len() > 2 {
        return Some(Caveat::Mask);
    }
    let starts = |start: &&str| match start.strip_suffix('$') {
        Some(whole) => name == whole,
        None => name.starts_with(start),
    };
    let (kind, _) = KINDS.iter().find(|(_, starts_with)| starts_with.iter().any(starts))?;
    // movntdqa loads.
    let stores = d.mems.iter().any(|m| m.write);
    (*kind != Caveat::NonTemporal || stores).then_some(*kind)
}

/// A repeated instruction whose figures are of no known number of repetitions.
///
/// # Errors
/// The instruction is one.
pub(crate) fn refuse_repeated(d: &Decoded) -> Result<(), Error> {
    let repeated = d.form.ends_with(".rep") || d.form.ends_with(".repne");
    let known = ["movs", "stos"].iter().any(|s| d.form.starts_with(s));
    if repeated && !known {
        let why = "its cost depends on how often it repeats";
        return Err(Error::Unknown(format!("{}: {why}", d.form)));
    }
    Ok(())
}

/// Sentences: that the core is unvalidated, and one for each kind, that names the instructions.
pub(crate) fn sentences<'a>(core: &Params, found: impl Iterator<Item = (Caveat, &'a Decoded)>) -> Vec<String> {
    let mut by_kind: Vec<(Caveat, Vec<&str>)> = Vec::new();
    for (kind, d) in found {
        let name = mnemonic(d);
        match by_kind.iter_mut().find(|k| k.0 == kind) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => by_kind.push((kind, vec![name])),
        }
    }
    by_kind.sort_by_key(|k| k.0);
    let unvalidated = Some(&core.unvalidated).filter(|why| !why.is_empty());
    let left_out = by_kind
        .iter()
        .map(|(kind, names)| format!("{}: {}", names.join(", "), kind.text()));
    unvalidated
        .map(|why| format!("unvalidated: {why}"))
        .into_iter()
        .chain(left_out)
        .collect()
}
