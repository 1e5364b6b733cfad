//! Reading `core.toml`: overrides by dotted names, then the value of each parameter.

use crate::error::Error;
use crate::params::{Isa, Params};
use toml::{Table, Value};

impl Params {
    /// Read the parameters from the text of `core.toml`, then apply `overrides`
    /// (dotted names; `front_end=ideal` is short for `front_end.mode=ideal`).
    ///
    /// # Errors
    /// Names the parameter that is missing, unknown or of the wrong kind.
    pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Params, Error> {
        let mut root: Table = text.parse().map_err(|e| Error::Parameter(format!("core.toml: {e}")))?;
        for (name, value) in overrides {
            let name = if name == "front_end" { "front_end.mode" } else { name };
            if !Self::NAMES.contains(&name) {
                return Err(Error::Parameter(format!("{name}: no such parameter")));
            }
            let (table, key) = name.split_once('.').unwrap_or((name, ""));
            let parsed = format!("v = {value}")
                .parse::<Table>()
                .ok()
                .and_then(|t| t.get("v").cloned())
                .unwrap_or_else(|| Value::String(value.clone()));
            let slot = root.entry(table).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(slot) = slot {
                slot.insert(key.to_string(), parsed);
            }
        }
        let isa = match root.get("isa").and_then(Value::as_str) {
            Some("x86_64") => Isa::X86,
            Some("arm64") => Isa::Arm64,
            other => return Err(Error::Parameter(format!("isa: {}", other.unwrap_or("missing")))),
        };
        if !root.contains_key("rename") {
            return Err(Error::NoModel);
        }
        let params = Self::read(isa, &root)?;
        params.check()?;
        Ok(params)
    }
}

fn find<'a>(root: &'a Table, table: &str, key: &str) -> Option<&'a Value> {
    let item = root.get(table)?.as_table()?.get(key)?;
    match item {
        Value::Table(inner) => inner.get("value"),
        plain => Some(plain),
    }
}

fn wrong(table: &str, key: &str, what: &str) -> Error {
    Error::Parameter(format!("{table}.{key}: {what}"))
}

pub(crate) fn get_int(root: &Table, table: &str, key: &str, default: Option<u32>) -> Result<u32, Error> {
    match find(root, table, key) {
        Some(v) => v
            .as_integer()
            .and_then(|i| u32::try_from(i).ok())
            .ok_or_else(|| wrong(table, key, "must be a whole number that is not negative")),
        None => default.ok_or_else(|| wrong(table, key, "missing")),
    }
}

pub(crate) fn get_real(root: &Table, table: &str, key: &str, default: Option<f64>) -> Result<f64, Error> {
    match find(root, table, key) {
        Some(v) => v
            .as_float()
            .or_else(|| v.as_integer().map(|i| i as f64))
            .filter(|f| f.is_finite() && *f >= 0.0 && *f <= 1e6)
            .ok_or_else(|| wrong(table, key, "must be a number from 0 to 1e6")),
        None => default.ok_or_else(|| wrong(table, key, "missing")),
    }
}

pub(crate) fn get_flag(root: &Table, table: &str, key: &str, default: Option<bool>) -> Result<bool, Error> {
    match find(root, table, key) {
        Some(v) => v.as_bool().ok_or_else(|| wrong(table, key, "must be true or false")),
        None => default.ok_or_else(|| wrong(table, key, "missing")),
    }
}

pub(crate) fn get_text(root: &Table, table: &str, key: &str, default: Option<&str>) -> Result<String, Error> {
    match find(root, table, key) {
        Some(Value::Integer(i)) => Ok(i.to_string()),
        Some(v) => v
            .as_str()
            .map(str::to_string)
            .ok_or_else(|| wrong(table, key, "must be text")),
        None => default.map(str::to_string).ok_or_else(|| wrong(table, key, "missing")),
    }
}

pub(crate) fn get_triples(
    root: &Table,
    table: &str,
    key: &str,
    _: Option<&[[u32; 3]]>,
) -> Result<Vec<[u32; 3]>, Error> {
    let Some(value) = find(root, table, key) else {
        return Ok(Vec::new());
    };
    let bad = || wrong(table, key, "must be a list of rows of three whole numbers");
    let rows = value.as_array().ok_or_else(bad)?;
    rows.iter()
        .map(|row| {
            let row = row.as_array().filter(|r| r.len() == 3).ok_or_else(bad)?;
            let mut out = [0; 3];
            for (slot, v) in out.iter_mut().zip(row) {
                *slot = v
                    .as_integer()
                    .and_then(|i| u32::try_from(i).ok())
                    .filter(|i| *i <= 60_000)
                    .ok_or_else(bad)?;
            }
            Ok(out)
        })
        .collect()
}
