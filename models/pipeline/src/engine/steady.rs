//! Runs a machine until its state repeats.

use crate::engine::events::Observer;
use crate::engine::machine::Machine;
use crate::error::Error;

/// Cycles after which it is all the same while stores still pile up before the cache.
const PILING_CYCLES: i32 = 4000;
/// Stores by which their number differs when they do.
const PILING: usize = 1;
/// Iterations that must be complete then.
const ITERATIONS: usize = 10;
/// Cycles between fingerprints, about.
const DISTANCE: usize = 12;
/// Repetitions after which a state that differs only in ports counts as the same.
const REPEATS: u32 = 6;
/// Cycles without retirement, beyond those that uops take, that mean a pipeline that cannot move.
const STUCK: i32 = 100_000;

/// Cycles from which on calls are long.
const LONG: i32 = 200;
/// Shorter ones are compared so many at a time.
const SHORT_CALLS: usize = 4;
/// Of so many parts of a long call two calls may differ in one.
const ALIKE: i32 = 200;

/// The iterations and cycles at which a state was recorded.
#[derive(Clone, Copy)]
struct Mark {
    exact: u64,
    rough: u64,
    iterations: usize,
    cycle: i32,
}

/// Cycles per iteration, and whether the state of the machine repeated, after so many iterations at least.
///
/// # Errors
/// The pipeline does not move.
pub fn run<O: Observer>(machine: &mut Machine, observer: &mut O, least: u32) -> Result<(f64, bool), Error> {
    until(machine, observer, least, |_, _| None)
}

/// The same of iterations that are whole calls: as soon as long ones take the same time.
///
/// # Errors
/// As [`run`].
pub fn settle<O: Observer>(machine: &mut Machine, observer: &mut O) -> Result<(f64, bool), Error> {
    until(machine, observer, 0, |completed, backlog| {
        let n = completed.len();
        let last = completed.last()? - completed.get(n.checked_sub(2)?)?;
        let calls = if last >= LONG { 1 } else { SHORT_CALLS };
        let times = [0, calls, 2 * calls].map(|back| completed.get((n - 1).wrapping_sub(back)));
        let [Some(c), Some(b), Some(a)] = times else {
            return None;
        };
        let (before, last) = (b - a, c - b);
        let alike = last >= LONG && (last - before).abs() * ALIKE <= last && !piles_up(&backlog[n - 1 - 2 * calls..]);
        alike.then(|| (f64::from(c - a) / (2 * calls) as f64, last == before))
    })
}

fn until<O: Observer>(
    machine: &mut Machine,
    observer: &mut O,
    least: u32,
    settled: impl Fn(&[i32], &[usize]) -> Option<(f64, bool)>,
) -> Result<(f64, bool), Error> {
    let mut marks: Vec<Mark> = Vec::with_capacity(64);
    // Stores before the cache at the end of each iteration.
    let mut backlog: Vec<usize> = Vec::with_capacity(64);
    let mut last_gap = None;
    let mut repeats = 0;
    let mut last_progress = 0;
    let longest = machine.block().uops.iter().map(|u| u.busy).max().unwrap_or(0);
    let stuck = STUCK + longest as i32;
    let period = machine.front().layout_period() as usize;
    let mut step = 0;
    loop {
        let (before, head) = (machine.retire().completed().len(), machine.retire().retired());
        machine.cycle(observer);
        let complete = machine.retire().completed().len();
        if machine.retire().retired() != head {
            last_progress = machine.now();
        } else if machine.now() - last_progress > stuck {
            return Err(Error::Block("the pipeline does not move with these parameters".into()));
        }
        if complete == before {
            continue;
        }
        backlog.resize(complete, machine.memory().backlog());
        if machine.now() >= machine.undecided() && complete >= ITERATIONS && complete >= least as usize {
            let piles_up = piles_up(&backlog[complete / 2 - 1..]);
            if !piles_up || machine.now() >= PILING_CYCLES {
                return Ok((throughput(machine.retire().completed()), false));
            }
        }
        if let Some(found) = settled(machine.retire().completed(), &backlog) {
            return Ok(found);
        }
        // Fingerprints cost as much as some cycles: take them at some distance.
        if machine.now() < 40 || complete < 2 {
            continue;
        }
        if step == 0 {
            let apart = complete * DISTANCE / machine.now() as usize;
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
            cycle: machine.now(),
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

/// Whether more stores wait for the cache after some iterations than before them: they do not limit the core yet.
fn piles_up(backlog: &[usize]) -> bool {
    let ends = backlog.first().zip(backlog.last());
    ends.is_some_and(|(first, last)| *last > first + PILING)
}

/// Throughput over the second half of the completed iterations.
fn throughput(completed: &[i32]) -> f64 {
    let n = completed.len();
    let half = n / 2;
    f64::from(completed[n - 1] - completed[half - 1]) / (n - half) as f64
}
