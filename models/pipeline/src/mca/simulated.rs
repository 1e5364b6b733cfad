//! A region simulated on a core, with all that the views print.

use crate::block::path::Path;
use crate::block::uops::Role;
use crate::block::{Block, Notion, StringUse};
use crate::block_offsets::BlockOffsets;
use crate::core::Core;
use crate::error::Error;
use crate::isa::inst::{Branch, Decoded, Special};
use crate::isa::{self, Isa};
use crate::mca::flags::Flags;
use crate::mca::region::Region;
use crate::mca::text;
use crate::observe::timeline::{Row, Timeline, ROWS};
use crate::predict::{self, Prediction, Request};

/// Code offsets of a line.
const LINE: u32 = 64;

/// Iterations recorded at most; totals of more go on at the steady state's pace.
const RECORDED: u32 = 1000;

const NOT_STRAIGHT: &str =
    "a call, a return, an indirect jump or a repeated string instruction is in it; mark a region without";

/// Figures of an instruction by itself.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Uops that ports execute, or that rename handles alone.
    pub uops: usize,
    /// Cycles from the first operand or address to the last result.
    pub latency: u32,
    /// Cycles between independent instances, as ports, dividers and the dispatch width bound them.
    pub throughput: f64,
    /// Reads memory.
    pub loads: bool,
    /// Writes memory.
    pub stores: bool,
    /// Does what no register or memory operand shows.
    pub side_effects: bool,
}

/// One region on one core.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// The region.
    pub region: Region,
    /// Code offset of its first byte.
    pub offset: u32,
    /// A loop, or copies that follow each other.
    pub kind: Notion,
    /// Text of each instruction.
    pub text: Vec<String>,
    /// Bytes of each instruction.
    pub bytes: Vec<Vec<u8>>,
    /// Figures of each instruction.
    pub info: Vec<Info>,
    /// The prediction, with ports, limits and timeline.
    pub prediction: Prediction,
    /// Rows of the timeline.
    pub rows: Vec<Row>,
    /// Iterations that the rows are of.
    pub recorded: u32,
    /// Whether a row begins a fused uop, by its number in an iteration.
    pub begins: Vec<bool>,
    /// Iterations asked for.
    pub iterations: u32,
    /// Cycles of them all, from the first fetch to the last retirement.
    pub total_cycles: f64,
    /// Fused uops of an iteration.
    pub uops: usize,
    /// Cycles an iteration by ports and dispatch alone.
    pub bound: f64,
    /// Cycles an iteration at each code offset; not a number where no code can lie.
    pub offsets: Vec<f64>,
    /// Lines that the user should know.
    pub notes: Vec<String>,
}

impl Simulated {
    /// Simulate a region.
    ///
    /// # Errors
    /// Control leaves it, or an instruction has no figures: one line that names the region.
    pub fn new(core: &Core, flags: &Flags, mut region: Region) -> Result<Simulated, String> {
        let isa = core.params.isa;
        let mut notes = Vec::new();
        loop {
            match simulated(core, flags, &region) {
                Ok(mut found) => {
                    notes.append(&mut found.notes);
                    return Ok(Simulated { region, notes, ..found });
                }
                Err(Error::Unknown(form)) if flags.skip_unsupported => {
                    if !leave_out(&mut region, isa, &form) {
                        return Err(named(&region, &Error::Unknown(form)));
                    }
                    notes.push(format!("left out, as it has no figures: {form}"));
                }
                Err(error) => return Err(named(&region, &error)),
            }
        }
    }

    /// Whether code lies in two lines or more at the offset.
    pub fn crosses_line(&self) -> bool {
        self.offset as usize + self.region.code.len() > LINE as usize
    }
}

fn named(region: &Region, error: &Error) -> String {
    let why = match error {
        Error::Unknown(_) => format!("{error}; -skip-unsupported-instructions=lack-sched leaves it out"),
        _ => error.to_string(),
    };
    match region.name.as_str() {
        "" => why,
        name => format!("region {name}: {why}"),
    }
}

/// Leave out the first instruction of a form; whether there was one.
fn leave_out(region: &mut Region, isa: Isa, form: &str) -> bool {
    let mut at = 0;
    while at < region.code.len() {
        match isa::decode_at(isa, &region.code, at) {
            Ok((d, _)) if d.form != form => at += usize::from(d.len),
            Ok((d, _)) => {
                region.code.drain(at..at + usize::from(d.len));
                return true;
            }
            Err(_) => return false,
        }
    }
    false
}

fn simulated(core: &Core, flags: &Flags, region: &Region) -> Result<Simulated, Error> {
    let isa = core.params.isa;
    let decoded = isa::decode(isa, &region.code)?;
    let (kind, straight) = kind(isa, &region.code)?;
    if !straight && !flags.tables {
        let named = first_elsewhere(flags, isa, region, &decoded).unwrap_or_default();
        return Err(Error::Block(format!("{named}{NOT_STRAIGHT}")));
    }
    let inner = decoded.iter().rev().skip(1).any(|d| d.branch != Branch::No);
    let offset = flags.offset.unwrap_or((region.address % u64::from(LINE)) as u32);
    let path = Path::whole(isa, &region.code, kind)?;
    let strings = StringUse::default();
    let length = region.code.len();
    let block = Block::new(path.clone(), length, offset, kind, &core.params, &core.table, strings)?;
    let rows = Timeline::rows_per_iteration(&block).max(1);
    let shown = if flags.timeline { flags.timeline_iterations } else { 1 };
    let recorded = flags
        .iterations
        .min(RECORDED)
        .max(shown)
        .min((ROWS / rows).max(1) as u32);
    let request = Request {
        code: &region.code,
        offset,
        notion: kind,
        strings,
        bottleneck: true,
        ports: true,
        timeline: recorded,
    };
    let prediction = match flags.tables {
        true => by_itself(core, &block),
        false => predict::predict(core, &request)?,
    };
    let rows = prediction.timeline.as_ref().map(|t| t.rows.clone()).unwrap_or_default();
    let last = |iterations: u32| {
        let counted = rows.iter().filter(|r| r.iteration < iterations);
        counted.filter_map(|r| r.retired).max().map_or(0, |cycle| cycle + 1)
    };
    let within = flags.iterations.min(recorded);
    let beyond = f64::from(flags.iterations - within) * prediction.cycles;
    let bound = |limit: &str| {
        let figures = prediction.limits.iter().filter(|f| f.limit == limit);
        figures.filter_map(|f| f.cycles).fold(0.0, f64::max)
    };
    let mut notes = prediction.caveats.clone();
    if inner {
        notes.push("branches inside the region are taken to fall through".into());
    }
    Ok(Simulated {
        text: text::lines(flags, isa, region, &decoded),
        bytes: decoded
            .iter()
            .map(|d| region.code[d.offset as usize..][..usize::from(d.len)].to_vec())
            .collect(),
        info: decoded
            .iter()
            .enumerate()
            .map(|(n, d)| info(core, &block, n, d))
            .collect(),
        total_cycles: f64::from(last(within)) + beyond,
        uops: block.slots.len(),
        bound: bound("ports").max(block.slots.len() as f64 / f64::from(core.params.rename.width)),
        offsets: match flags.alignment {
            true => offsets(core, path, length, kind)?,
            false => vec![f64::NAN; LINE as usize],
        },
        begins: begins(&block),
        region: region.clone(),
        iterations: flags.iterations,
        offset,
        kind,
        recorded,
        rows,
        prediction,
        notes,
    })
}

/// The prediction of each instruction by itself: its uops spread evenly over their ports.
fn by_itself(core: &Core, block: &Block) -> Prediction {
    let names = core.params.ports.names.chars().count();
    let mut ports = vec![vec![0.0; names]; block.insts.len()];
    for (uop, owner) in block.uops.iter().zip(&block.owner) {
        let share = f64::from(uop.port_cycles.max(1)) / f64::from(uop.ports.count_ones().max(1));
        let row = ports[usize::from(*owner)].iter_mut().enumerate();
        row.filter(|(n, _)| uop.ports & 1 << n != 0)
            .for_each(|(_, cell)| *cell += share);
    }
    Prediction {
        cycles: f64::NAN,
        bottleneck: String::new(),
        limits: Vec::new(),
        steady: true,
        simulated: 0,
        ports: Some(ports),
        timeline: None,
        names: block.names.clone(),
        caveats: Vec::new(),
    }
}

/// The mnemonic and place of the first instruction behind which control goes elsewhere.
fn first_elsewhere(flags: &Flags, isa: Isa, region: &Region, decoded: &[Decoded]) -> Option<String> {
    let mut at = 0;
    for (n, d) in decoded.iter().enumerate() {
        let code = region.code.get(at..at + usize::from(d.len))?;
        if !isa::outline::outline(isa, code).ok()?.straight {
            let lines = text::lines(flags, isa, region, decoded);
            let mnemonic = lines.get(n)?.split_whitespace().next()?;
            return Some(format!("`{mnemonic}` at +{at:#x}: "));
        }
        at += code.len();
    }
    None
}

/// A loop where code ends in a branch, else copies that follow each other; and whether control goes through it.
fn kind(isa: Isa, code: &[u8]) -> Result<(Notion, bool), Error> {
    let outline = isa::outline::outline(isa, code).map_err(Error::Decode)?;
    match outline.ends_in_branch {
        true => Ok((Notion::Loop, outline.straight)),
        false => Ok((Notion::Unrolled, outline.straight)),
    }
}

/// Cycles an iteration at each code offset; not a number where no code can lie.
///
/// # Errors
/// It cannot be simulated, or an instruction has no figures.
pub fn at_all(core: &Core, code: &[u8]) -> Result<Vec<f64>, Error> {
    let isa = core.params.isa;
    let (kind, straight) = kind(isa, code)?;
    if !straight {
        return Err(Error::Block(NOT_STRAIGHT.into()));
    }
    offsets(core, Path::whole(isa, code, kind)?, code.len(), kind)
}

fn offsets(core: &Core, path: Path, length: usize, kind: Notion) -> Result<Vec<f64>, Error> {
    let mut found = vec![f64::NAN; LINE as usize];
    let apart = match core.params.isa {
        Isa::X86 => 1,
        Isa::Arm64 => 4,
    };
    let mut placed = BlockOffsets::new(core, path, length, kind, StringUse::default())?;
    for (offset, cycles) in (0..).zip(&mut found).step_by(apart) {
        *cycles = placed.at(offset)?.cycles;
    }
    Ok(found)
}

/// Whether each row of an iteration's timeline begins a fused uop.
fn begins(block: &Block) -> Vec<bool> {
    let mut begins = Vec::new();
    for number in 0..block.insts.len() {
        let before = begins.len();
        for slot in block.slots.iter().filter(|s| usize::from(s.inst) == number) {
            begins.push(true);
            begins.extend(std::iter::repeat_n(false, slot.uops.len().saturating_sub(1)));
        }
        if begins.len() == before {
            begins.push(false); // carried by the instruction that it is fused with
        }
    }
    begins
}

fn info(core: &Core, block: &Block, number: usize, d: &Decoded) -> Info {
    let own = block.uops.iter().zip(&block.owner);
    let uops: Vec<_> = own
        .filter(|(_, owner)| usize::from(**owner) == number)
        .map(|(uop, _)| uop)
        .collect();
    let slots = block.slots.iter().filter(|s| usize::from(s.inst) == number).count();
    let figures = core.table.of(&block.names[number]);
    let loads = d.mems.iter().any(|m| m.read);
    let from_address = uops.iter().filter(|u| u.role == Role::Load);
    let load = from_address
        .flat_map(|u| u.outputs.iter().map(|o| o.latency))
        .max()
        .unwrap_or(0);
    let computes = uops.iter().any(|u| u.role == Role::Compute);
    let computed = figures.filter(|_| computes).map_or(0, |f| f.longest());
    let listed = figures.and_then(|f| f.address.iter().map(|(_, cycles)| *cycles).max());
    let masks: Vec<(u32, f64)> = uops
        .iter()
        .map(|u| (u.ports, f64::from(u.port_cycles.max(1))))
        .collect();
    let divider = uops.iter().map(|u| u.busy).max().unwrap_or(0);
    let dispatch = slots as f64 / f64::from(core.params.rename.width);
    Info {
        uops: uops.len().max(slots),
        latency: listed.filter(|_| loads).unwrap_or(load + computed),
        throughput: ports_bound(&masks).max(f64::from(divider)).max(dispatch),
        loads,
        stores: d.mems.iter().any(|m| m.write),
        side_effects: d.special != Special::No || d.locked || figures.is_none(),
    }
}

/// Cycles that uops of these ports take at least: the fullest union of their port sets.
fn ports_bound(masks: &[(u32, f64)]) -> f64 {
    let mut unions: Vec<u32> = vec![0];
    for (mask, _) in masks {
        let more: Vec<u32> = unions
            .iter()
            .map(|u| u | mask)
            .filter(|u| !unions.contains(u))
            .collect();
        unions.extend(more);
        unions.sort_unstable();
        unions.dedup();
    }
    let taken = |union: u32| {
        masks
            .iter()
            .filter(|(m, _)| m & !union == 0)
            .map(|(_, c)| c)
            .sum::<f64>()
    };
    let bound = unions
        .iter()
        .filter(|u| **u != 0)
        .map(|u| taken(*u) / f64::from(u.count_ones()));
    bound.fold(0.0, f64::max)
}
