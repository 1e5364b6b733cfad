//! Reading `core.toml`: overrides by dotted names, then the value of each parameter.

use crate::core::params::Params;
use crate::error::Error;
use crate::isa::Isa;
use std::collections::HashSet;
use toml::{Table, Value};

impl Params {
    /// Read the parameters from the text of `core.toml`, then apply `overrides`
    /// (dotted names; `front_end=ideal` is short for `front_end.mode=ideal`).
    ///
    /// # Errors
    /// Names the parameter that is missing, unknown, of the wrong kind or out of its range, or the
    /// override that could do nothing on this core.
    pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Params, Error> {
        let mut root: Table = text.parse().map_err(|e| Error::Parameter(format!("core.toml: {e}")))?;
        let names = Self::names();
        for (name, value) in overrides {
            let name = if name == "front_end" { "front_end.mode" } else { name };
            if !names.contains(&name) {
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
        Self::known(&root, &names)?;
        let params = Self::read(isa, &root)?;
        params.check()?;
        for (name, _) in overrides {
            if let Some(why) = params.inert(name) {
                return Err(Error::Parameter(format!("{name} does nothing here: {why}")));
            }
        }
        Ok(params)
    }

    /// Refuse keys of the simulator's tables that are no parameters.
    fn known(root: &Table, names: &[&str]) -> Result<(), Error> {
        let table_of = |name: &&str| name.split_once('.').map_or("", |(table, _)| table).to_string();
        let tables: HashSet<String> = names.iter().map(table_of).collect();
        for (table, keys) in root.iter().filter(|(table, _)| tables.contains(*table)) {
            for key in keys.as_table().into_iter().flat_map(|t| t.keys()) {
                let name = format!("{table}.{key}");
                if !names.contains(&name.as_str()) {
                    return Err(Error::Parameter(format!("{name}: no such parameter")));
                }
            }
        }
        Ok(())
    }
}
