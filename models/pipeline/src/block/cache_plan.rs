//! The part of a block that the uop cache holds, by lines.

use crate::block::position::{period, Position};
use crate::block::regions::{enters_within, entries_rule, is_cut_branch, region_of, region_rule, Room};
use crate::block::replay::{self, Replay};
use crate::block::{Block, Inst, Notion};
use crate::core::choice::{CacheRule, Joins};
use crate::core::params::Params;

/// A line or entry: consecutive fused uops read together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// First fused uop.
    pub start: u32,
    /// One past the last.
    pub end: u32,
    /// Region of code.
    pub region: u32,
    /// The region of its first byte: another one where it begins with a branch that lies in both.
    pub entry: u32,
    /// Its region begins within a branch, and is found apart from others.
    pub apart: bool,
}

/// The part of a block that the uop cache delivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CachePlan {
    /// For each instruction whether it is decoded each time.
    decoded: Vec<bool>,
    /// Lines in program order; uops of decoded instructions are in none.
    pub lines: Vec<Line>,
    /// Copies of the block that the lines hold, one after the other; a fused uop of the second is numbered on.
    pub copies: u32,
    /// Copies at changing addresses, all cached: lines are found as it runs.
    pub streams: bool,
    /// Loops of a call that the loop buffer replays, in order.
    pub replays: Vec<Replay>,
}

impl CachePlan {
    /// Work out the lines of a block.
    pub fn new(block: &Block, params: &Params) -> CachePlan {
        let rule = params.uop_cache.rule;
        let whole = |decoded: bool| CachePlan {
            decoded: vec![decoded; block.insts.len()],
            copies: 1,
            ..CachePlan::default()
        };
        if block.notion == Notion::Unrolled {
            let cached = match rule {
                _ if !params.uop_cache.unrolled => None,
                CacheRule::None => None,
                CacheRule::Entry => Some(CachePlan {
                    streams: true,
                    ..whole(false)
                }),
                CacheRule::Region => lines_of_copies(block, params).map(|(lines, copies)| CachePlan {
                    lines,
                    copies,
                    ..whole(false)
                }),
            };
            return cached.unwrap_or_else(|| whole(true));
        }
        if rule == CacheRule::None {
            return whole(true);
        }
        let cached = match rule {
            CacheRule::Region if enters_within(block) => entries_rule(block, params),
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
            ..whole(false)
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

    /// Regions of code that its lines lie in, and those between.
    pub fn regions(&self) -> u32 {
        let places = || self.lines.iter().map(|l| l.region);
        places()
            .max()
            .zip(places().min())
            .map_or(0, |(last, first)| last - first + 1)
    }

    /// The same with regions counted from the first line's, or not told apart where none has to be read alone.
    pub(crate) fn counted(mut self, params: &Params) -> CachePlan {
        let first = self.lines.first().map_or(0, |l| l.region);
        let p = &params.uop_cache;
        let apart = u32::from(p.one_region || p.cut_branch_apart || p.overlaps || p.joins == Joins::Apart);
        for line in &mut self.lines {
            line.region = apart * line.region.wrapping_sub(first);
            line.entry = apart * line.entry.wrapping_sub(first);
        }
        self
    }

    /// The same without lines, for a loop that is not read from the cache.
    pub(crate) fn without_lines(mut self) -> CachePlan {
        self.lines.clear();
        self
    }

    /// Whether all of it is cached.
    pub fn complete(&self) -> bool {
        self.decoded.iter().all(|d| !d)
    }
}

/// The lines of copies that follow each other, until one lies in its region as the first does, and their number;
/// `None` if some are not cached.
fn lines_of_copies(block: &Block, params: &Params) -> Option<(Vec<Line>, u32)> {
    if block.insts.iter().any(|inst| inst.taken) {
        return None;
    }
    let copies = period(i64::from(block.len), params.uop_cache.region_bytes);
    let uops = block.fused.len() as u32;
    let copy = |n: u32| {
        block.insts.iter().map(move |inst| Inst {
            offset: inst.offset + n * block.len,
            fused: inst.fused.start + n * uops..inst.fused.end + n * uops,
            ..inst.clone()
        })
    };
    let code = Block {
        insts: (0..copies).flat_map(copy).collect(),
        ..block.clone()
    };
    let whole = region_rule(&code, params).iter().all(|cached| *cached);
    whole.then(|| (lines(&code, params, &vec![false; code.insts.len()]), copies))
}

fn lines(block: &Block, params: &Params, decoded: &[bool]) -> Vec<Line> {
    let p = &params.uop_cache;
    let mut lines: Vec<Line> = Vec::new();
    let mut room = Room::default();
    let mut open = false;
    for (i, inst) in block.insts.iter().enumerate() {
        if decoded[i] || inst.tail {
            open &= !decoded[i];
            continue;
        }
        let region = region_of(block, i, p.region_bytes, p.branch_by_end);
        let behind_apart = lines.last().is_some_and(|l| l.region == region && l.apart);
        let cut = p.cut_branch_apart && is_cut_branch(block, i, p.region_bytes);
        let entry = if cut {
            region_of(block, i, p.region_bytes, false)
        } else {
            region
        };
        let apart = p.cut_branch_apart && behind_apart || cut;
        let need = Room::of(inst);
        let goes_on = open && inst.ms == 0 && lines.last().is_some_and(|l| l.region == region);
        match lines.last_mut() {
            Some(line) if goes_on && (room + need).fits(p) => {
                line.end = inst.fused.end;
                line.apart |= apart;
                room = room + need;
            }
            _ => {
                lines.push(Line {
                    start: inst.fused.start,
                    end: inst.fused.end,
                    region,
                    entry,
                    apart,
                });
                room = need;
            }
        }
        // A line ends with a branch that is taken, or that delivery stops at.
        let late = inst.late && params.taken_branch.exit_bubble > 0;
        open = inst.ms == 0 && !inst.taken && !late;
    }
    lines
}
