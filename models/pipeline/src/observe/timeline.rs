//! The cycle-by-cycle timeline: one row for each uop of the first iterations.

use crate::block::uops::{From, Role};
use crate::block::{Block, SlotKind};
use crate::core::choice::Assign;
use crate::core::params::Params;
use crate::engine::events::{Event, Hold};
use crate::engine::flight::Source;
use crate::observe::recorder::Recorder;
use std::ops::Range;

/// Rows of a timeline at most.
pub const ROWS: usize = 200_000;

/// One uop of one iteration, or an instruction that needs none. Cycles count from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Iteration.
    pub iteration: u32,
    /// Instruction of the block.
    pub inst: u32,
    /// Uop of the instruction.
    pub uop: Option<u32>,
    /// The role of the uop: `load`, `store address`, `store data`, `compute`.
    pub role: Option<&'static str>,
    /// The kind of its slot: `micro-fused`, `macro-fused` (or both), `eliminated`, `no port`,
    /// `inserted` by rename; empty where none of these.
    pub how: &'static str,
    /// Port that it started on.
    pub port: Option<char>,
    /// Cycle at which its instruction was predecoded or fetched.
    pub fetched: Option<i32>,
    /// Cycle at which it entered the queue in front of rename.
    pub decoded: Option<i32>,
    /// Cycle at which it was renamed.
    pub dispatched: Option<i32>,
    /// First cycle at which its inputs allowed it to start.
    pub ready: Option<i32>,
    /// Cycle at which it started.
    pub issued: Option<i32>,
    /// Cycle at which its last result was known.
    pub executed: Option<i32>,
    /// Cycle at which it retired.
    pub retired: Option<i32>,
    /// The reason why it was not issued earlier.
    pub waited_for: String,
}

/// Rows in order of iterations, instructions and uops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Rows.
    pub rows: Vec<Row>,
}

/// The rows of one iteration, and which of them an event concerns.
struct Plan {
    rows: Vec<Row>,
    by_inst: Vec<Range<usize>>,
    by_slot: Vec<Range<usize>>,
    by_uop: Vec<usize>,
}

impl Plan {
    fn new(block: &Block) -> Plan {
        let mut plan = Plan {
            rows: Vec::new(),
            by_inst: Vec::new(),
            by_slot: vec![0..0; block.slots.len()],
            by_uop: vec![0; block.uops.len()],
        };
        let mut at = 0;
        for (number, inst) in block.insts.iter().enumerate() {
            let start = plan.rows.len();
            let mut uops = 0;
            while let Some(slot) = block.slots.get(at).filter(|s| usize::from(s.inst) == number) {
                let first = plan.rows.len();
                let how = match (slot.inserted, slot.uops.len(), inst.head) {
                    (true, ..) => "inserted",
                    (_, 0, _) => "no port",
                    (_, 1, false) => "",
                    (_, 1, true) => "macro-fused",
                    (_, _, false) => "micro-fused",
                    (_, _, true) => "micro- and macro-fused",
                };
                let row = Row {
                    inst: number as u32,
                    how,
                    ..Row::default()
                };
                for uop in slot.uops.clone() {
                    plan.by_uop[uop as usize] = plan.rows.len();
                    plan.rows.push(Row {
                        uop: Some(uops),
                        role: Some(role(block.uops[uop as usize].role)),
                        ..row.clone()
                    });
                    uops += 1;
                }
                if slot.uops.is_empty() {
                    plan.rows.push(row);
                }
                plan.by_slot[at] = first..plan.rows.len();
                at += 1;
            }
            if plan.rows.len() == start {
                plan.rows.push(Row {
                    inst: number as u32,
                    how: "macro-fused",
                    ..Row::default()
                });
            }
            plan.by_inst.push(start..plan.rows.len());
        }
        plan
    }
}

impl Timeline {
    /// Rows that an iteration of a block has.
    pub fn rows_per_iteration(block: &Block) -> usize {
        Plan::new(block).rows.len()
    }

    /// Make rows of recorded events.
    pub fn new(block: &Block, params: &Params, recorder: &Recorder) -> Timeline {
        let plan = Plan::new(block);
        let names: Vec<char> = params.ports.names.chars().collect();
        let count = plan.rows.len();
        let mut rows: Vec<Row> = (0..recorder.iterations)
            .flat_map(|iteration| {
                plan.rows.iter().map(move |row| Row {
                    iteration,
                    ..row.clone()
                })
            })
            .collect();
        let mut sources = vec![None; rows.len()];
        for &(cycle, event) in &recorder.events {
            let of = |iteration: u32, range: Range<usize>| {
                let base = iteration as usize * count;
                base + range.start..base + range.end
            };
            match event {
                Event::Cycle | Event::Held { .. } | Event::Needs { .. } => {}
                Event::Predecoded { inst, iteration } => {
                    for row in &mut rows[of(iteration, plan.by_inst[inst as usize].clone())] {
                        row.fetched = Some(cycle);
                    }
                }
                Event::Queued { fused, iteration, from } => {
                    let slots = block.fused[fused as usize].slots.clone();
                    for slot in slots {
                        let range = of(iteration, plan.by_slot[slot as usize].clone());
                        sources[range.clone()].fill(Some(from));
                        for row in &mut rows[range] {
                            row.decoded = Some(cycle);
                        }
                    }
                }
                Event::Renamed { slot, iteration, .. } => {
                    for row in &mut rows[of(iteration, plan.by_slot[slot as usize].clone())] {
                        row.dispatched = Some(cycle);
                    }
                }
                Event::Issued {
                    uop,
                    iteration,
                    port,
                    ready,
                    critical,
                    done,
                } => {
                    let at = iteration as usize * count + plan.by_uop[uop as usize];
                    let dispatched = rows[at].dispatched.unwrap_or(0);
                    rows[at].ready = Some(ready);
                    if cycle > ready {
                        rows[at].waited_for = busy(block, params, uop, port, &names);
                    } else if ready > dispatched + params.scheduler.delay as i32 {
                        rows[at].waited_for = operand(&rows, at, u32::from(critical), block, uop);
                    }
                    let row = &mut rows[at];
                    row.port = names.get(usize::from(port)).copied();
                    row.issued = Some(cycle);
                    row.executed = Some(done);
                }
                Event::Retired { slot, iteration } => {
                    for row in &mut rows[of(iteration, plan.by_slot[slot as usize].clone())] {
                        row.retired = Some(cycle);
                    }
                }
            }
        }
        for (row, source) in rows.iter_mut().zip(sources) {
            if row.waited_for.is_empty() {
                row.waited_for = before_dispatch(row, source, &recorder.holds).into();
            }
        }
        eliminated(&mut rows, block, &plan);
        Timeline { rows }
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Load => "load",
        Role::StoreAddress => "store address",
        Role::StoreData => "store data",
        Role::Compute => "compute",
    }
}

/// The busy ports: the one bound at rename, or all that could have run it.
fn busy(block: &Block, params: &Params, uop: u32, port: u8, names: &[char]) -> String {
    let uop = &block.uops[uop as usize];
    let ports: String = if params.ports.assign == Assign::AtIssue {
        let can = (0..names.len()).filter(|p| uop.ports & 1 << p != 0);
        can.map(|p| names[p]).collect()
    } else {
        names.get(usize::from(port)).iter().copied().collect()
    };
    let separate = params.ports.names.len() > 1 && ports.len() > 1;
    format!("port{} {ports} busy", if separate { "s" } else { "" })
}

/// Whose result came last: an earlier uop of its own, or another instruction.
fn operand(rows: &[Row], at: usize, critical: u32, block: &Block, uop: u32) -> String {
    let row = &rows[at];
    let base = block.inner_base[uop as usize];
    let inner = block.uops[uop as usize].sources.iter().find_map(|s| match s.from {
        From::Inner(k) => {
            let back = (uop - base).checked_sub(u32::from(k))? as usize;
            let maker = rows.get(at.checked_sub(back)?)?;
            let known = maker.executed? + i32::from(s.extra);
            (maker.inst == row.inst && Some(known) == row.ready).then_some(maker.role?)
        }
        _ => None,
    });
    match inner {
        Some(role) if critical == row.inst => format!("its own {role}"),
        _ => format!("operand from instruction {critical}"),
    }
}

/// The reason why it was not renamed earlier.
fn before_dispatch(row: &Row, source: Option<Source>, holds: &[Hold]) -> &'static str {
    let Some(dispatched) = row.dispatched else { return "" };
    let waited = row.decoded.is_none_or(|decoded| dispatched > decoded + 1);
    let hold = usize::try_from(dispatched - 1).ok().and_then(|cycle| holds.get(cycle));
    match hold {
        Some(Hold::Width) if waited => "dispatch width",
        Some(Hold::Window) if waited => "dispatch window",
        Some(Hold::LoopEnd) if waited => "end of the loop buffer",
        Some(Hold::ReorderBuffer) if waited => "reorder buffer full",
        Some(Hold::Scheduler) if waited => "scheduler full",
        Some(Hold::StoreQueue) if waited => "store queue full",
        Some(Hold::Serial) if waited => "serialising instruction",
        Some(Hold::Mispredicted) if waited => "mispredicted branch",
        _ => match source {
            Some(Source::Microcode) => "front end: microcode",
            Some(Source::UopCache) => "front end: op cache",
            Some(Source::LoopBuffer) => "front end: loop buffer",
            Some(Source::Decode | Source::Predecode) => "front end: decoders",
            None => "front end",
        },
    }
}

/// Mark what rename did without a port.
fn eliminated(rows: &mut [Row], block: &Block, plan: &Plan) {
    for (slot, range) in block.slots.iter().zip(&plan.by_slot) {
        if slot.kind == SlotKind::Normal {
            continue;
        }
        for start in (0..rows.len()).step_by(plan.rows.len()) {
            for row in &mut rows[start + range.start..start + range.end] {
                if row.issued.is_none() && row.dispatched.is_some() {
                    row.how = "eliminated";
                }
            }
        }
    }
}
