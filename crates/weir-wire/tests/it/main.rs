//! The codec's properties on generated messages, whole and damaged.

mod generated;
#[expect(unreachable_pub, reason = "written for the fuzz targets, which are another crate")]
#[path = "../../../../fuzz/src/wire.rs"]
mod properties;
