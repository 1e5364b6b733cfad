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
            let cycles = match kind {
                0 => params.serial.lfence,
                1 => params.serial.mfence,
                _ => params.serial.stac_clac,
            };
            if cycles == 0 {
                return Err(Error::Unknown(d.form.clone()));
            }
            Ok(Some(Figures { shape: Shape { issue: 1, mite: 1, ports: Vec::new() }, ..Figures::default() }))
        }
        Special::RepMovs(bytes) => {
            let startup = if bytes == 1 { s.movs_startup.max(s.movsb_startup) } else { s.movs_startup };
            string(d, params, strings, bytes, startup, s.movs_rate, s.movs_rate_unaligned).map(Some)
        }
        Special::RepStos(bytes) => {
            string(d, params, strings, bytes, s.stos_startup, s.stos_rate, s.stos_rate_unaligned).map(Some)
        }
    }
}

/// A string instruction keeps a unit of its own busy for its start-up and its bytes.
fn string(
    d: &Decoded,
    params: &Params,
    strings: StringUse,
    bytes: u8,
    startup: f64,
    rate: f64,
    rate_unaligned: f64,
) -> Result<Figures, Error> {
    let destination = strings.destination.unwrap_or(params.string.destination);
    let aligned = destination.is_multiple_of(params.string.alignment.max(1));
    let rate = if aligned { rate } else { rate_unaligned };
    if rate <= 0.0 {
        return Err(Error::Unknown(if aligned { d.form.clone() } else { format!("{} unaligned", d.form) }));
    }
    let count = f64::from(strings.count.unwrap_or(params.string.count));
    let cycles = (startup + count * f64::from(bytes) / rate).round().clamp(1.0, 60_000.0) as u16;
    let unit = params.mask(&params.ports.alu).unwrap_or(1);
    Ok(Figures {
        shape: Shape { issue: 1, mite: 1, ports: vec![unit & unit.wrapping_neg()] },
        ms: 1,
        latency: vec![(ANY, ANY, cycles)],
        busy: cycles,
        ..Figures::default()
    })
}
