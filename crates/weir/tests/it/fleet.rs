//! Databases and search engines of a fleet.

mod engines;
