//! A throughput simulator of processor pipelines, front end included.
//!
//! A [`core::Core`] is read from `models/<microarch>/core.toml` and
//! `instructions.csv`; [`predict::predict`] runs one block on it. The rooms, in the order in
//! which they build on each other: [`isa`], [`core`], [`block`], [`engine`], [`observe`].

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
