//! A throughput simulator of processor pipelines, front end included.
//!
//! A [`core::Core`] is read from `models/<microarch>/core.toml` and `instructions.csv`;
//! [`batch::run`] predicts many blocks on it, on all CPUs, and [`predict::predict`] one. The loop
//! `addq $1, %rax; jne`, on Zen 2 inside of a 64-byte line and across its end:
//!
//! ```
//! use loopwright_pipeline::batch::{run, Job};
//! use loopwright_pipeline::block::Notion;
//! use loopwright_pipeline::core::Core;
//!
//! let zen2 = Core::new(
//!     include_str!("../../zen2/core.toml"),
//!     include_str!("../../zen2/instructions.csv"),
//!     &[], // or pairs such as ("rename.width", "4")
//! )?;
//! let at = |offset| Job {
//!     code: vec![0x48, 0x83, 0xc0, 0x01, 0x75, 0xfa],
//!     offset,
//!     notion: Notion::Loop,
//!     ..Job::default()
//! };
//! let found = run(&zen2, &[at(0), at(61)], 0);
//! assert_eq!(found[0].as_ref().unwrap().cycles, 1.0);
//! assert_eq!(found[1].as_ref().unwrap().cycles, 2.0);
//! // What the core's table does not have is an error, and no figure.
//! let job = Job { code: vec![0x0f, 0xa2], ..Job::default() };
//! assert!(run(&zen2, &[job], 0)[0].is_err()); // cpuid
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules, in the order in which they build on each other: [`isa`], [`core`], [`block`],
//! [`engine`], [`observe`].
//!
//! # Features
//!
//! None by default. `mca` adds llvm-mca's command line as a function, `python` the Python module,
//! `wasm` what a page calls.
//!
//! # Versions
//!
//! Before 1.0 a change of the middle number may change any item. From 1.0 on semantic versioning
//! holds for items; a figure may change in any release, since cores are corrected as measurements
//! come: who compares figures pins the version and the tables.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod batch;
pub mod block;
pub mod block_offsets;
pub mod calls;
pub mod core;
pub mod engine;
pub mod error;
pub mod isa;
pub mod loop_offsets;
pub mod loops;
#[cfg(feature = "mca")]
pub mod mca;
pub mod observe;
pub mod parallel;
pub mod predict;
#[cfg(feature = "python")]
mod python;
#[cfg(feature = "wasm")]
pub mod wasm;
