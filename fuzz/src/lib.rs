//! What is fuzzed: one function a target, which panics when a property does not hold.
//!
//! `targets/` hands these functions to libFuzzer. `mutations.rs` runs the same functions over the seeds and
//! random changes of them: within `cargo test`, and where no fuzzer can be had.

pub mod agents;
pub mod configuration;
pub mod map;
pub mod mutations;
pub mod paths;
pub mod validation;
pub mod wire;

/// A property check over any bytes.
pub type Check = fn(&[u8]);

/// Every target by name; each has a folder of this name under `seeds/` and a file in `targets/`.
pub const TARGETS: &[(&str, Check)] = &[
    ("requests", wire::requests),
    ("answers", wire::answers),
    ("agents", agents::agents),
    ("paths", paths::paths),
    ("configuration", configuration::configuration),
    ("map", map::map),
    ("validation", validation::validation),
];
