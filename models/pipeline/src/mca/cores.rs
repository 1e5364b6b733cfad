//! The cores that can be named: folders of `models/`, or texts inside the program.

use crate::core::Core;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use toml::{Table, Value};

/// Texts of cores: id, `core.toml`, `instructions.csv`.
pub type Texts = &'static [(&'static str, &'static str, &'static str)];

/// The place where cores are found.
#[derive(Clone, Debug)]
enum Place {
    Folder(PathBuf),
    Inside(Texts),
}

/// The cores of a place, each read once.
#[derive(Debug)]
pub struct Cores {
    place: Place,
    known: RefCell<BTreeMap<String, Rc<Core>>>,
}

impl Cores {
    /// Those of a folder with a folder for each core.
    pub fn folder(root: PathBuf) -> Cores {
        Cores::at(Place::Folder(root))
    }

    /// Those of texts inside the program.
    pub fn inside(texts: Texts) -> Cores {
        Cores::at(Place::Inside(texts))
    }

    fn at(place: Place) -> Cores {
        Cores {
            place,
            known: RefCell::default(),
        }
    }

    /// A core and its id, by the id or the name that LLVM has for it, with parameters set otherwise.
    ///
    /// # Errors
    /// No core has that name, or its texts or the parameters are not as they must be.
    pub fn core(&self, name: &str, overrides: &[(String, String)]) -> Result<(String, Rc<Core>), String> {
        let known = self.known.borrow().get(name).cloned().filter(|_| overrides.is_empty());
        if let Some(core) = known {
            return Ok((name.into(), core));
        }
        let (id, core_toml, instructions) = self.find(name)?;
        let core = Core::new(&core_toml, &instructions, overrides).map_err(|e| format!("{id}: {e}"))?;
        let core = Rc::new(core);
        if overrides.is_empty() {
            self.known.borrow_mut().insert(id.clone(), core.clone());
        }
        Ok((id, core))
    }

    fn find(&self, name: &str) -> Result<(String, String, String), String> {
        let ids = self.ids();
        let by_id = ids.iter().find(|id| *id == name);
        let called = || ids.iter().find(|id| self.llvm(id).iter().any(|known| known == name));
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
            let llvm = self.llvm(&id).into_iter();
            let new: Vec<String> = llvm.filter(|name| *name != id && !names.contains(name)).collect();
            names.extend(new);
            names.push(id);
        }
        names
    }

    /// The ids of all cores, sorted.
    pub fn ids(&self) -> Vec<String> {
        let mut ids: Vec<String> = match &self.place {
            Place::Inside(all) => all.iter().map(|(id, ..)| (*id).to_string()).collect(),
            Place::Folder(root) => std::fs::read_dir(root)
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
        match &self.place {
            Place::Folder(root) => std::fs::read_to_string(root.join(id).join(file)).ok(),
            Place::Inside(all) => {
                let (_, core, instructions) = all.iter().find(|(known, ..)| *known == id)?;
                Some(if file == "core.toml" { core } else { instructions }.to_string())
            }
        }
    }

    /// LLVM's names of a core.
    fn llvm(&self, id: &str) -> Vec<String> {
        let table: Option<Table> = self.text(id, "core.toml").and_then(|text| text.parse().ok());
        let called = table.as_ref().and_then(|table| table.get("called"));
        let words = |key: &str| {
            let text = called.and_then(|names| names.get(key)).and_then(Value::as_str);
            text.unwrap_or_default().split_whitespace().map(String::from)
        };
        words("llvm").chain(words("llvm_also")).collect()
    }
}
