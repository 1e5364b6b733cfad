//! Regions of code whose uops the uop cache holds or does not.

use crate::block::{Block, Inst, Notion};
use crate::core::params::{uop_cache, Params};
use std::collections::HashMap;
use std::ops::Range;

/// The region of code that an instruction counts to.
pub(crate) fn region_of(block: &Block, i: usize, bytes: u32, by_end: bool) -> u32 {
    let inst = &block.insts[i];
    let place = if by_end && inst.branch {
        end_of(block, i) - 1
    } else {
        block.code_offset + inst.offset
    };
    place / bytes
}

/// One past the last byte of an instruction, or of the pair that it is fused in.
fn end_of(block: &Block, i: usize) -> u32 {
    let inst = &block.insts[i];
    let tail = block.insts.get(i + 1).filter(|_| inst.head);
    block.code_offset + inst.offset + inst.len + tail.map_or(0, |t| t.len)
}

/// Whether a branch, or an instruction that it is fused with, lies in two regions.
pub(crate) fn is_cut_branch(block: &Block, i: usize, bytes: u32) -> bool {
    let parts = 1 + usize::from(block.insts[i].head);
    block.insts[i].branch
        && block.insts[i..].iter().take(parts).any(|inst| {
            let start = block.code_offset + inst.offset;
            start / bytes != (start + inst.len - 1) / bytes
        })
}

/// The room that instructions take in a line.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    /// Places of uops.
    places: u32,
    /// 32-bit constants.
    constants: u32,
    /// Instructions of two places.
    wide: u32,
    /// Constants that need 64 bits.
    long_constants: u32,
}

impl Room {
    /// The room of one instruction, or of its fused pair.
    pub(crate) fn of(inst: &Inst) -> Room {
        Room {
            places: inst.fused.end - inst.fused.start + u32::from(inst.wide),
            constants: inst.constants,
            wide: u32::from(inst.wide),
            long_constants: u32::from(inst.long_constant),
        }
    }

    /// Whether one line holds it.
    pub(crate) fn fits(self, p: &uop_cache) -> bool {
        let crowded = p
            .crowded_constants
            .iter()
            .find(|r| (r[0]..=r[1]).contains(&self.places));
        let spare = p.line_uops.saturating_sub(self.places) * p.spare_constants;
        let most = crowded.map_or(p.constants.saturating_add(spare), |r| r[2]);
        self.places <= p.line_uops
            && self.constants <= most
            && self.wide <= p.line_wide
            && self.long_constants <= p.long_constants
    }
}

impl std::ops::Add for Room {
    type Output = Room;

    fn add(self, more: Room) -> Room {
        Room {
            places: self.places + more.places,
            constants: self.constants + more.constants,
            wide: self.wide + more.wide,
            long_constants: self.long_constants + more.long_constants,
        }
    }
}

/// Intel: a region is cached only if its uops fit its lines.
pub(crate) fn region_rule(block: &Block, params: &Params) -> Vec<bool> {
    let p = &params.uop_cache;
    let mut cached = vec![true; block.insts.len()];
    let mut start = 0;
    while start < block.insts.len() {
        let region = region_of(block, start, p.region_bytes, p.branch_by_end);
        let end = (start..block.insts.len())
            .find(|i| region_of(block, *i, p.region_bytes, p.branch_by_end) != region)
            .unwrap_or(block.insts.len());
        if !needed(block, params, start..end).fits(p) {
            cached[start..end].fill(false);
        }
        start = end;
    }
    if p.pairs {
        let both: Vec<bool> = (0..block.insts.len())
            .map(|i| {
                let pair = region_of(block, i, p.region_bytes * 2, p.branch_by_end);
                (0..block.insts.len())
                    .all(|j| region_of(block, j, p.region_bytes * 2, p.branch_by_end) != pair || cached[j])
            })
            .collect();
        return both;
    }
    cached
}

/// What code of a region needs of its lines.
#[derive(Clone, Copy, Default)]
struct Demand {
    lines: u32,
    uops: u32,
    /// A branch keeps the region out.
    erratum: bool,
}

impl Demand {
    /// Whether a region holds it.
    fn fits(self, p: &uop_cache) -> bool {
        self.lines <= p.lines && self.uops <= p.region_uops && !self.erratum
    }

    /// The larger of two.
    fn or_more(self, other: Demand) -> Demand {
        Demand {
            lines: self.lines.max(other.lines),
            uops: self.uops.max(other.uops),
            erratum: self.erratum | other.erratum,
        }
    }

    fn add(&mut self, more: Demand) {
        self.lines += more.lines;
        self.uops += more.uops;
        self.erratum |= more.erratum;
    }
}

/// What instructions of a region need of its lines.
fn needed(block: &Block, params: &Params, insts: Range<usize>) -> Demand {
    let p = &params.uop_cache;
    let mut demand = Demand::default();
    let mut open: Option<Room> = None;
    for i in insts {
        let inst = &block.insts[i];
        let need = Room::of(inst);
        demand.uops += need.places;
        if inst.ms > 0 {
            demand.lines += 1;
            open = None;
        } else if let Some(grown) = open.map(|taken| taken + need).filter(|grown| grown.fits(p)) {
            open = Some(grown);
        } else if need.places > 0 {
            demand.lines += 1;
            open = Some(need);
        }
        demand.erratum |= p.branch_erratum && touches_boundary(block, i, p.region_bytes);
    }
    demand
}

/// The same of code that enters a region at several places: lines are made from each of them on.
pub(crate) fn entries_rule(block: &Block, params: &Params) -> Vec<bool> {
    let p = &params.uop_cache;
    let place = |i: usize| region_of(block, i, p.region_bytes, p.branch_by_end);
    let mut visits: Vec<(Range<usize>, u32)> = Vec::new();
    for i in 0..block.insts.len() {
        let jumped = i > 0 && block.insts[i - 1].taken && !block.insts[i - 1].head;
        match visits.last_mut() {
            Some((visit, region)) if *region == place(i) && !jumped => visit.end = i + 1,
            _ => visits.push((i..i + 1, place(i))),
        }
    }
    // Of several visits that enter at the same place the longest counts.
    let mut entries: HashMap<(u32, u32), Demand> = HashMap::new();
    for (visit, region) in &visits {
        let demand = needed(block, params, visit.clone());
        let known = entries.entry((*region, block.insts[visit.start].offset)).or_default();
        *known = known.or_more(demand);
    }
    let mut full: HashMap<u32, Demand> = HashMap::new();
    for ((region, _), demand) in entries {
        full.entry(region).or_default().add(demand);
    }
    let fits = |region: u32| full.get(&region).is_none_or(|demand| demand.fits(p));
    let cached = |region: u32| fits(region) && (!p.pairs || fits(region ^ 1));
    let of = visits.iter();
    of.flat_map(|(visit, region)| visit.clone().map(|_| cached(*region)))
        .collect()
}

/// Whether control enters regions of code elsewhere than from the one before, and at the start of a loop.
pub(crate) fn enters_within(block: &Block) -> bool {
    let jumps = block.insts.iter().filter(|i| i.taken && !i.head);
    block.notion == Notion::Call || jumps.count() > 1
}

/// A branch, or the pair that it is fused in, that crosses or ends at a boundary.
fn touches_boundary(block: &Block, i: usize, bytes: u32) -> bool {
    let inst = &block.insts[i];
    if !inst.branch || inst.tail {
        return false;
    }
    let start = block.code_offset + inst.offset;
    let end = end_of(block, i);
    start / bytes != (end - 1) / bytes || end % bytes == 0
}
