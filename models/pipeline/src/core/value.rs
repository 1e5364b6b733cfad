//! Reading a parameter's value from `core.toml`, within its range.

use crate::core::choice::Word;
use crate::error::Error;
use std::fmt::Display;
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// A limit that there is not.
pub const UNLIMITED: u32 = u32::MAX;

/// Ports that a core may have: their letters and their places in what the choice of a port sorts.
pub const PORTS: usize = 24;

/// The place of a parameter: root, table and key.
pub(crate) struct Place<'a>(pub &'a Table, pub &'a str, pub &'a str);

impl<'a> Place<'a> {
    fn find(&self) -> Option<&'a Value> {
        let item = self.0.get(self.1)?.as_table()?.get(self.2)?;
        match item {
            Value::Table(inner) => inner.get("value"),
            plain => Some(plain),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Parameter(format!("{}.{}: {what}", self.1, self.2))
    }

    fn missing(&self) -> Error {
        self.wrong("missing")
    }

    fn within<T: PartialOrd + Display>(&self, value: T, range: &RangeInclusive<T>) -> Result<T, Error> {
        if range.contains(&value) {
            return Ok(value);
        }
        let (name, key, least, most) = (self.1, self.2, range.start(), range.end());
        Err(Error::Parameter(format!(
            "{name}.{key} = {value}: must be from {least} to {most}"
        )))
    }

    pub(crate) fn int(&self, default: Option<u32>, range: RangeInclusive<u32>) -> Result<u32, Error> {
        let Some(value) = self.find() else {
            return default.ok_or_else(|| self.missing());
        };
        let whole = value.as_integer().ok_or_else(|| self.wrong("must be a whole number"))?;
        self.within(whole, &(i64::from(*range.start())..=i64::from(*range.end())))
            .map(|v| v as u32)
    }

    /// A number, or the word for none.
    pub(crate) fn limit(&self, default: Option<u32>, range: RangeInclusive<u32>) -> Result<u32, Error> {
        match self.find().map(Value::as_str) {
            Some(Some("unlimited")) => Ok(UNLIMITED),
            Some(Some(_)) => Err(self.wrong("must be a whole number or unlimited")),
            _ => self.int(default, range),
        }
    }

    pub(crate) fn real(&self, default: Option<f64>, range: RangeInclusive<f64>) -> Result<f64, Error> {
        let Some(value) = self.find() else {
            return default.ok_or_else(|| self.missing());
        };
        let number = value.as_float().or_else(|| value.as_integer().map(|i| i as f64));
        self.within(number.ok_or_else(|| self.wrong("must be a number"))?, &range)
    }

    pub(crate) fn flag(&self, default: Option<bool>) -> Result<bool, Error> {
        match self.find() {
            Some(v) => v.as_bool().ok_or_else(|| self.wrong("must be true or false")),
            None => default.ok_or_else(|| self.missing()),
        }
    }

    /// Any text.
    pub(crate) fn text(&self, default: Option<&str>) -> Result<String, Error> {
        match self.find() {
            // A list of ports may be a number to TOML.
            Some(Value::Integer(i)) => Ok(i.to_string()),
            Some(v) => Ok(v.as_str().ok_or_else(|| self.wrong("must be text"))?.to_string()),
            None => default.map(str::to_string).ok_or_else(|| self.missing()),
        }
    }

    /// The value of a word, one of several.
    pub(crate) fn word<W: Word>(&self, default: Option<W>) -> Result<W, Error> {
        if self.find().is_none() {
            return default.ok_or_else(|| self.missing());
        }
        let text = self.text(None)?;
        let known = W::WORDS.iter().find(|(word, _)| *word == text);
        known.map(|(_, meant)| *meant).ok_or_else(|| {
            let words: Vec<&str> = W::WORDS.iter().map(|(word, _)| *word).collect();
            let (name, key) = (self.1, self.2);
            Error::Parameter(format!("{name}.{key} = {text}: must be {}", words.join(" or ")))
        })
    }

    pub(crate) fn triples(&self, _: Option<&[[u32; 3]]>) -> Result<Vec<[u32; 3]>, Error> {
        let Some(value) = self.find() else {
            return Ok(Vec::new());
        };
        let bad = || self.wrong("must be a list of rows of three whole numbers up to 10000000");
        let rows = value.as_array().ok_or_else(bad)?;
        rows.iter()
            .map(|row| {
                let row = row.as_array().filter(|r| r.len() == 3).ok_or_else(bad)?;
                let mut out = [0; 3];
                for (slot, v) in out.iter_mut().zip(row) {
                    *slot = v
                        .as_integer()
                        .and_then(|i| u32::try_from(i).ok())
                        .filter(|i| *i <= 10_000_000)
                        .ok_or_else(bad)?;
                }
                Ok(out)
            })
            .collect()
    }
}
