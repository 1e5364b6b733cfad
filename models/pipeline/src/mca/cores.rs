//! The cores that can be named: folders of `models/`, or texts inside the program.

use std::path::PathBuf;
use toml::{Table, Value};

/// A core's id and the texts of its `core.toml` and `instructions.csv`.
pub type Texts = (String, String, String);

/// Where cores are found.
#[derive(Clone, Debug)]
pub enum Cores {
    /// A folder with a folder for each core.
    Folder(PathBuf),
    /// Texts: id, `core.toml`, `instructions.csv`.
    Inside(&'static [(&'static str, &'static str, &'static str)]),
}

impl Cores {
    /// The core that a name stands for: its id, or the name that LLVM has for it.
    ///
    /// # Errors
    /// No core has that name.
    pub fn find(&self, name: &str) -> Result<Texts, String> {
        let ids = self.ids();
        let by_id = ids.iter().find(|id| *id == name);
        let called = || {
            let mut known = ids.iter().filter(|id| self.llvm(id).as_deref() == Some(name));
            known.next()
        };
        let Some(id) = by_id.or_else(called) else {
            let known = self.names().join(", ");
            return Err(format!("-mcpu={name}: no such core here; known: {known}"));
        };
        let read = |file: &str| {
            self.text(id, file)
                .ok_or_else(|| format!("{id}: {file} cannot be read"))
        };
        Ok((id.clone(), read("core.toml")?, read("instructions.csv")?))
    }

    /// The names of all cores: LLVM's, and the id where it is another.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for id in self.ids() {
            let llvm = self.llvm(&id).filter(|name| *name != id && !names.contains(name));
            names.extend(llvm);
            names.push(id);
        }
        names
    }

    fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = match self {
            Cores::Inside(all) => all.iter().map(|(id, ..)| (*id).to_string()).collect(),
            Cores::Folder(root) => std::fs::read_dir(root)
                .into_iter()
                .flatten()
                .filter_map(|entry| {
                    let path = entry.ok()?.path();
                    let complete = path.join("core.toml").is_file() && path.join("instructions.csv").is_file();
                    complete.then(|| path.file_name().map(|n| n.to_string_lossy().into_owned()))?
                })
                .collect(),
        };
        ids.sort();
        ids
    }

    fn text(&self, id: &str, file: &str) -> Option<String> {
        match self {
            Cores::Folder(root) => std::fs::read_to_string(root.join(id).join(file)).ok(),
            Cores::Inside(all) => {
                let (_, core, instructions) = all.iter().find(|(known, ..)| *known == id)?;
                Some(if file == "core.toml" { core } else { instructions }.to_string())
            }
        }
    }

    fn llvm(&self, id: &str) -> Option<String> {
        let table: Table = self.text(id, "core.toml")?.parse().ok()?;
        table
            .get("called")?
            .get("llvm")
            .and_then(Value::as_str)
            .map(String::from)
    }
}
