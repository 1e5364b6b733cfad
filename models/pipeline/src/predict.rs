//! One block on one core: from bytes to cycles per iteration.

use crate::block::cut::Cut;
use crate::block::path::Path;
use crate::block::{Block, Notion, StringUse};
use crate::core::Core;
use crate::engine::ablation::Ablation;
use crate::engine::events::Nobody;
use crate::engine::machine::Machine;
use crate::engine::steady::run;
use crate::error::Error;
use crate::observe::bottleneck;
use crate::observe::figures::{self, Figure};
use crate::observe::limits::Observed;
use crate::observe::recorder::Recorder;
use crate::observe::timeline::{Timeline, ROWS};
use crate::observe::usage::{by_instruction, Usage};
use crate::observe::watch::Watch;

/// The subject of a prediction.
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
    /// The bottleneck; empty if not asked for.
    pub bottleneck: String,
    /// The cycles by each limit alone; empty if the bottleneck is not asked for.
    pub limits: Vec<Figure>,
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
    /// The parts that are not simulated, in sentences.
    pub caveats: Vec<String>,
}

/// Predict one block.
///
/// # Errors
/// The block cannot be decoded or simulated, or an instruction has no figures.
pub fn predict(core: &Core, request: &Request) -> Result<Prediction, Error> {
    along(
        core,
        Path::given(core.params.isa, request.code, None, request.notion)?,
        request,
    )
}

/// Predict a block of which an iteration executes the instructions of a path.
///
/// # Errors
/// It cannot be simulated, or an instruction has no figures.
pub fn along(core: &Core, path: Path, request: &Request) -> Result<Prediction, Error> {
    let block = Block::new(
        path,
        request.code.len(),
        request.offset,
        request.notion,
        &core.params,
        &core.table,
        request.strings,
    )?;
    if request.timeline > 0 {
        let rows = Timeline::rows_per_iteration(&block).saturating_mul(request.timeline as usize);
        if rows > ROWS {
            return Err(Error::Block(format!("a timeline of {rows} rows: at most {ROWS}")));
        }
    }
    let cut = Cut::new(&block, &core.params);
    let mut machine = Machine::new(&block, &cut, &core.params, &Ablation::default())?;
    let mut watch = Watch::new(
        &block,
        (request.ports || request.bottleneck).then(|| Usage::new(block.uops.len(), block.slots.len())),
        (request.timeline > 0).then(|| Recorder::of(request.timeline)),
    );
    let watched = request.bottleneck || request.ports || request.timeline > 0;
    let (cycles, steady) = if watched {
        run(&mut machine, &mut watch, request.timeline)?
    } else {
        run(&mut machine, &mut Nobody, 0)?
    };
    let simulated = machine.now() as u32;
    let seen = Observed::new(&machine, &watch);
    machine.recycle();
    let ports = core.params.ports.names.chars().count();
    let (mut bottleneck, mut limits) = (String::new(), Vec::new());
    if request.bottleneck {
        let binding = bottleneck::binding(&block, &core.params, cycles, &seen);
        bottleneck = bottleneck::name(&block, &core.params, &seen, &binding);
        limits = figures::of(&block, &core.params, &seen, watch.usage.as_ref(), &binding);
    }
    let usage = watch.usage.as_ref().filter(|_| request.ports);
    Ok(Prediction {
        cycles,
        bottleneck,
        limits,
        steady,
        simulated,
        ports: usage.map(|u| by_instruction(&block, ports, u)),
        timeline: watch.recorder.as_ref().map(|r| Timeline::new(&block, &core.params, r)),
        names: block.names.clone(),
        caveats: block.caveats.clone(),
    })
}
