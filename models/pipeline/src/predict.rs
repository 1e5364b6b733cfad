//! One block on one core: from bytes to cycles per iteration.

use crate::block::{Block, Notion, StringUse};
use crate::core::figures::FigureTable;
use crate::core::params::Params;
use crate::engine::events::{Nobody, Observer, Recorder};
use crate::engine::machine::Machine;
use crate::error::Error;
use crate::isa::Isa;
use crate::observe::bottleneck;
use crate::observe::limits::Observed;
use crate::observe::timeline::{Timeline, ROWS};
use crate::observe::usage::{by_instruction, Usage};

/// A core ready to predict: parameters and figures.
#[derive(Debug)]
pub struct Core {
    /// Parameters.
    pub params: Params,
    /// Figures.
    pub table: FigureTable,
}

impl Core {
    /// Read a core from the texts of its `core.toml` and `instructions.csv`.
    ///
    /// # Errors
    /// See [`Params::parse`] and [`FigureTable::parse`].
    pub fn new(core: &str, instructions: &str, overrides: &[(String, String)]) -> Result<Core, Error> {
        let params = Params::parse(core, overrides)?;
        let table = FigureTable::parse(instructions, &params)?;
        let loads = ["memory.load_cycles", "memory.load_vector_cycles"];
        let set = overrides.iter().find(|(name, _)| loads.contains(&name.as_str()));
        if let Some((name, _)) = set.filter(|_| params.isa == Isa::Arm64 && table.lists_loads()) {
            let why = "the table lists the latency of every load";
            return Err(Error::Parameter(format!("{name} does nothing here: {why}")));
        }
        Ok(Core { params, table })
    }
}

/// What to predict.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Machine code.
    pub code: &'a [u8],
    /// Code offset mod 64.
    pub offset: u32,
    /// Notion.
    pub notion: Notion,
    /// Use of string instructions.
    pub strings: StringUse,
    /// Also name what limits it, which takes several simulations more.
    pub bottleneck: bool,
    /// Also count uses of ports by instruction.
    pub ports: bool,
    /// Also keep the events of that many iterations.
    pub timeline: u32,
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Cycles per iteration.
    pub cycles: f64,
    /// What limits it; empty if not asked for.
    pub bottleneck: String,
    /// Whether the state of the machine repeated.
    pub steady: bool,
    /// Cycles simulated.
    pub simulated: u32,
    /// Uses of each port by each instruction in an iteration.
    pub ports: Option<Vec<Vec<f64>>>,
    /// Events of the first iterations.
    pub timeline: Option<Timeline>,
    /// Names of the instructions' forms.
    pub names: Vec<String>,
    /// What is not simulated, in sentences.
    pub caveats: Vec<String>,
}

/// Cycles after which an undecided simulation is evaluated as it is.
const CYCLES: i32 = 500;
/// Iterations that must be complete then.
const ITERATIONS: usize = 10;
/// Cycles between fingerprints, about.
const DISTANCE: usize = 12;
/// Repetitions after which a state that differs only in ports counts as the same.
const REPEATS: u32 = 6;
/// Cycles without retirement, beyond those that uops take, that mean a pipeline that cannot move.
const STUCK: i32 = 100_000;

/// Predict one block.
///
/// # Errors
/// The block cannot be decoded or simulated, or an instruction has no figures.
pub fn predict(core: &Core, request: &Request) -> Result<Prediction, Error> {
    let block = Block::new(
        request.code,
        request.offset,
        request.notion,
        &core.params,
        &core.table,
        request.strings,
    )?;
    let mut machine = Machine::new(&block, &core.params)?;
    machine.edges = request.bottleneck.then(Default::default);
    if request.ports {
        machine.usage = Some(Usage::new(block.uops.len(), block.slots.len()));
    }
    if request.timeline > 0 {
        let rows = Timeline::rows_per_iteration(&block).saturating_mul(request.timeline as usize);
        if rows > ROWS {
            return Err(Error::Block(format!("a timeline of {rows} rows: at most {ROWS}")));
        }
        let mut recorder = Recorder {
            iterations: request.timeline,
            ..Recorder::default()
        };
        let (cycles, steady) = run(&mut machine, &mut recorder, request.timeline)?;
        let timeline = Timeline::new(&block, &core.params, machine.assign, &recorder);
        return Ok(result(machine, cycles, steady, Some(timeline)));
    }
    let (cycles, steady) = run(&mut machine, &mut Nobody, 0)?;
    Ok(result(machine, cycles, steady, None))
}

fn result(machine: Machine, cycles: f64, steady: bool, timeline: Option<Timeline>) -> Prediction {
    let mut prediction = Prediction {
        cycles,
        bottleneck: String::new(),
        steady,
        simulated: machine.now as u32,
        ports: machine.usage.as_ref().map(|u| by_instruction(&machine, u)),
        timeline,
        names: machine.block.names.clone(),
        caveats: machine.block.caveats.clone(),
    };
    let (block, params) = (machine.block, machine.params);
    let seen = machine.edges.is_some().then(|| Observed::new(&machine));
    machine.recycle();
    if let Some(seen) = seen {
        prediction.bottleneck = bottleneck::name(block, params, cycles, &seen);
    }
    prediction
}

/// Cycles per iteration once they repeat; `None` where the pipeline does not move.
pub(crate) fn steady_cycles(machine: &mut Machine) -> Option<f64> {
    run(machine, &mut Nobody, 0).ok().map(|found| found.0)
}

/// Where a simulation stood when its state was taken: iterations and cycles.
#[derive(Clone, Copy)]
struct Mark {
    exact: u64,
    rough: u64,
    iterations: usize,
    cycle: i32,
}

fn run<O: Observer>(machine: &mut Machine, observer: &mut O, least: u32) -> Result<(f64, bool), Error> {
    let mut marks: Vec<Mark> = Vec::with_capacity(64);
    let mut last_gap = None;
    let mut repeats = 0;
    let mut last_progress = 0;
    let longest = machine.block.uops.iter().map(|u| u.busy).max().unwrap_or(0);
    let stuck = STUCK + longest as i32;
    let period = machine.layout_period() as usize;
    let mut step = 0;
    loop {
        let (before, head) = (machine.retire.completed.len(), machine.rob_head);
        machine.cycle(observer);
        let complete = machine.retire.completed.len();
        if machine.rob_head != head {
            last_progress = machine.now;
        } else if machine.now - last_progress > stuck {
            return Err(Error::Block("the pipeline does not move with these parameters".into()));
        }
        if complete == before {
            continue;
        }
        if machine.now >= CYCLES && complete >= ITERATIONS && complete >= least as usize {
            return Ok((throughput(&machine.retire.completed), false));
        }
        // Fingerprints cost as much as some cycles: take them at some distance.
        if machine.now < 40 || complete < 2 {
            continue;
        }
        if step == 0 {
            let apart = complete * DISTANCE / machine.now as usize;
            step = apart.div_ceil(period).max(1) * period;
        }
        if complete % step != 0 {
            continue;
        }
        let (exact, rough) = machine.fingerprint();
        let mark = Mark {
            exact,
            rough,
            iterations: complete,
            cycle: machine.now,
        };
        let gone = |then: &Mark| (complete - then.iterations, mark.cycle - then.cycle);
        let again = marks.iter().rev().find(|m| m.exact == exact).map(gone);
        // Without the ports a state must repeat several times in the same way.
        let alike = marks.iter().rev().find(|m| m.rough == rough).map(gone);
        marks.push(mark);
        repeats = if alike.is_some() && alike == last_gap {
            repeats + 1
        } else {
            0
        };
        last_gap = alike;
        let found = again.or(alike.filter(|_| repeats >= REPEATS));
        if let Some((iterations, cycles)) = found {
            if complete >= least as usize {
                return Ok((f64::from(cycles) / iterations as f64, true));
            }
        }
    }
}

/// Throughput over the second half of the completed iterations.
fn throughput(completed: &[i32]) -> f64 {
    let n = completed.len();
    let half = n / 2;
    f64::from(completed[n - 1] - completed[half - 1]) / (n - half) as f64
}
