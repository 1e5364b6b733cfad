//! A throughput simulator of processor pipelines, front end included.
//!
//! A [`predict::Core`] is read from `models/<microarch>/core.toml` and
//! `instructions.csv`; [`predict::predict`] runs one block on it. Each unit of the
//! pipeline has a module of its own; all of them share [`machine::Machine`].

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod aliasing;
pub mod arm64;
mod arm64_compute;
mod arm64_float;
mod arm64_flow;
pub mod arm64_integer;
pub mod arm64_memory;
mod arm64_simd;
mod arm64_uops;
pub mod arm64_vector;
pub mod batch;
pub mod block;
pub mod bottleneck;
pub mod cache_plan;
pub mod caveats;
pub mod chains;
pub mod commit;
pub mod compute;
pub mod decode;
pub mod eliminate;
pub mod error;
pub mod events;
pub mod fetch;
pub mod figures;
pub mod flight;
pub mod fusion;
pub mod ideal;
pub mod inst;
pub mod layout;
pub mod layout_branches;
pub mod layout_slots;
pub mod layout_sums;
pub mod limits;
pub mod loop_buffer;
pub mod machine;
pub mod memory;
pub mod outline;
pub mod params;
pub mod params_check;
pub mod params_choice;
pub mod params_inert;
pub mod params_read;
pub mod places;
pub mod ports;
pub mod predecode;
pub mod predict;
#[cfg(feature = "python")]
mod python;
pub mod ready;
pub mod rename;
pub mod retire;
pub mod scheduler;
pub mod scratch;
pub mod special;
pub mod split;
pub mod steady;
pub mod targets;
pub mod timeline;
pub mod uop_cache;
pub mod uops;
pub mod usage;
pub mod values;
pub mod x86;
pub mod x86_effects;
pub mod x86_form;
