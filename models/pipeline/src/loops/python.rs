//! Finding loops, for Python.

use crate::isa::Isa;
use crate::loops::found::Refusal;
use crate::loops::search::find;
use crate::loops::section::Section;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

type Row = (Vec<(u32, u32)>, Vec<u32>, &'static str);

/// Find the innermost loops of a section: for each its path, its exits and why it is refused;
/// and how many hold another one, and how many bytes are no instructions.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub(crate) fn loops(
    py: Python<'_>,
    isa: &str,
    code: &[u8],
    starts: Vec<u32>,
    ends: Vec<u32>,
    entries: Vec<u32>,
    data: Vec<(u32, u32)>,
    address: u64,
) -> PyResult<(Vec<Row>, u32, u32)> {
    let isa = match isa {
        "x86_64" => Isa::X86,
        "arm64" => Isa::Arm64,
        other => return Err(PyValueError::new_err(format!("isa {other}: x86_64 or arm64"))),
    };
    if u32::try_from(code.len()).is_err() {
        return Err(PyValueError::new_err("a section of 4 GiB or more"));
    }
    let section = Section {
        isa,
        code,
        starts: &starts,
        ends: &ends,
        entries: &entries,
        data: &data,
        address: (address % 16) as u32,
    };
    let all = py.detach(|| find(&section));
    let rows = all
        .found
        .into_iter()
        .map(|l| (l.path, l.exits, l.refused.map_or("", said)));
    Ok((rows.collect(), all.outer, all.lost))
}

fn said(why: Refusal) -> &'static str {
    match why {
        Refusal::Calls => "calls",
        Refusal::Repeats => "repeats",
        Refusal::Indirect => "indirect",
        Refusal::Elsewhere => "elsewhere",
        Refusal::Doubtful => "doubtful",
    }
}
