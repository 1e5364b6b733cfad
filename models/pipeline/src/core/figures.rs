//! The table of instruction figures (`instructions.csv`) of one core.

use crate::core::params::Params;
use crate::error::Error;
use crate::isa::label::{fixed, kind_mask, Label, ANY, BRANCH_KINDS, FLAGS, MASK, MEM};
use std::collections::HashMap;

/// Uops of one variant of an instruction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Fused uops at rename and retirement.
    pub slots: u16,
    /// Fused uops from the decoders.
    pub mite: u16,
    /// Port masks, one for each executed uop.
    pub ports: Vec<u32>,
}

/// Figures of one instruction form.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Uops of the plain form.
    pub shape: Shape,
    /// Uops from the microcode sequencer.
    pub ms: u16,
    /// Needs the complex decoder; then how many simple ones remain usable.
    pub complex: Option<u16>,
    /// `(from, to, cycles)` between registers and flags.
    pub latency: Vec<(Label, Label, u32)>,
    /// Address to result.
    pub address: Vec<(Label, u32)>,
    /// Index register of `lea` to result.
    pub index: Vec<(Label, u32)>,
    /// Cycles that the unit stays busy.
    pub busy: u32,
    /// Cycles that each computing uop keeps its port from all others, 0 or 1: one.
    pub hold: u16,
    /// Kinds of branch that fuse with it.
    pub fuse: u16,
    /// Handled at rename without a port.
    pub eliminated: bool,
    /// Uops with an indexed address.
    pub indexed: Option<Shape>,
    /// Uops if all source registers are the same one.
    pub same: Option<Shape>,
    /// With the same register, latency from it; 0: no dependency.
    pub same_latency: Option<u32>,
}

impl Figures {
    /// Latency from one label to another, if listed; 0 means no dependency.
    pub fn between(&self, from: Label, to: Label) -> Option<u32> {
        let listed = |f: Label, t: Label| self.latency.iter().find(|l| l.0 == f && l.1 == t).map(|l| l.2);
        listed(from, to).or_else(|| listed(ANY, ANY))
    }

    /// Latency from the address to a result, if listed.
    pub fn from_address(&self, to: Label) -> Option<u32> {
        self.address.iter().find(|l| l.0 == to || l.0 == ANY).map(|l| l.1)
    }

    /// Latency from the index register of `lea` to a result, if listed.
    pub fn from_index(&self, to: Label) -> Option<u32> {
        self.index.iter().find(|l| l.0 == to || l.0 == ANY).map(|l| l.1)
    }

    /// Largest listed register latency, 1 if there is none.
    pub fn longest(&self) -> u32 {
        self.latency.iter().map(|l| l.2).max().unwrap_or(1).max(1)
    }
}

/// Figures of all forms of one core.
#[derive(Debug, Default)]
pub struct FigureTable {
    forms: HashMap<String, u32>,
    rows: Vec<Figures>,
}

/// The columns, in their order; the last, where a row's figures come from, may be missing.
const COLUMNS: [&str; 12] = [
    "mnemonic", "operands", "slots", "mite", "ms", "decoder", "ports", "latency", "flags", "indexed", "same", "source",
];

impl FigureTable {
    /// Read the table from the text of `instructions.csv`.
    ///
    /// # Errors
    /// Names the line that cannot be read.
    pub fn parse(text: &str, params: &Params) -> Result<FigureTable, Error> {
        let mut table = FigureTable::default();
        let mut header = false;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            if !header {
                header = true;
                let columns = split(line);
                if !matches!(columns.len(), 11 | 12) || !columns.iter().zip(COLUMNS).all(|(found, name)| found == name)
                {
                    let names = COLUMNS.join(",");
                    return Err(Error::Figures(format!(
                        "line {}: the columns are not {names}",
                        number + 1
                    )));
                }
                continue;
            }
            let bad = |what: &str| Error::Figures(format!("line {}: {what}", number + 1));
            let cells = split(line);
            // The last, where the row's figures come from, is for readers of the table.
            if !matches!(cells.len(), 11 | 12) {
                return Err(bad("11 or 12 columns expected"));
            }
            let figures = row(&cells, params).map_err(|what| bad(&what))?;
            let index = u32::try_from(table.rows.len()).map_err(|_| bad("too many rows"))?;
            table.rows.push(figures);
            for operands in cells[1].split(';') {
                let form = if operands.is_empty() {
                    cells[0].clone()
                } else {
                    format!("{} {operands}", cells[0])
                };
                table.forms.entry(form).or_insert(index);
            }
        }
        Ok(table)
    }

    /// Figures of a form, by its name.
    pub fn get(&self, form: &str) -> Option<&Figures> {
        self.forms.get(form).and_then(|i| self.rows.get(*i as usize))
    }

    /// Figures of a form; of the one with another constant where that with 0 is not listed.
    pub fn of(&self, form: &str) -> Option<&Figures> {
        let other = || form.contains(",0").then(|| form.replace(",0", ",i8"));
        let single = || form.ends_with(" 0").then(|| form.replace(" 0", " i8"));
        self.get(form)
            .or_else(|| self.get(&other()?))
            .or_else(|| self.get(&single()?))
    }

    /// Whether every load of AArch64 (`ldr`, `ldp`, `ld1`, ...) lists a latency from the address.
    pub fn lists_loads(&self) -> bool {
        let is_load = |form: &str| form.starts_with("ld");
        let row = |index: &u32| self.rows.get(*index as usize);
        let loads = self.forms.iter().filter(|(form, _)| is_load(form));
        loads
            .filter_map(|(_, index)| row(index))
            .all(|row| !row.address.is_empty())
    }

    /// Number of forms.
    pub fn len(&self) -> usize {
        self.forms.len()
    }

    /// Whether there are no figures at all.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }
}

fn split(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    cells.push(cell);
    cells
}

fn row(cells: &[String], params: &Params) -> Result<Figures, String> {
    let number = |i: usize| -> Result<u16, String> {
        let text = &cells[i];
        if text.is_empty() {
            return Ok(0);
        }
        text.parse::<u16>()
            .ok()
            .filter(|n| *n <= 512)
            .ok_or_else(|| format!("{text}: not a count"))
    };
    let mut figures = Figures {
        shape: Shape {
            slots: number(2)?,
            mite: number(3)?,
            ports: ports(&cells[6], params)?,
        },
        ms: number(4)?,
        complex: match cells[5].as_str() {
            "" => None,
            need => {
                let simple = need.strip_prefix('c').and_then(|n| n.parse().ok());
                Some(simple.ok_or_else(|| format!("decoder {need}"))?)
            }
        },
        ..Figures::default()
    };
    latencies(&cells[7], &mut figures)?;
    for flag in cells[8].split_whitespace() {
        if flag == "elim" {
            figures.eliminated = true;
        } else if let Some(value) = flag.strip_prefix("tp=") {
            let cycles: f64 = value.parse().map_err(|_| format!("flag {flag}"))?;
            if !(0.0..=f64::from(MOST)).contains(&cycles) {
                return Err(format!("flag {flag}"));
            }
            figures.busy = cycles.round() as u32;
        } else if let Some(value) = flag.strip_prefix("hold=") {
            figures.hold = value
                .parse()
                .ok()
                .filter(|cycles| (1..=100).contains(cycles))
                .ok_or_else(|| format!("flag {flag}"))?;
        } else if let Some(kinds) = flag.strip_prefix("fuse=") {
            if !kinds.chars().all(|c| BRANCH_KINDS.contains(c)) {
                return Err(format!("flag {flag}: kinds of branch are {BRANCH_KINDS}"));
            }
            figures.fuse = kind_mask(kinds);
        } else {
            return Err(format!("flag {flag}"));
        }
    }
    if !cells[9].is_empty() {
        figures.indexed = Some(shape(&cells[9], params)?);
    }
    if !cells[10].is_empty() {
        let (uops, latency) = cells[10].split_once('|').unwrap_or((&cells[10], ""));
        figures.same = Some(shape(uops, params)?);
        figures.same_latency = match latency.strip_prefix("*:") {
            Some(cycles) => Some(cycles_of(cycles).ok_or_else(|| format!("variant {}", cells[10]))?),
            None if latency.is_empty() => uops.ends_with(':').then_some(0),
            None => return Err(format!("variant {}", cells[10])),
        };
    }
    Ok(figures)
}

fn shape(text: &str, params: &Params) -> Result<Shape, String> {
    let mut parts = text.splitn(3, ':');
    let mut count = || parts.next().and_then(|p| p.parse::<u16>().ok()).filter(|n| *n <= 512);
    let (Some(slots), Some(mite)) = (count(), count()) else {
        return Err(format!("variant {text}"));
    };
    Ok(Shape {
        slots,
        mite,
        ports: ports(parts.next().unwrap_or(""), params)?,
    })
}

fn ports(text: &str, params: &Params) -> Result<Vec<u32>, String> {
    let mut out = Vec::new();
    for part in text.split('+').filter(|p| !p.is_empty()) {
        let (times, names) = part.split_once('*').unwrap_or(("1", part));
        let times: usize = times.parse().map_err(|_| format!("ports {part}"))?;
        let mask = params
            .mask(names)
            .ok_or_else(|| format!("ports {part}: not among {}", params.ports.names))?;
        if times > 512 {
            return Err(format!("ports {part}"));
        }
        out.extend(std::iter::repeat_n(mask, times));
    }
    Ok(out)
}

/// Cycles that an instruction of the table takes at most.
const MOST: u32 = 100_000;

fn cycles_of(text: &str) -> Option<u32> {
    text.parse().ok().filter(|c| *c <= MOST)
}

fn latencies(text: &str, figures: &mut Figures) -> Result<(), String> {
    for item in text.split_whitespace() {
        let bad = || format!("latency {item}");
        let (names, cycles) = item.split_once(':').ok_or_else(bad)?;
        let cycles = cycles_of(cycles).ok_or_else(bad)?;
        let (from, to) = names.split_once('>').unwrap_or((names, "*"));
        let to = label(to).ok_or_else(bad)?;
        match from {
            "a" => figures.address.push((to, cycles)),
            "x" => figures.index.push((to, cycles)),
            "*" => figures.latency.push((ANY, ANY, cycles)),
            other => figures.latency.push((label(other).ok_or_else(bad)?, to, cycles)),
        }
    }
    Ok(())
}

fn label(name: &str) -> Option<Label> {
    const LEGACY: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
    match name {
        "*" => Some(ANY),
        "f" => Some(FLAGS),
        "m" => Some(MEM),
        "k" => Some(MASK),
        _ => match name.as_bytes() {
            [d @ b'0'..=b'7'] => Some(d - b'0'),
            [b's', d @ b'0'..=b'9'] => Some(200 + d - b'0'),
            _ => LEGACY.iter().position(|r| *r == name).map(|i| fixed(i as u8)),
        },
    }
}
