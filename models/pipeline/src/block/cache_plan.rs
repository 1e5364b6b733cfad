//! What of a block the cache of decoded uops holds, and in which lines.

use crate::block::replay::{self, Replay};
use crate::block::stream::Position;
use crate::block::{Block, Notion};
use crate::core::choice::CacheRule;
use crate::core::params::Params;
use std::collections::HashMap;
use std::ops::Range;

/// A line or entry: consecutive fused uops read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// First fused uop.
    pub start: u32,
    /// One past the last.
    pub end: u32,
    /// Region of code, counted from the start of the loop.
    pub region: u32,
}

/// What of a block comes from the uop cache.
#[derive(Clone, Debug, Default)]
pub struct CachePlan {
    /// For each instruction whether it is decoded each time.
    decoded: Vec<bool>,
    /// Lines in program order; uops of decoded instructions are in none.
    pub lines: Vec<Line>,
    /// Copies at changing addresses, all cached: lines are found as it runs.
    pub streams: bool,
    /// Loops of a call that the loop buffer replays, in order.
    pub replays: Vec<Replay>,
}

impl CachePlan {
    /// Work out the lines of a block.
    pub fn new(block: &Block, params: &Params) -> CachePlan {
        let rule = params.uop_cache.rule;
        if block.notion == Notion::Unrolled && rule == CacheRule::Entry && params.uop_cache.unrolled {
            return CachePlan {
                decoded: vec![false; block.insts.len()],
                lines: Vec::new(),
                streams: true,
                replays: Vec::new(),
            };
        }
        if rule == CacheRule::None || block.notion == Notion::Unrolled {
            return CachePlan {
                decoded: vec![true; block.insts.len()],
                lines: Vec::new(),
                streams: false,
                replays: Vec::new(),
            };
        }
        let cached = match rule {
            CacheRule::Region if block.notion == Notion::Call => entries_rule(block, params),
            CacheRule::Region => region_rule(block, params),
            _ => vec![true; block.insts.len()],
        };
        // Decoding goes on until a branch, whatever the cache holds.
        let mut decoded = vec![false; block.insts.len()];
        let mut decoding = !cached.first().copied().unwrap_or(false);
        for (i, inst) in block.insts.iter().enumerate() {
            decoding |= !cached[i] && !inst.tail;
            decoded[i] = decoding;
            let ends_pair = !inst.head;
            if decoding && inst.branch && ends_pair && cached.get(i + 1).copied().unwrap_or(false) {
                decoding = false;
            }
        }
        let mut plan = CachePlan {
            decoded,
            lines: Vec::new(),
            streams: false,
            replays: Vec::new(),
        };
        plan.lines = lines(block, params, &plan.decoded);
        let p = &params.uop_cache;
        let region = |i| region_of(block, i, p.region_bytes, p.branch_by_end);
        plan.replays = replay::of(block, params, &plan.decoded, region);
        plan
    }

    /// Whether an instruction is decoded each time.
    pub fn decoded(&self, inst: u32) -> bool {
        self.decoded.get(inst as usize).copied().unwrap_or(true)
    }

    /// Whether the block starts from the uop cache.
    pub fn starts_cached(&self) -> bool {
        !self.decoded(0)
    }

    /// The first instruction from a place on that is decoded each time; `None` if all are cached.
    pub fn next_decoded(&self, at: Position) -> Option<Position> {
        let count = self.decoded.len();
        let ahead = (0..count).find(|n| self.decoded[(at.inst as usize + n) % count])?;
        let place = at.inst as usize + ahead;
        Some(Position {
            iteration: at.iteration + (place / count) as u32,
            inst: (place % count) as u32,
        })
    }

    /// Whether decoding stops after this instruction.
    pub fn switches_after(&self, inst: u32) -> bool {
        self.decoded(inst) && self.decoded.get(inst as usize + 1) == Some(&false)
    }

    /// The loop that the loop buffer replays a fused uop of.
    pub fn replay(&self, fused: u32) -> Option<&Replay> {
        let after = self.replays.partition_point(|r| r.fused.end <= fused);
        self.replays.get(after).filter(|r| r.fused.start <= fused)
    }

    /// The first line that ends behind a fused uop.
    pub fn line_at(&self, fused: u32) -> usize {
        self.lines.partition_point(|l| l.end <= fused)
    }

    /// Regions of code that its lines lie in.
    pub fn regions(&self) -> u32 {
        let ends = self.lines.first().zip(self.lines.last());
        ends.map_or(0, |(first, last)| last.region - first.region + 1)
    }

    /// Whether all of it is cached.
    pub fn complete(&self) -> bool {
        self.decoded.iter().all(|d| !d)
    }
}

fn region_of(block: &Block, i: usize, bytes: u32, by_end: bool) -> u32 {
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

/// Places in a line: two for a 64-bit immediate.
fn places(block: &Block, inst: usize) -> u32 {
    let i = &block.insts[inst];
    i.fused.end - i.fused.start + u32::from(i.wide)
}

/// Intel: a region is cached only if its uops fit its lines.
fn region_rule(block: &Block, params: &Params) -> Vec<bool> {
    let p = &params.uop_cache;
    let mut cached = vec![true; block.insts.len()];
    let mut start = 0;
    while start < block.insts.len() {
        let region = region_of(block, start, p.region_bytes, p.branch_by_end);
        let end = (start..block.insts.len())
            .find(|i| region_of(block, *i, p.region_bytes, p.branch_by_end) != region)
            .unwrap_or(block.insts.len());
        let (lines, erratum) = needed(block, params, start..end);
        if lines > p.lines || erratum {
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

/// The lines that instructions of a region need, and whether a branch keeps them out.
fn needed(block: &Block, params: &Params, insts: Range<usize>) -> (u32, bool) {
    let p = &params.uop_cache;
    let (mut lines, mut room, mut erratum) = (0, 0, false);
    for i in insts {
        let inst = &block.insts[i];
        let need = places(block, i);
        if inst.ms > 0 {
            lines += 1;
            room = 0;
        } else if need > room && need > 0 {
            lines += 1;
            room = p.line_uops.saturating_sub(need);
        } else {
            room -= need;
        }
        erratum |= p.branch_erratum && touches_boundary(block, i, p.region_bytes);
    }
    (lines, erratum)
}

/// The same of a call, which enters a region at several places: lines are made from each of them on.
fn entries_rule(block: &Block, params: &Params) -> Vec<bool> {
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
    let mut entries: HashMap<(u32, u32), (u32, bool)> = HashMap::new();
    for (visit, region) in &visits {
        let (lines, erratum) = needed(block, params, visit.clone());
        let known = entries.entry((*region, block.insts[visit.start].offset)).or_default();
        *known = (known.0.max(lines), known.1 | erratum);
    }
    let mut full: HashMap<u32, (u32, bool)> = HashMap::new();
    for ((region, _), (lines, erratum)) in entries {
        let sum = full.entry(region).or_default();
        *sum = (sum.0 + lines, sum.1 | erratum);
    }
    let fits = |region: u32| {
        full.get(&region)
            .is_none_or(|(lines, erratum)| *lines <= p.lines && !erratum)
    };
    let cached = |region: u32| fits(region) && (!p.pairs || fits(region ^ 1));
    let of = visits.iter();
    of.flat_map(|(visit, region)| visit.clone().map(|_| cached(*region)))
        .collect()
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

fn lines(block: &Block, params: &Params, decoded: &[bool]) -> Vec<Line> {
    let p = &params.uop_cache;
    let mut lines: Vec<Line> = Vec::new();
    let mut room = 0;
    let mut open = false;
    for (i, inst) in block.insts.iter().enumerate() {
        if decoded[i] || inst.tail {
            open &= !decoded[i];
            continue;
        }
        let region = region_of(block, i, p.region_bytes, p.branch_by_end);
        let need = places(block, i);
        let same = open && lines.last().is_some_and(|l| l.region == region) && need <= room && inst.ms == 0;
        match lines.last_mut() {
            Some(line) if same => {
                line.end = inst.fused.end;
                room -= need;
            }
            _ => {
                lines.push(Line {
                    start: inst.fused.start,
                    end: inst.fused.end,
                    region,
                });
                room = p.line_uops.saturating_sub(need);
            }
        }
        // A line ends with a branch that is taken, or that delivery stops at.
        let late = inst.late && params.taken_branch.exit_bubble > 0;
        open = inst.ms == 0 && !inst.taken && !late;
    }
    lines
}
