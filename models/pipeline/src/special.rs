//! Instructions whose cost is a parameter of the core rather than a table row.

use crate::block::StringUse;
use crate::error::Error;
use crate::figures::{Figures, Shape, ANY};
use crate::inst::{Decoded, Special};
use crate::params::Params;

/// Figures of a special instruction; `None` if the table has to know it.
///
/// # Errors
/// The core has no figures for it.
pub fn figures(d: &Decoded, params: &Params, strings: StringUse) -> Result<Option<Figures>, Error> {
    let s = &params.string;
    match d.special {
        Special::No => Ok(None),
        Special::Serialise(kind) => {
            let (name, cycles) = match kind {
                0 => ("lfence", params.serial.lfence),
                1 => ("mfence", params.serial.mfence),
                _ => ("stac_clac", params.serial.stac_clac),
            };
            if cycles == 0 {
                return Err(unmeasured(&d.form, &format!("serial.{name}=N sets its cycles")));
            }
            Ok(Some(Figures {
                shape: Shape {
                    issue: 1,
                    mite: 1,
                    ports: Vec::new(),
                },
                ..Figures::default()
            }))
        }
        Special::RepMovs(bytes) => {
            let rates = Rates {
                name: "movs",
                startup: if bytes == 1 {
                    s.movs_startup.max(s.movsb_startup)
                } else {
                    s.movs_startup
                },
                aligned: s.movs_rate,
                unaligned: s.movs_rate_unaligned,
            };
            string(d, params, strings, bytes, &rates).map(Some)
        }
        Special::RepStos(bytes) => {
            let rates = Rates {
                name: "stos",
                startup: s.stos_startup,
                aligned: s.stos_rate,
                unaligned: s.stos_rate_unaligned,
            };
            string(d, params, strings, bytes, &rates).map(Some)
        }
    }
}

/// What a core's string instructions of one kind take: cycles before the first byte, then bytes
/// per cycle.
struct Rates {
    name: &'static str,
    startup: f64,
    aligned: f64,
    unaligned: f64,
}

/// The core's parameter for an instruction is 0: nobody has measured it.
fn unmeasured(form: &str, mend: &str) -> Error {
    Error::Unknown(format!("{form}; {mend}"))
}

/// A string instruction keeps a unit of its own busy for its start-up and its bytes.
fn string(d: &Decoded, params: &Params, strings: StringUse, bytes: u8, rates: &Rates) -> Result<Figures, Error> {
    let destination = strings.destination.unwrap_or(params.string.destination);
    let (rate, what, parameter) = if destination.is_multiple_of(params.string.alignment.max(1)) {
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
    let count = f64::from(strings.count.unwrap_or(params.string.count));
    let cycles = (rates.startup + count * f64::from(bytes) / rate)
        .round()
        .clamp(1.0, 60_000.0) as u16;
    let unit = params.mask(&params.ports.alu).unwrap_or(1);
    Ok(Figures {
        shape: Shape {
            issue: 1,
            mite: 1,
            ports: vec![unit & unit.wrapping_neg()],
        },
        ms: 1,
        latency: vec![(ANY, ANY, cycles)],
        busy: cycles,
        ..Figures::default()
    })
}
