//! The innermost loops of a region.

use crate::isa::Isa;
use crate::loops::search;
use crate::loops::section::Section;
use crate::mca::region::Region;

/// The loops in a region.
#[derive(Clone, Debug, Default)]
pub struct Innermost {
    /// Loops of one stretch of code, each a region.
    pub loops: Vec<Region>,
    /// Loops that are left out: an iteration jumps around code, calls, or repeats a string instruction.
    pub left_out: usize,
}

/// The loops of a region, in the order of addresses.
pub fn of(region: &Region, isa: Isa) -> Innermost {
    let starts: Vec<u32> = region.labels.keys().filter_map(|at| u32::try_from(*at).ok()).collect();
    let starts: Vec<u32> = starts
        .into_iter()
        .filter(|at| (*at as usize) < region.code.len())
        .collect();
    let entries: Vec<u32> = [0]
        .into_iter()
        .chain(starts.iter().copied().filter(|at| *at > 0))
        .collect();
    let section = Section {
        isa,
        code: &region.code,
        starts: &entries,
        ends: &[],
        entries: &entries,
        data: &[],
        address: (region.address % 16) as u32,
    };
    let mut all = Innermost::default();
    for one in search::find(&section).found {
        match (one.refused, one.path.as_slice()) {
            (None, [(start, end)]) => all.loops.push(part(region, *start as usize, *end as usize)),
            _ => all.left_out += 1,
        }
    }
    all
}

fn part(region: &Region, start: usize, end: usize) -> Region {
    let before = region.labels.range(..=start as i64).next_back();
    let place = match before {
        Some((at, name)) if *at == start as i64 => name.clone(),
        Some((at, name)) => format!("{name}+{:#x}", start as i64 - at),
        None => format!("{}+{start:#x}", region.name),
    };
    Region {
        name: place,
        code: region.code[start..end].to_vec(),
        address: region.address + start as u64,
        labels: region
            .labels
            .iter()
            .map(|(at, name)| (at - start as i64, name.clone()))
            .collect(),
    }
}
