//! Names what limits a block, from what the units reported.

use crate::flight::Source;
use crate::machine::Machine;

/// Share of the cycles from which on a resource counts as fully used.
const FULL: f64 = 0.97;

/// Share of all cycles, the first ones with them, from which on the cache takes stores all the time.
const STORING: f64 = 0.9;

/// Name of the limiting resource: `port 4`, `divider on port 0`, `loop buffer`,
/// `issue`, `predecode`, `decode`, `microcode`, `uop cache` or
/// `dependency chain through instructions 0-3`.
pub fn name(machine: &Machine, cycles: f64) -> String {
    let block = machine.block;
    let full = |used: f64| used >= FULL * cycles;
    let names: Vec<char> = machine.params.ports.names.chars().collect();
    if block.slots.iter().any(|s| s.serial.is_some()) {
        return "serialising instruction".into();
    }
    let (port, uses) = busiest_port(machine);
    let busy: f64 = block
        .uops
        .iter()
        .filter(|u| u.busy > 1)
        .map(|u| f64::from(u.busy))
        .sum();
    if busy > 0.0 && full(busy) {
        return if block.insts.iter().any(|i| i.ms > 0) {
            "microcode".into()
        } else {
            format!("divider on port {}", unit(machine))
        };
    }
    if machine.commit.busy as f64 > STORING * f64::from(machine.now.max(1)) {
        return "stores into the cache".into();
    }
    let width = f64::from(machine.params.rename.width);
    let slots = block.slots.len() as f64;
    if machine.lsd.active {
        let copies = f64::from(machine.lsd.copies);
        let groups = (slots * copies / width).ceil() / copies;
        if full(groups) && slots / width < FULL * groups {
            return "loop buffer".into();
        }
    }
    let by = &machine.rename.starved_by;
    let total = machine.now.max(1) as f64;
    let starved: u64 = by.iter().sum();
    let blocked = machine.rename.blocked as f64 / total;
    let offered = width - slots / cycles;
    let missing = starved as f64 / total;
    let hungry = missing > 0.5 * offered && blocked < 0.5;
    // A full port whose uops had others to go to limits nothing while the front end is late.
    if full(uses) && (!hungry || full(least_by_ports(machine))) {
        return format!("port {}", names.get(port).copied().unwrap_or('?'));
    }
    if full(slots / width) {
        return "issue".into();
    }
    if hungry {
        return front_end(machine, by).into();
    }
    chain(machine)
}

fn busiest_port(machine: &Machine) -> (usize, f64) {
    let iterations = machine.retire.completed.len().max(1) as f64;
    (0..machine.sched.ports)
        .map(|p| (p, machine.port_uses[p] as f64 / iterations))
        .fold((0, 0.0), |best, next| if next.1 > best.1 { next } else { best })
}

/// Cycles an iteration that the uops take at least, however they are spread: the
/// most over sets of ports of the uops that can go nowhere else.
fn least_by_ports(machine: &Machine) -> f64 {
    let uops = || machine.block.uops.iter().map(|u| u.ports).filter(|p| *p != 0);
    let mut kinds: Vec<_> = uops().collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
        .iter()
        .flat_map(|a| kinds.iter().map(move |b| a | b))
        .map(|set| {
            let inside = uops().filter(|p| p & !set == 0).count();
            inside as f64 / f64::from(set.count_ones())
        })
        .fold(0.0, f64::max)
}

fn unit(machine: &Machine) -> char {
    let slow = machine
        .block
        .uops
        .iter()
        .find(|u| u.busy > 1)
        .map_or(0, |u| u.ports.trailing_zeros() as usize);
    machine.params.ports.names.chars().nth(slow).unwrap_or('?')
}

fn front_end(machine: &Machine, by: &[u64; 5]) -> &'static str {
    let units = [
        Source::Predecode,
        Source::Decode,
        Source::Microcode,
        Source::UopCache,
        Source::LoopBuffer,
    ];
    let most = units
        .iter()
        .max_by_key(|u| by[**u as usize])
        .copied()
        .unwrap_or(Source::Decode);
    match most {
        Source::Predecode if machine.mode.predecoded => "predecode",
        Source::Predecode => "fetch",
        // Decoders that wait for instructions are not what limits.
        Source::Decode if machine.queue.len() < machine.params.decode.width as usize && machine.mode.predecoded => {
            "predecode"
        }
        Source::Decode => "decode",
        Source::Microcode => "microcode",
        Source::UopCache => "uop cache",
        Source::LoopBuffer => "loop buffer",
    }
}

/// The cycle of instructions that wait for each other.
fn chain(machine: &Machine) -> String {
    let mut at = machine.critical.len().saturating_sub(1) as u16;
    let mut steps = Vec::new();
    while !steps.contains(&at) {
        steps.push(at);
        at = machine.critical[usize::from(at)];
    }
    let from = steps.iter().position(|s| *s == at).unwrap_or(0);
    let cycle = &steps[from..];
    let (first, last) = (
        cycle.iter().min().copied().unwrap_or(0),
        cycle.iter().max().copied().unwrap_or(0),
    );
    if first == last {
        format!("dependency chain through instruction {first}")
    } else {
        format!("dependency chain through instructions {first}-{last}")
    }
}
