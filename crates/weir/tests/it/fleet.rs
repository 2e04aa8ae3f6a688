//! Databases and search engines of a fleet, and the relay that impairs connections to them.

mod engines;
mod relay;
