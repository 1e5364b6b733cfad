//! Instructions whose cost is a parameter of the core rather than a table row.

use crate::block::Drain;
use crate::block::StringUse;
use crate::core::choice::{Ends, Sides};
use crate::core::figures::{Figures, Shape};
use crate::core::params::Params;
use crate::error::Error;
use crate::isa::inst::{Decoded, Serial, Special};
use crate::isa::label::ANY;

/// Figures of a special instruction; `None` if the table has to know it.
///
/// # Errors
/// The core has no figures for it.
pub fn figures(d: &Decoded, params: &Params, strings: StringUse) -> Result<Option<Figures>, Error> {
    let s = &params.string;
    match d.special {
        Special::No => Ok(None),
        Special::Serialise(kind) => {
            let (name, Drain { cycles, .. }) = serial(kind, params);
            if cycles == 0 {
                return Err(unmeasured(&d.form, &format!("serial.{name}=N sets its cycles")));
            }
            Ok(Some(Figures {
                shape: Shape {
                    slots: 1,
                    mite: 1,
                    ports: Vec::new(),
                },
                ..Figures::default()
            }))
        }
        Special::RepMovs(bytes) => {
            let odd = odd(params, strings, bytes);
            let rates = Rates {
                name: "movs",
                points: match (bytes, odd) {
                    (1, _) => &s.movsb_cycles,
                    (8, false) => &s.movsq_cycles,
                    (8, true) => &s.movsq_odd_cycles,
                    _ => &[],
                },
                odd_line: if odd { s.movs_odd_line_cycles } else { 0.0 },
                startup: if bytes == 1 {
                    s.movs_startup.max(s.movsb_startup)
                } else {
                    s.movs_startup
                },
                end: s.movs_end_cycles,
                aligned: s.movs_rate,
                unaligned: s.movs_rate_unaligned,
            };
            string(d, params, strings, bytes, &rates).map(Some)
        }
        Special::RepStos(bytes) => {
            let rates = Rates {
                name: "stos",
                points: match (bytes, odd(params, strings, bytes)) {
                    (1, _) => &s.stosb_cycles,
                    (8, false) => &s.stosq_cycles,
                    (8, true) => &s.stosq_odd_cycles,
                    _ => &[],
                },
                odd_line: if odd(params, strings, bytes) {
                    s.stos_odd_line_cycles
                } else {
                    0.0
                },
                startup: s.stos_startup,
                end: s.stos_end_cycles,
                aligned: s.stos_rate,
                unaligned: s.stos_rate_unaligned,
            };
            string(d, params, strings, bytes, &rates).map(Some)
        }
    }
}

/// Whether a side that counts lies at no multiple of an element's size.
fn odd(params: &Params, strings: StringUse, bytes: u8) -> bool {
    let destination = strings.destination.unwrap_or(params.string.destination);
    let source = strings
        .source
        .filter(|_| params.string.odd_side == Sides::Either)
        .unwrap_or(0);
    [destination, source].iter().any(|side| side % u32::from(bytes) != 0)
}

/// The parameter of an instruction that waits for all before it: its name, and what it waits for.
pub fn serial(kind: Serial, params: &Params) -> (&'static str, Drain) {
    let p = &params.serial;
    let (name, cycles, overlap) = match kind {
        Serial::LoadFence => ("lfence", p.lfence, p.lfence_overlap),
        Serial::MemoryFence => ("mfence", p.mfence, 0),
        Serial::UserAccess => ("stac_clac", p.stac_clac, 0),
    };
    (name, Drain { cycles, overlap })
}

/// The cost of a core's string instructions of one kind: measured points, or cycles before the first
/// byte and then bytes per cycle.
struct Rates<'a> {
    name: &'static str,
    points: &'a [[u32; 3]],
    /// Cycles more for each 64 bytes.
    odd_line: f64,
    startup: f64,
    /// Cycles more of what ends misaligned, by points.
    end: f64,
    aligned: f64,
    unaligned: f64,
}

/// Cycles of a string instruction that are simulated at most.
const MOST_CYCLES: f64 = 1_000_000.0;

/// The core's parameter for an instruction is 0: nobody has measured it.
fn unmeasured(form: &str, fix: &str) -> Error {
    Error::Unknown(format!("{form}; {fix}"))
}

/// A string instruction keeps a unit of its own busy for its start-up and its bytes.
fn string(d: &Decoded, params: &Params, strings: StringUse, bytes: u8, rates: &Rates<'_>) -> Result<Figures, Error> {
    let destination = strings.destination.unwrap_or(params.string.destination);
    let count = strings.count.unwrap_or(params.string.count);
    let written = u64::from(count) * u64::from(bytes);
    let size = written as f64;
    let at = match params.string.aligned_at {
        Ends::Start => 0,
        Ends::End => written,
    };
    let element = if params.string.whole_elements {
        u64::from(bytes)
    } else {
        1
    };
    let lies_aligned = |behind: u64| {
        let place = u64::from(destination) + behind;
        (place - place % element) % u64::from(params.string.alignment.max(1)) == 0
    };
    let aligned = lies_aligned(at);
    let cycles = match between(rates.points, size, if aligned { 1 } else { 2 }) {
        Some(cycles) if size > end_from(params, rates.points) && !lies_aligned(written) => cycles + rates.end,
        Some(cycles) => cycles,
        None => at_rate(d, rates, size, aligned)?,
    };
    if cycles > MOST_CYCLES {
        return Err(Error::Block(format!(
            "{} of {count} elements takes {cycles:.0} cycles: at most {MOST_CYCLES:.0} are simulated, give a smaller count",
            d.form
        )));
    }
    let cycles = cycles.round().max(1.0) as u32;
    let unit = own_unit(params);
    Ok(Figures {
        shape: Shape {
            slots: 1,
            mite: 1,
            ports: vec![unit & unit.wrapping_neg()],
        },
        ms: 1,
        latency: vec![(ANY, ANY, cycles)],
        busy: cycles,
        ..Figures::default()
    })
}

/// Ports that compute and access no memory, where there are any: a uop of others would be a load or store. Where rename
/// fills schedulers evenly not the first, for which branches compete.
fn own_unit(params: &Params) -> u32 {
    let computing = params.mask(&params.ports.alu).unwrap_or(1);
    let first = if params.ports.balanced.is_empty() {
        0
    } else {
        computing & computing.wrapping_neg()
    };
    let own = computing & !params.memory_ports();
    let choices = [own & !first, own, computing];
    choices.into_iter().find(|ports| *ports != 0).unwrap_or(0)
}

/// Cycles for so many bytes by start-up and rate.
fn at_rate(d: &Decoded, rates: &Rates<'_>, size: f64, aligned: bool) -> Result<f64, Error> {
    let (rate, what, parameter) = if aligned {
        (rates.aligned, "", "")
    } else {
        (rates.unaligned, " unaligned", "_unaligned")
    };
    if rate <= 0.0 {
        return Err(unmeasured(
            &format!("{}{what}", d.form),
            &format!("string.{}_rate{parameter}=N sets its bytes per cycle", rates.name),
        ));
    }
    Ok(rates.startup + size / rate + size / 64.0 * rates.odd_line)
}

/// Bytes up to which a misaligned end takes no cycles more.
fn end_from(params: &Params, points: &[[u32; 3]]) -> f64 {
    if params.string.end_from > 0 {
        return f64::from(params.string.end_from);
    }
    let same = points.iter().take_while(|p| p[1..] == points[0][1..]);
    same.last().map_or(0.0, |p| f64::from(p[0]))
}

/// Cycles for so many bytes from measured points: on the line between its neighbours, beyond the
/// last point on the last line, below the first point as there. `None` without points.
fn between(points: &[[u32; 3]], size: f64, column: usize) -> Option<f64> {
    let place = |point: &[u32; 3]| (f64::from(point[0]), f64::from(point[column]));
    let (first, last) = (points.first().map(place)?, points.last().map(place)?);
    if size <= first.0 {
        return Some(first.1);
    }
    let pair = points.windows(2).find(|p| size <= f64::from(p[1][0]));
    let Some([a, b]) = pair.or(points.windows(2).last()) else {
        return Some(last.1);
    };
    let ((x, low), (end, high)) = (place(a), place(b));
    Some(low + (high - low) * (size - x) / (end - x).max(1.0))
}
